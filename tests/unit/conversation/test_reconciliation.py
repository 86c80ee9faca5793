"""New facts and rules beside those that are known: what is decided here, what a model is asked, what it may say."""

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest
from support.ledger_records import COMPANY, StoppedClock
from support.table_model import TableModel

from memcore.config.conversation import ConversationConfig
from memcore.conversation.extraction import Asker
from memcore.conversation.reconciliation import MAX_SHOWN, Likeness, Reconciled, reconcile, says_the_same
from memcore.errors import RetryExhaustedError
from memcore.ledger.conversation.memory import Embedded
from memcore.llm.protocol import estimated_tokens
from memcore.models.conversation import Fact, FactCategory, FactState, ProfileRule

NOW = StoppedClock().now


def fact(key: str, quote: str, obj: str = "tea", *, at: datetime = NOW, **more: Any) -> Fact:
    given: dict[str, Any] = {"category": FactCategory.PREFERENCE, "subject": "User", "predicate": "LIKES", **more}
    times = dict.fromkeys(("created_at", "last_referenced_at", "changed_at"), at)
    return Fact(fact_id=key, object=obj, evidence_quote=quote, version=1, session_id="s", **times, **given)


def rule(key: str, text: str, *, at: datetime = NOW) -> ProfileRule:
    times = dict.fromkeys(("created_at", "last_referenced_at", "changed_at"), at)
    return ProfileRule(rule_id=key, rule=text, quotes=("so",), kind="explicit", version=1, session_id="s", **times)


OLD, LATER = NOW - timedelta(days=1), NOW + timedelta(days=1)
TEA = fact("tea", "I like tea", at=OLD)
COFFEE = fact("coffee", "I like coffee", "coffee", at=OLD)
BRIEF, POLITE = rule("brief", "Answer briefly.", at=OLD), rule("polite", "Be polite.", at=OLD)
NEW = fact("new", "I prefer water now", "water")
NEW_RULE = rule("new rule", "Answer at length.")


async def reconciled(
    facts: Sequence[Fact] = (),
    rules: Sequence[ProfileRule] = (),
    *,
    known_facts: Sequence[Fact] = (),
    known_rules: Sequence[ProfileRule] = (),
    answer: Any = None,
    model: TableModel | None = None,
    likeness: Likeness | None = None,
) -> Reconciled:
    model = model or TableModel(script=[] if answer is None else [answer, answer])
    asker = Asker(model=model, config=ConversationConfig(), company=COMPANY, agent_id="ada", run_id="turn-1")
    return await reconcile(asker, facts, rules, known_facts=known_facts, known_rules=known_rules, likeness=likeness)


def verdict(action: str, *known: Any, confidence: Any = "high", number: Any = 1) -> dict[str, Any]:
    return {"number": number, "action": action, "known": list(known), "confidence": confidence}


#: With the triple, 17 words.
LONG = "like a b c d e f g h i j k l m"


@pytest.mark.parametrize(
    ("quote", "more", "is_same"),
    [
        ("I LIKE tea!", {}, True),
        ("i  like\ntea", {"obj": "Tea"}, True),
        # 17 of 20 words are common to both, and 17 of 21.
        (f"{LONG} n o p", {}, True),
        (f"{LONG} n o p q", {}, False),
        ("I like tea", {"obj": "coffee"}, False),
        ("I like tea", {"subject": "Her mother"}, False),
        ("I like tea", {"predicate": "DRINKS"}, False),
        ("お茶が好き", {}, False),
    ],
)
def test_the_same_triple_with_nearly_the_same_words_says_the_same(
    quote: str, more: dict[str, Any], *, is_same: bool
) -> None:
    known, new = fact("known", LONG if LONG in quote else "I like tea"), fact("new", quote, **more)
    assert says_the_same(known, new) == says_the_same(new, known) == is_same


async def test_nothing_known_and_nothing_that_collides_asks_nobody() -> None:
    model = TableModel()
    other = fact("name", "I am Mia", "Mia", category=FactCategory.IDENTITY, predicate="NAMED")
    found = await reconciled([NEW], [NEW_RULE], known_facts=[other], model=model)
    assert (found.commit.facts, found.commit.rules, model.purposes) == ((NEW,), (NEW_RULE,), [])
    assert dict(found.counts) == {"writes": 2, "bumps": 0, "superseded": 0, "skips": 0, "unsure": 0}
    assert found.fates == {"new": "written", "new rule": "written"}


async def test_what_is_known_word_for_word_is_bumped_without_a_question() -> None:
    model = TableModel()
    again, once_more = fact("new", "I like tea!"), rule("new rule", "answer BRIEFLY")
    found = await reconciled([again], [once_more], known_facts=[TEA, COFFEE], known_rules=[BRIEF], model=model)
    assert (found.commit.bumped, found.commit.facts, found.commit.rules) == ({"tea", "brief"}, (), ())
    assert (model.purposes, set(found.fates.values())) == ([], {"known"})


async def test_what_a_turn_says_twice_is_written_once() -> None:
    twice = fact("again", "I prefer water now", "Water")
    found = await reconciled([NEW, twice])
    assert (found.commit.facts, found.counts["skips"], found.fates["again"]) == ((NEW,), 1, "known")


async def test_all_that_collides_is_asked_in_one_question() -> None:
    model = TableModel()
    await reconciled(
        [NEW, fact("milk", "milk too", "milk")],
        [NEW_RULE],
        known_facts=[TEA, COFFEE],
        known_rules=[BRIEF, POLITE],
        model=model,
    )
    assert model.purposes == ["reconcile"]
    content = model.asked[0].messages[1].content
    assert (content.count("<new-entry"), content.count("<known-entry")) == (3, 6)
    assert "said on 2026-02-28" in content


async def test_of_many_known_ones_the_most_similar_are_shown() -> None:
    model = TableModel()
    many = [fact(f"f{number}", f"thing {number}", f"thing {number}", at=OLD) for number in range(MAX_SHOWN)]
    near = fact("near", "I prefer water", "water", at=OLD - timedelta(days=1))
    await reconciled([NEW], known_facts=[*many, near], model=model)
    content = model.asked[0].messages[1].content
    assert (content.count("<known-entry"), "I prefer water" in content) == (MAX_SHOWN, True)


PLACE: dict[str, Any] = {"category": FactCategory.PLACE}
LISBON = fact("lisbon", "I live in Lisbon", "Lisbon", predicate="LIVES_IN", at=OLD, **PLACE)
PORTO = fact("porto", "We moved last month", "Porto in February 2026", predicate="MOVED_TO", **PLACE)


async def test_a_change_that_has_another_relation_is_asked_about() -> None:
    model = TableModel(script=[{"facts": [verdict("supersede", 1)], "rules": []}])
    found = await reconciled([PORTO], known_facts=[LISBON, TEA], model=model)
    assert found.commit.superseded == {"lisbon": "porto"}
    content = model.asked[0].messages[1].content
    assert ("LIVES_IN Lisbon" in content, "LIKES tea" in content) == (True, False)


@pytest.mark.parametrize(
    ("known", "cosine", "is_asked"),
    [
        (LISBON, None, False),
        (LISBON, 0.6, True),
        (LISBON, 0.4, False),
        (fact("ana", "Ana lives in Lisbon", "Lisbon", subject="Ana", at=OLD, **PLACE), 0.9, False),
        # Two words in common, beside those that all facts have.
        (fact("words", "the flat in Porto has a garden", "garden of the flat", at=OLD), None, True),
        (fact("word", "the garden", "garden", at=OLD), None, False),
        (fact("lease", "I sold it", "flat", predicate="SOLD", at=OLD, category=FactCategory.EVENT), None, True),
    ],
)
async def test_facts_of_any_category_are_asked_about_where_they_are_alike(
    known: Fact, cosine: float | None, *, is_asked: bool
) -> None:
    new = fact("new", "I bought a flat in Porto", "flat in Porto", predicate="BOUGHT", category=FactCategory.EVENT)
    vectors: dict[str, Embedded] = {}
    if cosine is not None:
        vectors[known.fact_id] = Embedded("hashing", np.array([cosine, math.sqrt(1 - cosine**2)], dtype=np.float32))
        vectors["new"] = Embedded("hashing", np.array([1.0, 0.0], dtype=np.float32))
    model = TableModel()
    await reconciled([new], known_facts=[known], model=model, likeness=Likeness(vectors))
    assert (model.purposes == ["reconcile"]) == is_asked


def test_vectors_of_two_embedders_are_not_compared() -> None:
    unit = np.array([1.0, 0.0], dtype=np.float32)
    alike = Likeness({"lisbon": Embedded("old", unit), "porto": Embedded("new", unit)})
    assert alike.cosine(LISBON, PORTO) == 0.0
    assert Likeness({"lisbon": Embedded("a", unit), "porto": Embedded("a", 3 * unit)}).cosine(LISBON, PORTO) == 1.0
    assert Likeness({"lisbon": Embedded("a", unit), "porto": Embedded("a", 0 * unit)}).cosine(LISBON, PORTO) == 0.0


async def test_of_many_facts_that_many_may_collide_with_few_are_shown_of_each() -> None:
    model = TableModel()
    many = [fact(f"f{number}", f"thing {number}", f"thing {number}", at=OLD) for number in range(60)]
    new = [fact(f"new{number}", f"other {number}", f"other {number}") for number in range(16)]
    await reconciled(new, known_facts=many, model=model)
    content = model.asked[0].messages[1].content
    assert (content.count("<new-entry"), content.count("<known-entry")) == (16, 48)
    assert sum(map(estimated_tokens, (each.content for each in model.asked[0].messages))) < 4_096


@pytest.mark.parametrize(
    ("said", "bumped", "superseded", "is_written"),
    [
        (verdict("bump", 1), {"coffee"}, {}, False),
        (verdict("supersede", 2), set(), {"tea": "new"}, True),
        (verdict("supersede", 1, 2), set(), {"tea": "new", "coffee": "new"}, True),
        (verdict("coexist"), set(), {}, True),
        (verdict("coexist", 1), set(), {}, True),
        # Malformed, or not sure: it stands beside the known ones.
        (verdict("bump"), set(), {}, True),
        (verdict("bump", 1, 2), set(), {}, True),
        (verdict("bump", 3), set(), {}, True),
        (verdict("bump", 0), set(), {}, True),
        (verdict("bump", "x"), set(), {}, True),
        (verdict("bump", 1, number=2), set(), {}, True),
        (verdict("bump", 1, confidence="low"), set(), {}, True),
        (verdict("bump", 1, confidence="sure"), set(), {}, True),
        (verdict("supersede"), set(), {}, True),
        (verdict("supersede", 1, 9), set(), {}, True),
        (verdict("supersede", 1, confidence="low"), set(), {}, True),
        (verdict("erase", 1), set(), {}, True),
        (verdict("replace", 1), set(), {}, True),
        ("not an entry", set(), {}, True),
    ],
)
async def test_what_the_model_may_say_of_a_fact(
    said: Any, bumped: set[str], superseded: dict[str, str], *, is_written: bool
) -> None:
    found = await reconciled([NEW], known_facts=[TEA, COFFEE], answer={"facts": [said]})
    assert (found.commit.bumped, found.commit.superseded) == (bumped, superseded)
    assert (found.commit.facts == (NEW,)) == is_written
    assert found.fates["new"] == ("written" if is_written else "known")


@pytest.mark.parametrize(
    ("said", "bumped", "superseded", "is_written"),
    [
        (verdict("append"), set(), {}, True),
        (verdict("replace", 1), set(), {"brief": "new rule"}, True),
        (verdict("skip", 2), {"polite"}, {}, False),
        (verdict("skip"), set(), {}, True),
        (verdict("skip", 2, confidence="low"), set(), {}, True),
        (verdict("replace"), set(), {}, True),
        (verdict("replace", 1, confidence="low"), set(), {}, True),
        (verdict("bump", 1), set(), {}, True),
    ],
)
async def test_what_the_model_may_say_of_a_rule(
    said: Any, bumped: set[str], superseded: dict[str, str], *, is_written: bool
) -> None:
    found = await reconciled(rules=[NEW_RULE], known_rules=[BRIEF, POLITE], answer={"rules": [said]})
    assert (found.commit.bumped, found.commit.superseded) == (bumped, superseded)
    assert (found.commit.rules == (NEW_RULE,)) == is_written


@pytest.mark.parametrize("answer", ["no json", "[]", {"facts": 1}, {}, {"facts": [None]}])
async def test_after_an_answer_of_no_use_all_stand_beside_each_other(answer: Any) -> None:
    found = await reconciled([NEW], [NEW_RULE], known_facts=[TEA], known_rules=[BRIEF], answer=answer)
    assert (found.commit.facts, found.commit.rules) == ((NEW,), (NEW_RULE,))
    assert not found.commit.bumped
    assert not found.commit.superseded


async def test_a_model_that_does_not_answer_is_no_verdict() -> None:
    with pytest.raises(RetryExhaustedError):
        await reconciled([NEW], known_facts=[TEA], answer=RetryExhaustedError("away"))


STAYED = {"question": "What do you like?", "then": "tea", "now": "tea"}
WATER = {"question": "What do you like?", "then": "tea", "now": "water"}


@pytest.mark.parametrize(
    ("new", "answers", "verdict_"),
    [
        (NEW, [WATER, WATER], "supersedes"),
        (NEW, [STAYED], "both_hold"),
        (NEW, [WATER, STAYED], "unsure"),
        # What the earlier fact does not answer, what the later one does not say, and what cannot be read.
        (NEW, [{**WATER, "question": "What do you prefer?"}], "unsure"),
        (NEW, [{**WATER, "now": "milk"}], "unsure"),
        (NEW, ["no json", "no json"], "both_hold"),
        (NEW.model_copy(update={"evidence_quote": "as a child I liked water"}), [WATER], "unsure"),
    ],
)
async def test_that_a_fact_is_replaced_is_asked_of_the_two_alone(new: Fact, answers: list[Any], verdict_: str) -> None:
    """What is not sure is kept with the new fact, for a person."""
    tea = fact("tea", "I like tea", at=OLD)
    model = TableModel(script=[{"facts": [verdict("supersede", 1)]}, *answers])
    found = await reconciled([new], known_facts=[tea], model=model)
    assert found.commit.superseded == ({"tea": "new"} if verdict_ == "supersedes" else {})
    unsure = ("tea",) if verdict_ == "unsure" else ()
    assert found.commit.facts == (new.model_copy(update={"unsure_with": unsure}),)
    assert found.counts["unsure"] == len(unsure)
    assert model.purposes == ["reconcile", *["change"] * len(answers)]
    assert model.asked[1].messages[1].content.index("I like tea") < model.asked[1].messages[1].content.index("water")


async def test_of_many_that_are_said_to_be_replaced_the_newest_are_asked_about() -> None:
    many = [fact(f"f{number}", f"I like thing {number}", f"thing {number}", at=OLD) for number in range(6)]
    found = await reconciled([NEW], known_facts=many, answer={"facts": [verdict("supersede", *range(1, 7))]})
    assert (set(found.commit.superseded), found.counts["unsure"]) == ({"f3", "f4", "f5"}, 0)


async def test_the_first_verdict_on_a_fact_counts() -> None:
    both = [verdict("coexist"), verdict("bump", 1)]
    found = await reconciled([NEW], known_facts=[TEA], answer={"facts": both})
    assert found.commit.facts == (NEW,)


async def test_what_was_said_later_is_not_replaced_but_replaces() -> None:
    later = fact("later", "I only drink juice", "juice", at=LATER)
    found = await reconciled([NEW], known_facts=[TEA, later], answer={"facts": [verdict("supersede", 1, 2)]})
    (written,) = found.commit.facts
    assert (written.state, written.superseded_by) == (FactState.SUPERSEDED, "later")
    assert found.commit.superseded == {"tea": "new"}


async def test_what_is_replaced_by_what_was_said_later_may_be_unsure_beside() -> None:
    later = fact("later", "I only drink juice", "juice", at=LATER)
    said = [{"facts": [verdict("supersede", 1, 2)]}, WATER, STAYED]
    found = await reconciled([NEW], known_facts=[TEA, later], model=TableModel(script=said))
    (written,) = found.commit.facts
    assert (written.superseded_by, written.unsure_with) == ("later", ("tea",))


async def test_of_two_facts_the_one_that_was_said_first_is_the_earlier_one() -> None:
    later = fact("later", "I only drink juice", "juice", at=LATER)
    model = TableModel(script=[{"facts": [verdict("supersede", 1)]}])
    await reconciled([NEW], known_facts=[later], model=model)
    earlier, _, last = model.asked[1].messages[1].content.partition('is="later"')
    assert ("I prefer water now" in earlier, "juice" in last) == (True, True)


async def test_what_one_new_fact_replaces_is_not_bumped_by_another() -> None:
    other = fact("other", "tea, tea", "Tea time")
    answer = {"facts": [verdict("supersede", 1), verdict("bump", 1, number=2)]}
    found = await reconciled([NEW, other], known_facts=[TEA], answer=answer)
    assert (found.commit.bumped, found.commit.superseded) == (set(), {"tea": "new"})
    assert found.commit.facts == (NEW, other), "nothing that was said is lost"


async def test_what_is_bumped_and_then_replaced_is_replaced() -> None:
    other = fact("other", "no tea any more", "no tea")
    answer = {"facts": [verdict("bump", 1), verdict("supersede", 1, number=2)]}
    found = await reconciled([NEW, other], known_facts=[TEA], answer=answer)
    assert (found.commit.bumped, found.commit.superseded) == (set(), {"tea": "other"})
