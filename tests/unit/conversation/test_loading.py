"""What an agent is shown of a person before a reply, over a ledger on SQLite."""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from support.kept_conversations import (
    SPACE,
    EmbeddingBackend,
    arc,
    begin,
    embedded,
    embedder_is_away,
    fact,
    hashed,
    keep,
    owner,
    rule,
    without_vectors,
)
from support.ledger_records import COMPANY, StoppedClock

from memcore.backends.protocol import MemoryBackend
from memcore.config.conversation import ConversationConfig
from memcore.conversation.entries import TurnContext
from memcore.conversation.loading import Index, TurnLoader
from memcore.embedding.bm25 import Tokenizer
from memcore.errors import MemoryConfigError, MemoryConnectionError
from memcore.ledger.conversation.memory import ConversationMemory, Embedded, Searchable
from memcore.ledger.ledger import Ledger
from memcore.models.conversation import FactState, Owner

ADA = owner()


@dataclass(kw_only=True)
class Place:
    """A ledger, an embedder, and the loader over both."""

    ledger: Ledger
    clock: StoppedClock
    backend: EmbeddingBackend
    opened: int = 0
    cannot_open: Exception | None = None

    def loader(self, **config: Any) -> TurnLoader:
        return TurnLoader(
            self.ledger, company=COMPANY, config=ConversationConfig.model_validate(config), clock=self.clock
        )

    async def open_backend(self) -> MemoryBackend:
        self.opened += 1
        if self.cannot_open is not None:
            raise self.cannot_open
        return self.backend

    def load(self, text: str, whose: Owner = ADA, *, loader: TurnLoader | None = None, **more: Any) -> TurnContext:
        given = loader or self.loader()
        return asyncio.run(given.load_turn(whose, text, open_backend=self.open_backend, **more))


@pytest.fixture
def place(ledger: Ledger, clock: StoppedClock) -> Place:
    return Place(ledger=ledger, clock=clock, backend=EmbeddingBackend())


def shown(context: TurnContext) -> list[str]:
    return [each.fact_id for each in context.facts]


def test_the_facts_that_a_turn_is_about_are_found_best_first(place: Place) -> None:
    at = place.clock.now
    keep(
        place.ledger,
        ADA,
        fact("tea", "I drink green tea every morning", at=at),
        fact("boss", "my boss is terrible", at=at),
        fact("boss-again", "the boss shouted", at=at),
    )
    assert shown(place.load("my terrible boss again")) == ["boss", "boss-again"]
    assert shown(place.load("quantum chromodynamics")) == []


def test_by_meaning_alone_a_fact_without_a_shared_word_is_found(place: Place) -> None:
    place.backend.table = {"how is the office?": (1.0, 0.0)}
    vectors = {"boss": embedded(0.9, 0.1), "tea": embedded(0.0, 1.0)}
    at = place.clock.now
    keep(place.ledger, ADA, fact("boss", "my boss", at=at), fact("tea", "green tea", at=at), vectors=vectors)
    assert shown(place.load("how is the office?")) == ["boss"]


def words(first: str, count: int, *, more: int = 0) -> str:
    """Return so many different words of a letter, and some that nothing else has."""
    return " ".join([*(f"{first}{number}" for number in range(count)), *(f"z{number}" for number in range(more))])


#: A record of words, a question, and whether it is found: a third of the question's words, or two of them that are two
#: fifths of the record's own.
BY_WORDS = [
    ("alpha", "alpha bravo charlie", True),
    ("alpha", "alpha bravo charlie delta", False),
    ("alpha bravo zulu yankee xray", "alpha bravo charlie delta echo foxtrot golf", True),
    ("alpha bravo zulu yankee xray whiskey", "alpha bravo charlie delta echo foxtrot golf", False),
    ("alpha", "alpha bravo charlie delta echo foxtrot golf", False),
    ("alpha alpha alpha", "alpha bravo charlie delta", False),
    # A third, and a hair less than .33; two fifths of the record, and a hair less.
    (words("k", 8, more=99), words("k", 24), True),
    (words("k", 8, more=99), words("k", 25), False),
    (words("k", 4, more=6), words("k", 99), True),
    (words("k", 11, more=17), words("k", 99), False),
    ("我喜欢绿茶", "绿茶", True),
    ("Мой начальник ужасен", "опять начальник", True),
    ("mi jefe es terrible y no me escucha", "¿qué hago con mis jefes?", True),
]


@pytest.mark.parametrize(("record", "question", "is_found"), BY_WORDS)
def test_what_is_found_by_words(record: str, question: str, is_found: bool) -> None:
    entry = arc("s", record, at=StoppedClock().now)
    index = Index([Searchable(entry, None)], Tokenizer())
    assert index.best(question, None, shown=1) == ([0] if is_found else [])


#: Vectors of a fact whose cosine with (1, 0, 0, 0) is the first number.
BY_MEANING = [
    ((1.0, 1.0, 1.0, 1.0), SPACE, True),
    ((0.498, math.sqrt(1 - 0.498**2), 0.0, 0.0), SPACE, False),
    ((0.502, math.sqrt(1 - 0.502**2), 0.0, 0.0), SPACE, True),
    ((-1.0, 0.0, 0.0, 0.0), SPACE, False),
    ((0.0, 0.0, 0.0, 0.0), SPACE, False),
    ((1.0, 0.0, 0.0, 0.0), "another embedder's", False),
    ((1.0, 0.0), SPACE, False),
]


@pytest.mark.parametrize(("vector", "space", "is_found"), BY_MEANING)
def test_what_is_found_by_meaning(vector: Sequence[float], space: str, is_found: bool) -> None:
    entry = fact("f", "nothing shared", at=StoppedClock().now)
    index = Index([Searchable(entry, embedded(*vector, space=space))], Tokenizer())
    assert index.best("other words", embedded(1.0, 0.0, 0.0, 0.0), shown=1) == ([0] if is_found else [])


def test_a_question_without_meaning_to_the_model_is_near_nothing() -> None:
    index = Index([Searchable(fact("f", "x", at=StoppedClock().now), embedded(1.0, 0.0))], Tokenizer())
    assert index.best("other", embedded(0.0, 0.0), shown=1) == []


def test_words_and_meaning_are_weighed_and_equals_stay_as_they_were_written() -> None:
    at = StoppedClock().now
    index = Index(
        [
            # Less near; found both ways; by words alone; nearest.
            Searchable(fact("far", "nothing", at=at), embedded(0.7, 0.7)),
            Searchable(fact("both", "alpha bravo", at=at), embedded(0.9, 0.4)),
            Searchable(fact("words", "alpha bravo", at=at), None),
            Searchable(fact("near", "nothing", at=at), embedded(1.0, 0.0)),
        ],
        Tokenizer(),
    )
    question = embedded(1.0, 0.0)
    assert index.best("alpha bravo", question, shown=4, dense_weight=0.3) == [1, 2, 3, 0]
    assert index.best("alpha bravo", question, shown=4, dense_weight=0.7) == [1, 3, 0, 2]
    assert index.best("alpha bravo", question, shown=2, dense_weight=0.3) == [1, 2]
    assert index.best("alpha bravo", None, shown=4) == [1, 2]


def test_a_rare_word_says_more_than_a_common_one() -> None:
    at = StoppedClock().now
    common = [Searchable(fact(f"c-{n}", "alpha", at=at), None) for n in range(5)]
    index = Index([*common, Searchable(fact("rare", "bravo", at=at), None)], Tokenizer())
    assert index.best("alpha bravo", None, shown=1) == [5]


def test_what_is_found_by_words_counts_its_cosine_too() -> None:
    at = StoppedClock().now
    entries = [Searchable(fact(f"f-{n}", "alpha", at=at), embedded(*vector)) for n, vector in enumerate(_NOT_NEAR)]
    index = Index(entries, Tokenizer())
    assert index.best("alpha", embedded(1.0, 0.0), shown=2, dense_weight=0.3) == [1, 0]


#: Vectors whose cosines with (1, 0) are .1 and .4.
_NOT_NEAR = ((0.1, math.sqrt(1 - 0.1**2)), (0.4, math.sqrt(1 - 0.4**2)))


def test_only_facts_that_hold_are_shown(place: Place) -> None:
    at = place.clock.now
    keep(place.ledger, ADA, *(fact(name, "my boss is terrible", at=at) for name in ("old", "gone", "aged", "back")))
    keep(place.ledger, ADA, fact("new", "my boss is terrible", at=at), superseded={"old": "new"})
    change = place.ledger.conversation.change_state
    change(COMPANY, ADA, ["gone", "back"], to=FactState.FORGOTTEN, sources=[FactState.ACTIVE])
    change(COMPANY, ADA, ["aged"], to=FactState.ARCHIVED, sources=[FactState.ACTIVE])
    loader = place.loader()
    assert shown(place.load("my boss is terrible", loader=loader)) == ["new"]
    change(COMPANY, ADA, ["back"], to=FactState.ACTIVE, sources=[FactState.FORGOTTEN])
    assert shown(place.load("my boss is terrible", loader=loader)) == ["back", "new"]


def test_rules_are_all_shown_the_newest_first_whatever_the_turn_is_about(place: Place) -> None:
    at = place.clock.now
    first, second = rule("r-1", "Be brief.", at=at), rule("r-2", "Call me Ada.", at=at + timedelta(hours=1))
    keep(place.ledger, ADA, first, second)
    context = place.load("quantum chromodynamics")
    assert [each.rule_id for each in context.rules] == ["r-2", "r-1"]
    assert place.opened == 0


def test_sessions_are_found_within_the_days_of_the_policy_and_the_latest_on_a_first_turn_at_any_age(
    place: Place,
) -> None:
    now = place.clock.now
    edge = now - timedelta(days=30)
    keep(
        place.ledger,
        ADA,
        arc("beyond", "a talk about the boss", at=edge - timedelta(seconds=1)),
        arc("within", "a talk about the boss", at=edge),
    )
    context = place.load("the boss", is_first_turn=False)
    assert [each.session_id for each in context.arcs] == ["within"]
    assert context.latest_arc is None

    place.clock.advance(timedelta(days=1))
    context = place.load("the boss", is_first_turn=True)
    assert context.arcs == ()
    assert context.latest_arc is not None
    assert context.latest_arc.session_id == "within"
    assert place.load("the boss", is_first_turn=False).latest_arc is None


def test_the_latest_session_is_not_shown_twice(place: Place) -> None:
    now = place.clock.now
    keep(
        place.ledger,
        ADA,
        arc("before", "a talk about the boss", at=now - timedelta(days=1)),
        arc("latest", "a talk about the boss", at=now),
    )
    context = place.load("the boss", is_first_turn=True)
    assert context.latest_arc is not None
    assert context.latest_arc.session_id == "latest"
    assert [each.session_id for each in context.arcs] == ["before"]
    later = place.load("the boss", is_first_turn=False)
    assert [each.session_id for each in later.arcs] == ["before", "latest"]


def test_the_first_turn_of_a_session_is_the_one_before_anything_was_recorded_of_it(place: Place) -> None:
    now = place.clock.now
    keep(place.ledger, ADA, arc("before", "a talk", at=now - timedelta(days=100)))
    loader = place.loader()
    assert place.load("hello", loader=loader, session_id="today").latest_arc is not None
    # Another person's session of the same name is another session.
    begin(place.ledger, owner(subject="user:grace"), "today", at=now)
    assert place.load("hello", loader=loader, session_id="today").latest_arc is not None
    begin(place.ledger, ADA, "today", at=now)
    assert place.load("hello", loader=loader, session_id="today").latest_arc is None
    assert place.load("hello", loader=loader, session_id="today", is_first_turn=True).latest_arc is not None
    # Without a session nobody knows.
    assert place.load("hello", loader=loader).latest_arc is None


def test_what_is_turned_off_shows_nothing_and_says_so(place: Place) -> None:
    at = place.clock.now
    keep(place.ledger, ADA, fact("boss", "my boss", at=at), rule("r", "Be brief.", at=at), arc("s", "boss", at=at))
    loader = place.loader()
    place.load("my boss", loader=loader)
    place.ledger.conversation.set_recall(COMPANY, ADA, is_on=False)
    context = place.load("my boss", loader=loader, is_first_turn=True)
    assert (context.facts, context.rules, context.arcs, context.latest_arc) == ((), (), (), None)
    assert context.reasons == ("recall_off",)
    assert context.messages() == ()
    place.ledger.conversation.set_recall(COMPANY, ADA, is_on=True)
    assert shown(place.load("my boss", loader=loader)) == ["boss"]


@pytest.mark.parametrize("error", [embedder_is_away(), MemoryConnectionError("away"), ValueError("a bug")])
def test_an_embedder_that_fails_leaves_the_words(
    place: Place, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    at = place.clock.now
    keep(place.ledger, ADA, fact("boss", "my boss is terrible", at=at), vectors={"boss": hashed("my boss")})
    place.backend.fails_with = error
    context = place.load("terrible boss")
    assert shown(context) == ["boss"]
    assert context.reasons == ("token_recall_after_embed_error",)
    assert "terrible" not in caplog.text


def test_a_store_that_is_away_leaves_the_words_and_a_wrong_policy_is_said(place: Place) -> None:
    keep(place.ledger, ADA, fact("boss", "my boss is terrible", at=place.clock.now))
    place.cannot_open = MemoryConnectionError("the store does not answer")
    context = place.load("terrible boss")
    assert (shown(context), context.reasons) == (["boss"], ("token_recall_after_embed_error",))
    place.cannot_open = MemoryConfigError("memory.backend: is wrong")
    with pytest.raises(MemoryConfigError):
        place.load("terrible boss")


def test_a_backend_without_vectors_is_no_failure(place: Place) -> None:
    keep(place.ledger, ADA, fact("boss", "my boss is terrible", at=place.clock.now))

    async def open_backend() -> MemoryBackend:
        return without_vectors()

    context = asyncio.run(place.loader().load_turn(ADA, "terrible boss", open_backend=open_backend))
    assert (shown(context), context.reasons) == (["boss"], ())


def test_facts_with_vectors_of_another_space_are_found_by_words_alone(place: Place) -> None:
    at = place.clock.now
    old = {name: Embedded("the embedder before", hashed("boss").vector) for name in ("words", "meaning")}
    keep(place.ledger, ADA, fact("words", "my boss", at=at), fact("meaning", "other", at=at), vectors=old)
    assert shown(place.load("boss")) == ["words"]


def test_an_embedder_that_changes_during_the_question_is_not_compared(place: Place) -> None:
    class Changing(EmbeddingBackend):
        @property
        def vector_space(self) -> str | None:
            return "the next" if self.questions else SPACE

    place.backend = Changing()
    keep(place.ledger, ADA, fact("f", "shared", at=place.clock.now), vectors={"f": hashed("something else")})
    assert shown(place.load("something else")) == []


@pytest.mark.parametrize("text", ["my boss", ""])
def test_of_somebody_of_whom_nothing_is_kept_nothing_is_asked(place: Place, text: str) -> None:
    context = place.load(text, session_id="new")
    assert context == TurnContext()
    assert place.opened == 0


def test_a_second_load_reads_the_version_alone_and_a_write_is_seen_at_once(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    at, loader = place.clock.now, place.loader()
    keep(place.ledger, ADA, fact("boss", "my boss", at=at))
    place.load("my boss", loader=loader)
    with monkeypatch.context() as patch:
        for name in ("searchable", "arcs", "rules"):
            patch.setattr(ConversationMemory, name, None)
        assert shown(place.load("my boss", loader=loader)) == ["boss"]
    keep(place.ledger, ADA, fact("boss-2", "my boss", at=at + timedelta(seconds=1)))
    assert shown(place.load("my boss", loader=loader)) == ["boss", "boss-2"]


def test_sessions_that_age_leave_what_is_kept_in_the_process_but_for_the_latest(place: Place) -> None:
    now, loader = place.clock.now, place.loader(arc_days=400)
    keep(place.ledger, ADA, arc("old", "boss", at=now - timedelta(days=90)), arc("last", "boss", at=now))
    assert [each.session_id for each in place.load("boss", loader=loader).arcs] == ["old", "last"]
    assert place.ledger.conversation.age(COMPANY, before=now + timedelta(days=1)) == 1
    assert [each.session_id for each in place.load("boss", loader=loader).arcs] == ["last"]


def test_owners_that_were_asked_for_last_stay_and_others_are_read_again(place: Place) -> None:
    owners = [owner(subject=f"user:{n}") for n in range(3)]
    for whose in owners:
        facts = (fact(f"{whose.subject} {n}", "my boss", at=place.clock.now) for n in range(4))
        keep(place.ledger, whose, *facts)
    loader = TurnLoader(place.ledger, company=COMPANY, config=ConversationConfig(), max_cached_entries=10)
    reads: list[str] = []

    def searchable(self: ConversationMemory, company: str, whose: Owner) -> Any:
        reads.append(whose.subject)
        return original(self, company, whose)

    original = ConversationMemory.searchable
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ConversationMemory, "searchable", searchable)
        for number in (0, 1, 0, 2, 0, 1):
            assert len(place.load("my boss", owners[number], loader=loader).facts) == 4
    assert reads == ["user:0", "user:1", "user:2", "user:1"]
