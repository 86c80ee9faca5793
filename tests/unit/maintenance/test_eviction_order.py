"""The order of eviction."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, cast

import hypothesis.strategies as st
from hypothesis import given
from support.maintenance_fixture import memory, uid

from memcore.maintenance.enforcement import EvictionCandidate, lowest
from memcore.records import MemoryRecord

if TYPE_CHECKING:
    from memcore.maintenance.enforcement import MemoryScorer


class ByConfidence:
    """A scorer by confidence alone."""

    async def values(self, records: Sequence[MemoryRecord]) -> list[float]:
        return [record.entry.metadata.confidence for record in records]

    def is_repeated(self, record: MemoryRecord) -> bool:
        return "twice" in record.entry.metadata.tags


async def _pages(*records: MemoryRecord) -> AsyncIterator[tuple[MemoryRecord, ...]]:
    for record in records:
        yield (record,)


async def test_protected_last_then_last_copies_then_value_then_age_then_id() -> None:
    order = await lowest(
        _pages(
            memory(1, days_old=90, tags=["core"]),
            memory(2, days_old=10),
            memory(3, days_old=50, confidence=0.5),
            memory(4, days_old=20, confidence=0.0),
            memory(6, days_old=30, confidence=0.0),
            memory(5, days_old=30, confidence=0.0),
            memory(7, days_old=1, tags=["twice"]),
            memory(8, days_old=1, tags=["twice", "pinned"]),
        ),
        size=10,
        value=cast("MemoryScorer", ByConfidence()),
    )

    assert [eviction_candidate.id for eviction_candidate in order] == [uid(n) for n in (7, 5, 6, 4, 3, 2, 8, 1)]


@given(st.lists(st.integers(0, 50)), st.integers(0, 12))
def test_the_lowest_of_any_stream_are_those_of_its_sorted_whole(values: list[int], size: int) -> None:
    records = [memory(n, days_old=n % 7, confidence=value / 50) for n, value in enumerate(values)]
    kept = asyncio.run(lowest(_pages(*records), size=size, value=cast("MemoryScorer", ByConfidence())))

    ordered = sorted(EvictionCandidate.of(record, record.entry.metadata.confidence) for record in records)
    assert kept == tuple(ordered[:size])
