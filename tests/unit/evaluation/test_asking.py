"""How an answer is judged, and when two policies differ."""

import asyncio
from collections.abc import Collection
from datetime import UTC, datetime, timedelta

import pytest
from support.maintenance_fixture import memory
from support.search_backends import PlainBackend

from memcore.backends.evidence import terms_of
from memcore.client.envelopes import ImportRecord
from memcore.config.policy import Policy
from memcore.evaluation.asking import (
    MEASURES,
    AskedAt,
    Asking,
    Judged,
    Kept,
    as_stored,
    differences,
    in_words,
    ndcg,
    summary,
)
from memcore.evaluation.dataset import Dataset, Question
from memcore.models.answers import Standing
from memcore.models.memory import MemoryCategory

DAY = datetime(2026, 5, 1, 10, tzinfo=UTC)

OLD, NEW, OTHER = "The ferry to Hvar leaves at nine.", "The ferry to Hvar leaves at ten.", "Mia keeps bees."


def asked(question: str, finds: Collection[str] = (), **more: object) -> Question:
    return Question.model_validate({"agent_id": "ada", "question": question, "finds": tuple(finds), **more})


def judged(question: Question, *shown: str, standing: Standing = Standing.STRONG, budget: int = 500) -> Judged:
    """Ask one question of a backend that shows these texts, each named by itself."""
    records = [memory(n, content=text) for n, text in enumerate(shown)]
    entries = [each.entry.model_copy(update={"relevance_score": 0.9, "standing": standing}) for each in records]
    ids = {"ada": {text: text for text in (OLD, NEW, OTHER)} | {each.content: each.id for each in entries}}
    asking = Asking(PlainBackend(tuple(entries)), Policy(), lambda: DAY, budget=budget, kept=as_stored(ids))
    return asyncio.run(asking.ask(question))


def test_what_is_shown_is_held_against_what_answers() -> None:
    found = judged(asked("When does the ferry to Hvar leave?", [NEW]), OLD, NEW)
    assert len(found.shown) == 2
    assert (found.scores["recall"], found.scores["precision"]) == (1.0, 0.5)
    assert found.scores["prompt_recall"] == 1.0
    assert found.scores["shown"] == 2.0
    assert "shown_wrongly" not in found.scores
    assert "stale_first" not in found.scores


def test_a_budget_bounds_the_prompt() -> None:
    texts = [f"On day {n} the ferry to Hvar left at {n} and carried {n} dogs and boxes." for n in range(1, 20)]
    question = asked("When does the ferry to Hvar leave?")
    few, more = (judged(question, *texts, budget=budget).scores["prompt_tokens"] for budget in (100, 300))
    # The message that says how to read them is in each, beside the budget.
    assert few < more <= few + 200.0


def test_what_finds_nothing_has_no_recall() -> None:
    found = judged(asked("Who keeps bees?", [OTHER]))
    assert (found.scores["recall"], found.scores["precision"], found.scores["ndcg_at_10"]) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("shown", "standing", "is_wrong"),
    [([OTHER], Standing.STRONG, 1.0), ([OTHER], Standing.WEAK, 0.0), ([], Standing.STRONG, 0.0)],
)
def test_where_nothing_answers_nothing_should_be_shown(shown: list[str], standing: Standing, is_wrong: float) -> None:
    found = judged(asked("Who sings?"), *shown, standing=standing)
    assert found.scores["shown_wrongly"] == is_wrong
    assert not found.scores.keys() & {"recall", "precision", "ndcg_at_10", "prompt_recall"}


def test_what_was_true_once_may_not_be_first() -> None:
    question = "When does the ferry to Hvar leave?"
    ask = asked(question, [NEW], stale=(OLD,))
    assert judged(ask, OTHER, OLD, NEW).scores["stale_first"] == 1.0
    assert judged(ask, OTHER, NEW, OLD).scores["stale_first"] == 0.0
    assert judged(ask, OTHER).scores["stale_first"] == 0.0


def test_the_order_counts_by_its_logarithm() -> None:
    assert ndcg(["a", "b"], {"a", "b"}) == 1.0
    assert ndcg(["x", "a"], {"a"}) == pytest.approx(0.6309, abs=1e-4)
    assert ndcg([*"xxxxxxxxxx", "a"], {"a"}) == 0.0


def made(score: float, kind: str | None = None) -> Judged:
    return Judged(question=asked("?", kind=kind), shown=(), scores={"recall": score, "shown_wrongly": 1.0 - score})


def test_a_summary_has_each_kind_where_there_are_several() -> None:
    both = summary([made(1.0, "a"), made(0.0, "b"), made(0.0, "b")])
    means = {(each.kind, each.measure): each.mean for each in both}
    assert means[None, "recall"] == pytest.approx(1 / 3)
    assert (means["a", "recall"], means["b", "recall"], means["b", "shown_wrongly"]) == (1.0, 0.0, 1.0)
    assert {each.kind for each in summary([made(1.0, "a")])} == {None}
    assert {each.measure for each in both} <= MEASURES.keys()


def test_two_differ_where_the_questions_can_show_it() -> None:
    first = [made(float(n % 2)) for n in range(40)]
    better = {each.measure: each.verdict for each in differences(first, [made(1.0)] * 40)}
    assert better == {"recall": "better", "shown_wrongly": "better"}
    worse = {each.measure: each.verdict for each in differences(first, [made(0.0)] * 40)}
    assert worse == {"recall": "worse", "shown_wrongly": "worse"}
    same = [*first[:-1], made(0.0)]
    assert {each.verdict for each in differences(first, same)} == {"no difference that these questions can show"}


def test_a_question_is_asked_an_hour_after_the_last_memory_or_when_it_says() -> None:
    record = ImportRecord(agent_id="ada", id="m", category=MemoryCategory.EPISODIC, content=OLD, created_at=DAY)
    clock = AskedAt(Dataset(memories={"ada": (record,)}, questions=()))
    clock.set(asked("?"))
    assert clock() == DAY + timedelta(hours=1)
    clock.set(asked("?", asked_at=DAY))
    assert clock() == DAY


def test_what_replaced_a_memory_counts_where_it_says_its_words() -> None:
    whole, part = Kept("s", frozenset({"ferri", "ten"})), Kept("s", frozenset({"ferri", "hvar"}))
    assert whole.is_in({"s": "The ferry leaves at ten, and Mia keeps bees."})
    assert not part.is_in({"s": "The ferry leaves at ten, and Mia keeps bees."})
    assert not whole.is_in({"other": "The ferry leaves at ten."})
    assert Kept("s").is_in({"s": "Anything."})


@pytest.mark.parametrize(("by", "score"), [(NEW, 1.0), ("The ferry leaves.", 0.0)])
def test_an_answer_is_found_in_the_memory_that_replaced_it(by: str, score: float) -> None:
    (entry,) = [memory(1, content=by).entry.model_copy(update={"relevance_score": 0.9, "standing": Standing.STRONG})]
    kept = {"ada": {NEW: Kept(entry.id, terms_of(NEW))}}
    asking = Asking(PlainBackend((entry,)), Policy(), lambda: DAY, budget=500, kept=kept)
    scores = asyncio.run(asking.ask(asked("When does the ferry to Hvar leave?", [NEW]))).scores
    assert {scores[name] for name in ("recall", "precision", "ndcg_at_10", "prompt_recall")} == {score}


def test_a_difference_is_said_in_a_sentence() -> None:
    first = [made(1.0)] * 40
    (said,) = [in_words(each) for each in differences(first, [made(0.0)] * 40) if each.measure == "recall"]
    assert said == "evidence found -1.000 (-1.000 to -1.000): worse"


def test_days_pass_for_every_question_and_maintenance_is_after_the_last() -> None:
    record = ImportRecord(agent_id="ada", id="m", category=MemoryCategory.EPISODIC, content=OLD, created_at=DAY)
    early, late = asked("?"), asked("?", asked_at=DAY + timedelta(days=3))
    clock = AskedAt(Dataset(memories={"ada": (record,)}, questions=(early, late)))
    assert clock.agents == ("ada",)
    clock.set_day("ada", 30)
    assert clock() == DAY + timedelta(days=33)
    clock.set(early)
    assert clock() == DAY + timedelta(days=30, hours=1)
