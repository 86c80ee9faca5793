"""The enforcement step: removes the least valuable memories over an agent's limit, near duplicates among them."""

import builtins
import logging
import math
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Self

import mmh3
import numpy as np
from numpy.typing import NDArray

from memcore.backends.protocol import pages
from memcore.embedding.bm25 import Tokenizer
from memcore.errors import MemoryConfigError
from memcore.maintenance.consolidation.selection import MAX_ENTRY
from memcore.maintenance.context import AgentSnapshot, RunContext
from memcore.maintenance.events import MaintenanceEvent
from memcore.maintenance.value import Candidate, MemoryValue
from memcore.records import MemoryRecord, Where

# MinHash with banding (Broder 1997; Leskovec et al., Mining of Massive Datasets, section 3): of each memory's
# words, and of the pairs of neighbours among them, the least of 64 hashes are taken, eight to a band. Two memories that
# agree in a band count as near duplicates: nearly all pairs that share nine in ten, one in thirty that shares half.

#: Bands, and hashes in each.
_BANDS, _ROWS = 8, 8

#: Fewer terms than this say too little to be compared: "thanks, bye" is no repetition of "bye".
_LEAST_TERMS = 4


class NearDuplicates:
    """Finds the memories of one agent that a newer one repeats; they are added oldest first.

    It holds about 200 bytes a memory: its id and eight numbers.
    """

    def __init__(self) -> None:
        # Stems and stop words are English; other texts are compared word by word, which is what is wanted here.
        self._tokenizer = Tokenizer()
        dice = np.random.Generator(np.random.PCG64(20_260_301))
        # Multiplied modulo 2**64: an odd factor is a permutation, and its high bits, which decide the least, are mixed.
        self._factors = dice.integers(0, 1 << 63, size=(_BANDS * _ROWS, 1), dtype=np.uint64) * np.uint64(2) + np.uint64(
            1
        )
        self._ids: list[str] = []
        self._bands: list[NDArray[np.uint64]] = []

    def add(self, records: Iterable[MemoryRecord]) -> None:
        """Add memories; they are newer than all before them."""
        for record in records:
            bands = self._of(record.entry.content)
            if bands is not None:
                self._ids.append(record.entry.id)
                self._bands.append(bands)

    def found(self) -> frozenset[str]:
        """Return the ids of memories that a newer one repeats."""
        if not self._bands:
            return frozenset()
        repeated = np.zeros(len(self._ids), dtype=bool)
        for band in np.stack(self._bands, axis=1):
            order = np.argsort(band, kind="stable")
            again = band[order[:-1]] == band[order[1:]]
            # The sort is stable: of equals, all but the last have a newer one after them.
            repeated[order[:-1][again]] = True
        return frozenset(memory_id for memory_id, is_repeated in zip(self._ids, repeated, strict=True) if is_repeated)

    def _of(self, text: str) -> NDArray[np.uint64] | None:
        terms = self._tokenizer.terms(text)
        if len(set(terms)) < _LEAST_TERMS:
            return None
        shingles = {*terms, *(f"{first} {second}" for first, second in pairwise(terms))}
        hashes = np.array([mmh3.hash64(shingle, signed=False)[0] for shingle in sorted(shingles)], dtype=np.uint64)
        least = (hashes * self._factors).min(axis=1)
        return np.array(
            [mmh3.hash64(row.tobytes(), signed=False)[0] for row in least.reshape(_BANDS, _ROWS)], dtype=np.uint64
        )


async def find_near_duplicates(found: AsyncIterator[tuple[MemoryRecord, ...]]) -> frozenset[str]:
    """Return the ids of memories that a newer one repeats; the pages come oldest first."""
    repeats = NearDuplicates()
    async for page in found:
        repeats.add(page)
    return repeats.found()


class MemoryScorer:
    """Scores one agent's memories; the first call looks for near duplicates.

    Args:
        snapshot: whose memories.
        value: the rule.
    """

    def __init__(self, snapshot: AgentSnapshot, value: MemoryValue) -> None:
        self._snapshot = snapshot
        self._value = value
        self._repeated: frozenset[str] | None = None

    async def values(self, records: Sequence[MemoryRecord], *, now: datetime) -> list[float]:
        """Return the value of each memory.

        Raises:
            MemoryConfigError: the rule failed, or gave what is no finite number.
            MemoryRetrievalError, MemoryConnectionError: the store or the uses cannot be read.
        """
        if self._repeated is None:
            mine = Where(agent_id=self._snapshot.agent_id, without_ids=self._snapshot.protected_by_undo)
            self._repeated = await find_near_duplicates(pages(self._snapshot.backend, mine))
        uses = self._snapshot.uses([record.entry.id for record in records])
        worth: list[float] = []
        for record in records:
            use = uses.get(record.entry.id)
            candidate = Candidate(
                entry=record.entry,
                uses=0 if use is None else use.uses,
                last_used_at=None if use is None else use.last_used_at,
                is_repeated=record.entry.id in self._repeated,
            )
            worth.append(self._asked(candidate, now))
        return worth

    def _asked(self, candidate: Candidate, now: datetime) -> float:
        try:
            worth = float(self._value(candidate, now))
        except builtins.MemoryError:
            raise
        except Exception as error:
            raise MemoryConfigError(
                f"the value of memories: the rule failed with {type(error).__name__}; nothing was removed by it"
            ) from error
        if not math.isfinite(worth):
            raise MemoryConfigError(f"the value of memories: the rule gave {worth}, not a finite number")
        return worth


#: Memories with these tags are removed last.
PROTECTED_FROM_ENFORCEMENT = ("core", "pinned")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class EvictionCandidate:
    """A memory in the order of removal: unprotected first, then by value, then oldest first, then by id."""

    is_protected: bool
    value: float
    created_at: datetime
    id: str

    @classmethod
    def of(cls, record: MemoryRecord, value: float) -> Self:
        """Return the candidate of a memory of this value."""
        entry = record.entry
        return cls(
            is_protected=not set(PROTECTED_FROM_ENFORCEMENT).isdisjoint(entry.metadata.tags),
            value=value,
            created_at=entry.created_at,
            id=entry.id,
        )


class Lowest:
    """Keeps the first ``size`` of any number of eviction candidates; it holds at most twice as many."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: list[EvictionCandidate] = []

    def add(self, eviction_candidates: Iterable[EvictionCandidate]) -> None:
        """Add candidates."""
        self._kept.extend(eviction_candidates)
        if len(self._kept) > 2 * self._size:
            self._trim()

    def taken(self) -> tuple[EvictionCandidate, ...]:
        """Return the first ``size``, in the order of removal."""
        self._trim()
        return tuple(self._kept)

    def _trim(self) -> None:
        self._kept.sort()
        del self._kept[self._size :]


async def lowest(
    found: AsyncIterator[tuple[MemoryRecord, ...]],
    *,
    size: int,
    value: MemoryScorer,
    now: datetime,
    counts: Callable[[MemoryRecord], bool] = lambda _: True,
) -> tuple[EvictionCandidate, ...]:
    """Return the ``size`` memories to remove first; its memory grows with ``size``, not with the agent."""
    order = Lowest(size)
    async for page in found:
        counted = [record for record in page if counts(record)]
        worth = await value.values(counted, now=now)
        order.add(EvictionCandidate.of(record, each) for record, each in zip(counted, worth, strict=True))
    return order.taken()


#: Eviction candidates chosen in one scan of an agent's memories: under a megabyte, and sixteen journal entries.
ROUND_SIZE = 4096

_log = logging.getLogger(__name__)


async def apply_enforcement(run_context: RunContext, value: MemoryScorer) -> None:
    """Remove exactly the excess over the agent's limit, by the store's count.

    Memories under a hold are neither counted nor removed: else others, that nobody restored, would go instead.
    """
    snapshot = run_context.snapshot
    free = Where(agent_id=snapshot.agent_id, without_ids=snapshot.protected_by_undo)
    removed = 0
    while (excess := await snapshot.backend.count_where(free) - snapshot.terms.max_memories) > 0:
        eviction_candidates = await lowest(
            pages(snapshot.backend, free), size=min(excess, ROUND_SIZE), value=value, now=snapshot.now
        )
        taken = await _remove(run_context, eviction_candidates)
        if not taken:
            break
        removed += taken
    _log.info(MaintenanceEvent.ENFORCED, extra={"agent_id": snapshot.agent_id, "removed": removed})


async def _remove(run_context: RunContext, eviction_candidates: tuple[EvictionCandidate, ...]) -> int:
    removed = 0
    for is_protected in (False, True):
        ids = [
            eviction_candidate.id
            for eviction_candidate in eviction_candidates
            if eviction_candidate.is_protected is is_protected
        ]
        for start in range(0, len(ids), MAX_ENTRY):
            where = Where(
                agent_id=run_context.snapshot.agent_id,
                ids=frozenset(ids[start : start + MAX_ENTRY]),
                # A memory that was pinned after it was chosen stays; the next round finds another.
                without_tags=() if is_protected else PROTECTED_FROM_ENFORCEMENT,
            )
            entry_counts = await run_context.journaled_store.remove(
                where, reason="enforced", archive_as=run_context.snapshot.archiving.mode_of
            )
            removed += entry_counts.outgoing
    return removed
