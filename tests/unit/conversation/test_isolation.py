"""No reading call shows anything of another person, another agent or another company."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from support.kept_conversations import EmbeddingBackend, arc, begin, fact, hashed, hold, keep, rule
from support.ledger_records import copied_urls
from support.thorough import THOROUGH

from memcore import ids
from memcore.backends.protocol import MemoryBackend
from memcore.config.conversation import ConversationConfig
from memcore.conversation.entries import TurnContext
from memcore.conversation.loading import TurnLoader
from memcore.ledger.ledger import Ledger
from memcore.models.conversation import (
    ClassifierPath,
    CrisisLevel,
    CrisisLogRecord,
    FactState,
    FeedbackLabel,
    FeedbackSource,
    Owner,
    SessionFeedbackRecord,
)
from memcore.service.conversation import exported

AT = datetime(2026, 3, 1, tzinfo=UTC)

#: Whatever is kept here may be found by this.
QUESTION = "my boss"


@dataclass(frozen=True)
class Place:
    """One of the places that must be kept apart, and the word that stands in all that is kept there."""

    company: str
    owner: Owner
    word: str


@pytest.fixture(scope="module")
def ledger(ledger_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    opened = Ledger.open(copied_urls(ledger_template, tmp_path_factory.mktemp("isolation")), clock=lambda: AT)
    yield opened
    opened.close()


def places() -> list[Place]:
    # A user and a session of one name are two people.
    subjects = ("user:ada", "session:ada")
    companies = [ids.new_id(), ids.new_id()]
    return [
        Place(company, Owner(agent_id=agent_id, subject=subject), f"marker{number}end")
        for number, (company, agent_id, subject) in enumerate(product(companies, ("coach", "nurse"), subjects))
    ]


def fill(ledger: Ledger, place: Place, kinds: frozenset[str], *, number: int) -> None:
    """Write something of each kind, under ids that other places have too."""
    company, owner, word = place.company, place.owner, place.word
    if "fact" in kinds:
        kept = fact("f", f"my boss {word}", at=AT, object=word)
        other = fact("f2", f"no {word}", at=AT, object=word).model_copy(update={"unsure_with": ("f",)})
        keep(ledger, owner, kept, other, vectors={"f": hashed(QUESTION)}, company=company)
    if "rule" in kinds:
        keep(ledger, owner, rule("r", f"Say {word}.", at=AT), company=company)
    if "arc" in kinds:
        kept_arc = arc("s", f"my boss {word}", at=AT)
        keep(ledger, owner, kept_arc, vectors={"s": hashed(QUESTION)}, company=company)
    if "turn" in kinds:
        begin(ledger, owner, "s", at=AT, text=f"text {word}", company=company)
    if "held" in kinds:
        hold(ledger, owner, "held", f"quote {word}", at=AT, company=company)
    named = {
        "agent_id": owner.agent_id,
        "subject": owner.subject,
        "session_id": "s",
        "at": AT,
        "record_id": str(number),
    }
    if "note" in kinds:
        crisis = CrisisLogRecord(level=CrisisLevel.HIGH, path=ClassifierPath.MODEL, action=word, **named)
        ledger.crises.record(company, crisis)
        label, source = FeedbackLabel.NEUTRAL, FeedbackSource.ENGINE
        ledger.feedback.record(company, SessionFeedbackRecord(label=label, source=source, comment=word, **named))


def load(loader: TurnLoader, owner: Owner) -> TurnContext:
    backend = EmbeddingBackend()

    async def open_backend() -> MemoryBackend:
        return backend

    return asyncio.run(loader.load_turn(owner, QUESTION, session_id="new", open_backend=open_backend))


def read(ledger: Ledger, place: Place, loader: TurnLoader) -> dict[str, object]:
    """Return what every reading call shows of a place."""
    company, owner = place.company, place.owner
    kept, states = ledger.conversation, tuple(FactState)
    key = ids.session_key(company=company, session_id="s", **owner.model_dump())
    context = load(loader, owner)
    return {
        "load_turn": (context, context.messages()),
        "searchable": [each.entry for each in kept.searchable(company, owner)],
        "newest": kept.newest(company, owner, limit=9),
        "fact": kept.fact(company, owner, "f"),
        "unsure": kept.unsure(company, owner.agent_id, subject=owner.subject),
        "facts": kept.facts(company, owner, states=states),
        "rules": kept.rules(company, owner, states=states),
        "arcs": [each.entry for each in kept.arcs(company, owner)],
        "listed_arcs": kept.listed_arcs(company, owner, states=states),
        "sessions": [each.session_key for each in ledger.sessions.page(company, owner)],
        "held_before": ledger.sessions.held_before(company, owner, "another"),
        "turns": ledger.turns.of_session(company, key),
        "crises": ledger.crises.page(company, owner.agent_id, subject=owner.subject),
        "feedback": ledger.feedback.page(company, owner.agent_id, subject=owner.subject),
        "export": exported(ledger, company, owner),
    }


def as_text(value: object) -> str:
    def plain(each: object) -> object:
        return each.model_dump(mode="json") if isinstance(each, BaseModel) else repr(each)

    return json.dumps(value, default=plain, ensure_ascii=False)


KINDS = ("fact", "rule", "arc", "turn", "held", "note")

#: For each place, what is kept there.
FILLINGS = st.lists(st.frozensets(st.sampled_from(KINDS)), min_size=8, max_size=8)


@settings(max_examples=500 if THOROUGH else 5)
@given(fillings=FILLINGS)
def test_each_place_shows_its_own_and_nothing_else(ledger: Ledger, fillings: list[frozenset[str]]) -> None:
    all_places = places()
    for number, (place, kinds) in enumerate(zip(all_places, fillings, strict=True)):
        fill(ledger, place, kinds, number=number)
    config = ConversationConfig(arc_days=365)
    loaders = {
        company: TurnLoader(ledger, company=company, config=config, clock=lambda: AT + timedelta(days=1))
        for company in {place.company for place in all_places}
    }
    words = {place.word for place in all_places}
    for place, kinds in zip(all_places, fillings, strict=True):
        seen = read(ledger, place, loaders[place.company])
        texts = {call: as_text(value) for call, value in seen.items()}
        for call, text in texts.items():
            assert [word for word in words - {place.word} if word in text] == [], call
        # What is its own is there: a call that shows nothing would not pass.
        assert {call for kind in kinds for call in SHOWN_BY[kind]} <= {
            call for call, text in texts.items() if place.word in text
        }
        counts = ledger.conversation.counts(place.company, place.owner)
        counted = (2 * ("fact" in kinds), "arc" in kinds, "rule" in kinds, "held" in kinds)
        assert (counts.semantic, counts.episodic, counts.procedural, counts.held) == counted
        found = ledger.conversation.find(place.company, "f")
        there = zip(all_places, fillings, strict=True)
        same = [each.owner for each, kept in there if each.company == place.company and "fact" in kept]
        assert [owner for owner, _ in found] == sorted(same, key=lambda each: (each.agent_id, each.subject))


#: The calls that show a kind.
SHOWN_BY = {
    "fact": {"load_turn", "searchable", "newest", "fact", "unsure", "facts", "export"},
    "rule": {"load_turn", "rules", "export"},
    "arc": {"load_turn", "arcs", "listed_arcs", "export"},
    "turn": {"export"},
    "held": {"held_before", "export"},
    "note": {"crises", "feedback", "export"},
}
