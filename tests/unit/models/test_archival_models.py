from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import ValidationError

from memcore.models.archival import (
    ArchivalEntry,
    ArchivalIndexEntry,
    ArchivalMode,
    ArchivalModeAssignment,
    ConsolidationResult,
)
from memcore.models.memory import MemoryCategory, MemoryMetadata

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30).filter(str.strip)
ids = words.map(str.strip)
modes = st.sampled_from(ArchivalMode)
times = st.datetimes(
    min_value=datetime(2000, 1, 1),  # noqa: DTZ001  # hypothesis wants it naive
    max_value=datetime(9000, 1, 1),  # noqa: DTZ001  # as above
    timezones=st.just(UTC),
)


@st.composite
def results(draw: st.DrawFn) -> ConsolidationResult:
    removed = draw(st.lists(ids, unique=True, max_size=8))
    archived = draw(st.lists(st.sampled_from(removed), unique=True)) if removed else []
    assigned = draw(st.lists(st.sampled_from(removed), unique=True)) if removed else []
    return ConsolidationResult(
        removed_ids=tuple(removed),
        summary_ids=tuple(draw(st.lists(ids, unique=True, max_size=4))),
        archived_count=draw(st.integers(len(archived), len(removed))),
        mode_assignments=tuple(ArchivalModeAssignment(original_id=each, mode=draw(modes)) for each in assigned),
        archival_index=tuple(
            ArchivalIndexEntry(original_id=each, archival_id=draw(ids), mode=draw(modes)) for each in archived
        ),
    )


entries = st.builds(
    ArchivalEntry,
    original_id=ids,
    agent_id=ids,
    content=words,
    category=st.sampled_from(MemoryCategory),
    metadata=st.builds(MemoryMetadata, tags=st.lists(ids, max_size=3).map(tuple)),
    created_at=st.just(NOON),
    archived_at=st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=9000)).map(NOON.__add__),
    archival_mode=modes,
)


def result(**changes: Any) -> ConsolidationResult:
    return ConsolidationResult(**{"removed_ids": ("a", "b"), "summary_ids": ("s",), "archived_count": 1} | changes)


def assigned(*originals: str) -> tuple[ArchivalModeAssignment, ...]:
    return tuple(ArchivalModeAssignment(original_id=each, mode=ArchivalMode.EXTRACTIVE) for each in originals)


def indexed(*originals: str) -> tuple[ArchivalIndexEntry, ...]:
    mode = ArchivalMode.ABSTRACTIVE
    return tuple(ArchivalIndexEntry(original_id=each, archival_id=f"archive-{each}", mode=mode) for each in originals)


@given(results())
def test_a_result_is_the_same_after_a_round_trip(value: ConsolidationResult) -> None:
    assert ConsolidationResult.model_validate(value.model_dump()) == value
    assert ConsolidationResult.model_validate_json(value.model_dump_json()) == value


@given(results())
def test_what_follows_from_a_result_is_not_serialised(value: ConsolidationResult) -> None:
    assert set(value.model_dump()) == set(ConsolidationResult.model_fields)
    assert value.consolidated_count == len(value.removed_ids)
    assert value.summary_id == (value.summary_ids[-1] if value.summary_ids else None)


@given(entries)
def test_an_archived_memory_is_the_same_after_a_round_trip(value: ArchivalEntry) -> None:
    assert ArchivalEntry.model_validate(value.model_dump()) == value
    assert ArchivalEntry.model_validate_json(value.model_dump_json()) == value


@given(words)
def test_an_archived_text_is_kept_to_the_last_space(text: str) -> None:
    padded = f"  {text}\n"
    kept = ArchivalEntry(
        original_id="a",
        agent_id="ada",
        content=padded,
        category=MemoryCategory.EPISODIC,
        created_at=NOON,
        archived_at=NOON,
        archival_mode=ArchivalMode.EXTRACTIVE,
    )
    assert kept.content == padded


@given(entries, times)
def test_nothing_is_archived_before_it_was_created(value: ArchivalEntry, created: datetime) -> None:
    assume(created > value.archived_at)
    with pytest.raises(ValidationError, match="archived_at: lies before created_at"):
        ArchivalEntry.model_validate(value.model_dump() | {"created_at": created})


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"removed_ids": ("a", "a")}, "removed_ids: names a memory twice"),
        ({"summary_ids": ("s", "s")}, "summary_ids: names a memory twice"),
        ({"archived_count": 3}, "archived_count: is 3, but only 2 were removed"),
        ({"archived_count": -1}, "greater than or equal to 0"),
        ({"mode_assignments": assigned("a", "a")}, "mode_assignments: names a memory twice"),
        ({"mode_assignments": assigned("c")}, "mode_assignments: names a memory that was not removed"),
        ({"archival_index": indexed("a", "a")}, "archival_index: names a memory twice"),
        ({"archival_index": indexed("c")}, "archival_index: names a memory that was not removed"),
        ({"archival_index": indexed("a", "b")}, "archival_index: has 2 entries, but only 1 were archived"),
        ({"consolidated_count": 2}, "Extra inputs"),
        ({"removed_ids": (" ",)}, "at least 1 character"),
    ],
)
def test_a_result_that_contradicts_itself_is_refused(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        result(**changes)


def test_a_result_at_its_limits_is_accepted() -> None:
    assert result(archived_count=2, archival_index=indexed("a", "b"), mode_assignments=assigned("b", "a"))


def test_an_empty_result_says_that_nothing_happened() -> None:
    empty = ConsolidationResult()
    assert (empty.consolidated_count, empty.summary_id, empty.archived_count) == (0, None, 0)


def test_a_result_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        result().archived_count = 2  # type: ignore[misc]


def test_the_modes_are_those_of_the_reference() -> None:
    assert [str(mode) for mode in ArchivalMode] == ["abstractive", "extractive"]
