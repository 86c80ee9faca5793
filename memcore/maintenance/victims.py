"""Which memories go when an agent has too many: the least worth first, protected ones last."""

from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from memcore.backends.record import MemoryRecord
from memcore.maintenance.appraisal import Appraisal

#: Tags whose memories go last, after everything else.
PROTECTED_FROM_ENFORCEMENT = ("core", "pinned")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Victim:
    """A memory's place in the order of removal: unprotected first, then by value, then oldest first, then by id."""

    is_protected: bool
    value: float
    created_at: datetime
    id: str

    @classmethod
    def of(cls, record: MemoryRecord, value: float) -> Self:
        """Return the place of a memory of that worth."""
        entry = record.entry
        return cls(
            is_protected=not set(PROTECTED_FROM_ENFORCEMENT).isdisjoint(entry.metadata.tags),
            value=value,
            created_at=entry.created_at,
            id=entry.id,
        )


class Lowest:
    """Keep the first ``size`` of any number of victims, holding at most twice as many."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: list[Victim] = []

    def add(self, victims: Iterable[Victim]) -> None:
        """Take these into account."""
        self._kept.extend(victims)
        if len(self._kept) > 2 * self._size:
            self._trim()

    def taken(self) -> tuple[Victim, ...]:
        """Return the first of all, in the order of removal."""
        self._trim()
        return tuple(self._kept)

    def _trim(self) -> None:
        self._kept.sort()
        del self._kept[self._size :]


async def lowest(
    found: AsyncIterator[tuple[MemoryRecord, ...]],
    *,
    size: int,
    value: Appraisal,
    now: datetime,
    counts: Callable[[MemoryRecord], bool] = lambda _: True,
) -> tuple[Victim, ...]:
    """Return the ``size`` memories that go first, of those that count; memory grows with size, not with the agent."""
    order = Lowest(size)
    async for page in found:
        counted = [record for record in page if counts(record)]
        worth = await value.values(counted, now=now)
        order.add(Victim.of(record, each) for record, each in zip(counted, worth, strict=True))
    return order.taken()
