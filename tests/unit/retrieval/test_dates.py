"""Dates and counts in a prompt: every fence says from when its memory is, and of how many alike it is the one shown."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.memories import NOW, record
from support.scored_memories import entry, scored
from support.search_backends import HybridBackend, hits, near

from memcore.backends.fusion import RankedLists
from memcore.backends.protocol import ORGANISATION
from memcore.config.retrieval import MemoryRetrievalConfig
from memcore.retrieval.context import ContextInjectionStrategy
from memcore.retrieval.formatting import MEMORY_DIRECTIVE, memory_block
from memcore.retrieval.packing import fit_parts
from memcore.retrieval.protocol import DefaultTokenEstimator, ScoredMemory
from memcore.retrieval.repetitions import collapsed, repeats

MAY, JUNE = datetime(2026, 5, 1, 9, tzinfo=UTC), datetime(2026, 6, 3, 9, tzinfo=UTC)


def said(
    memory_id: str,
    text: str,
    *,
    days_old: float = 0,
    score: float = 0.5,
    is_shared: bool = False,
) -> ScoredMemory:
    memory = scored(memory_id, score, text, is_shared=is_shared)
    made_at = NOW - timedelta(days=days_old)
    return memory.model_copy(update={"entry": memory.entry.model_copy(update={"created_at": made_at})})


def dated(created_at: datetime, covers_until: datetime | None = None) -> ScoredMemory:
    memory = scored("m", 0.5)
    times = {"created_at": created_at, "covers_until": covers_until}
    return memory.model_copy(update={"entry": memory.entry.model_copy(update=times)})


@pytest.mark.parametrize(
    ("memory", "date"),
    [
        (dated(MAY), "2026-05-01"),
        (dated(MAY, JUNE), "2026-05-01 to 2026-06-03"),
        (dated(MAY, MAY + timedelta(hours=5)), "2026-05-01"),
        (dated(datetime(2026, 5, 1, 1, tzinfo=timezone(timedelta(hours=9)))), "2026-04-30"),
    ],
)
def test_a_fence_has_the_day_of_its_memory_and_of_a_summary_the_range(memory: ScoredMemory, date: str) -> None:
    assert memory_block(memory).startswith(f'<memory-entry own="semantic 0.50" date="{date}">\n')
    assert "date is the day" in MEMORY_DIRECTIVE


def test_what_is_shared_archived_cut_or_the_organisations_has_its_date_too() -> None:
    own = dated(MAY)
    fact = own.entry.model_copy(update={"agent_id": ORGANISATION, "namespace": "org:adr"})
    for update in (
        {"is_shared": True},
        {"summary_id": "s"},
        {"is_part": True},
        {"is_shared": True, "entry": fact},
    ):
        assert ' date="2026-05-01"' in memory_block(own.model_copy(update=update))


def test_a_count_stands_in_the_fence_where_several_say_the_same() -> None:
    (one,) = collapsed([said("a", "Mia likes tea."), said("b", "mia  likes tea", days_old=1)])
    assert memory_block(one).startswith(
        f'<memory-entry own="semantic 0.50" date="{NOW.date()}" count="2">\nMia likes tea.'
    )
    assert 'count="' not in memory_block(said("a", "Mia likes tea."))
    assert "count is how many" in MEMORY_DIRECTIVE


def test_one_article_may_stand_for_another() -> None:
    memories = [said("a", "The red team owns the dashboard"), said("b", "A red team owns a dashboard", days_old=1)]
    assert [each.count for each in collapsed(memories)] == [2]


def test_the_newest_stays_at_the_place_and_with_the_score_of_the_best() -> None:
    memories = [
        said("old", "The office closes at five", days_old=9, score=0.9),
        said("other", "Ines repairs the printer", score=0.8),
        said("new", "the office closes at five!", days_old=1, score=0.7),
        said("mid", "THE OFFICE CLOSES AT FIVE", days_old=3, score=0.6),
    ]
    first, second = collapsed(memories)
    assert (first.entry.id, first.count, first.combined_score) == ("new", 3, 0.9)
    assert second == memories[1]


def test_what_an_older_one_says_more_is_not_hidden_by_a_newer_one() -> None:
    fuller = said("old", "Paul and Ines share one small car on Thursdays", days_old=2)
    newer = said("new", "Paul and Ines share one car on Thursdays")
    assert collapsed([fuller, newer]) == (fuller, newer)
    kept = collapsed([said("old", newer.entry.content, days_old=2), said("new", fuller.entry.content)])
    assert [(each.entry.id, each.count) for each in kept] == [("new", 2)]


def test_an_agents_own_stays_before_a_shared_one_and_says_all_of_it() -> None:
    own = said("own", "The office closes at five", days_old=9, score=0.4)
    shared = said("shared", "the office closes at five", score=0.9, is_shared=True)
    (kept,) = collapsed([shared, own])
    assert (kept.entry.id, kept.count, kept.combined_score) == ("own", 2, 0.4)
    more = said("shared", "Note: the grey office closes at five, please", score=0.9, is_shared=True)
    assert collapsed([more, own]) == (more, own)
    two = (shared, said("second", shared.entry.content, days_old=1, score=0.3, is_shared=True))
    assert [(each.entry.id, each.count) for each in collapsed(two)] == [("shared", 2)]


def test_a_fact_of_the_organisation_is_shown_beside_a_memory_that_says_the_same() -> None:
    own = said("own", "Deployments happen on Tuesdays")
    fact = own.entry.model_copy(update={"id": "fact", "agent_id": ORGANISATION})
    both = (own, own.model_copy(update={"entry": fact, "is_shared": True}))
    assert collapsed(both) == both


def test_long_texts_that_differ_at_their_ends_both_stay() -> None:
    text = "The red team owns the dashboard of the kitchen. " * 40
    first, second = said("a", text + "Ask Ines."), said("b", text + "Ask Mia.")
    assert collapsed([first, second]) == (first, second)
    assert [each.count for each in collapsed([first, said("c", f" {first.entry.content}\n", days_old=1)])] == [2]


#: Facts of a few forms that differ in a name, a number, a date or a negation, and what may stand around them.
_FACTS = st.builds(
    "{} {} {} rooms on {}".format,
    st.sampled_from(["Alice", "Bob", "the red team", "The Red Team"]),
    st.sampled_from(["needs", "does not need", "never needs", "needed", "NEEDS"]),
    st.sampled_from(["2", "3", "two", "small", "no", "a few", "few", "the"]),
    st.sampled_from(["Monday", "tuesday", "2026-05-08", "2026-05-09", "8 May"]),
)
_TEXTS = st.builds(
    "{}{}{}".format, st.sampled_from(["", "Note: ", "  ", "FYI "]), _FACTS, st.sampled_from(["", ".", "!"])
)
_SAID = st.lists(st.tuples(_TEXTS, st.integers(0, 4), st.booleans()), max_size=14)


@given(made=_SAID)
def test_whatever_is_hidden_is_said_by_one_that_stays(made: list[tuple[str, int, bool]]) -> None:
    memories = [
        said(f"m{place}", text, days_old=days, score=1.0 - place / 100, is_shared=is_shared)
        for place, (text, days, is_shared) in enumerate(made)
    ]
    kept = collapsed(memories)
    assert sum(each.count for each in kept) == len(memories)
    stay = {each.entry.id: each for each in kept}
    for memory in memories:
        if memory.entry.id not in stay:
            assert any(
                repeats(each.entry.content, memory.entry.content)
                and each.is_shared <= memory.is_shared
                and (each.is_shared != memory.is_shared or each.entry.created_at >= memory.entry.created_at)
                for each in kept
                if each.count > 1
            )
    for is_shared in (False, True):
        scores = [each.combined_score for each in kept if each.is_shared is is_shared]
        assert scores == sorted(scores, reverse=True)
    # What maintenance takes for a repetition is found here too, though only the first words are looked at first.
    for one in kept:
        for other in kept:
            same_side = one.is_shared == other.is_shared and one.entry.created_at >= other.entry.created_at
            if one is not other and (same_side or other.is_shared > one.is_shared):
                assert not repeats(one.entry.content, other.entry.content)


#: What makes another fact of one: a name, a negation, a number, a date.
_SLOTS = (
    ("Alice", "Bob", "Team Red"),
    ("needs", "does not need", "never needs"),
    ("2", "3", "two", "12"),
    ("Monday", "Tuesday", "2026-05-08", "2026-05-09", "8 May"),
)


@given(
    values=st.tuples(*map(st.sampled_from, _SLOTS)),
    place=st.integers(0, len(_SLOTS) - 1),
    data=st.data(),
    newer_is_shared=st.booleans(),
)
def test_of_two_that_differ_in_a_name_a_number_a_date_or_a_negation_both_stay(
    values: tuple[str, ...], place: int, data: st.DataObject, newer_is_shared: bool
) -> None:
    other = data.draw(st.sampled_from([each for each in _SLOTS[place] if each != values[place]]))
    changed = (*values[:place], other, *values[place + 1 :])
    texts = ["Note: {} {} {} rooms on {}.".format(*each) for each in (values, changed)]
    both = (said("a", texts[0], days_old=1), said("b", texts[1], is_shared=newer_is_shared))
    assert collapsed(both) == both


async def test_a_prompt_has_dates_and_one_of_each() -> None:
    alike = [
        entry(f"m{day}", "the printer jams on Mondays", relevance=0.9, created_at=NOW - timedelta(days=day))
        for day in range(3)
    ]
    other = entry("other", "the printer is blue", relevance=0.8, created_at=MAY)
    backend = HybridBackend(RankedLists(dense=near(*alike, other), sparse=hits(*alike, other)))
    strategy = ContextInjectionStrategy(
        backend=backend, config=MemoryRetrievalConfig(min_relevance=0.0), clock=lambda: NOW
    )
    messages = await strategy.prepare_messages("ada", "printer", 60)
    assert re.findall(r'date="([^"]*)"(?: count="(\d)")?', messages[-1].content) == [
        ("2026-05-01", ""),
        (f"{NOW.date()}", "3"),
    ]


def test_a_date_is_charged_to_the_budget() -> None:
    estimator, summary = DefaultTokenEstimator(), dated(MAY, JUNE)
    without = f'<memory-entry own="semantic 0.50">\n{summary.entry.content}\n</memory-entry>'
    budget = estimator.estimate_tokens(memory_block(summary))
    assert budget >= estimator.estimate_tokens(without) + len(' date="2026-05-01 to 2026-06-03"') // 4
    for tokens, fits in ((budget, True), (budget - 1, False)):
        kept, _ = fit_parts([summary], [], estimator=estimator, token_budget=tokens, slots=1, shared_fraction=0.3)
        assert bool(kept) is fits


def test_a_record_tells_its_entry_until_when_a_summary_reaches() -> None:
    plain = record("ada")
    summary = replace(plain, extra={"covers_until": (plain.entry.created_at + timedelta(days=3)).isoformat()})
    assert plain.entry.covers_until is None
    assert summary.entry.covers_until == summary.covers_until == plain.entry.created_at + timedelta(days=3)
    assert "covers_until" not in summary.entry.model_dump(), "older releases refuse a field that they do not know"


@pytest.mark.parametrize(
    "until", ["soon", 3, None, "2026-01-01", "9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+12:00"]
)
def test_a_key_that_somebody_else_wrote_makes_no_date_that_cannot_be_shown(until: object) -> None:
    made = replace(record("ada"), extra={"covers_until": until}).entry
    assert re.fullmatch(r"\d{4}-\d\d-\d\d( to 9000-01-01)?", made.days)
