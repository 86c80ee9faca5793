"""The enforcement step: removes the least valuable memories over an agent's limit, near duplicates among them.

A package can replace the rule that values a memory.
"""

import builtins
import logging
import math
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.metadata import entry_points
from itertools import pairwise
from typing import Protocol, Self

import mmh3
import numpy as np
from numpy.typing import NDArray

from memcore.backends.protocol import pages
from memcore.embedding.bm25 import Tokenizer
from memcore.errors import MemoryConfigError
from memcore.maintenance.events import MaintenanceEvent
from memcore.maintenance.removals import JournaledStore
from memcore.maintenance.rules import AgentSnapshot
from memcore.models.memory import MemoryEntry
from memcore.records import MemoryRecord, Where

#: Time after which an unused memory has half of its recency: a quarter of a year, as long as most work is discussed.
HALF_LIFE = timedelta(days=90)

#: Uses after which further ones add nothing.
MANY_USES = 8

#: Weight of use beside recency: use shows that a memory was wanted, age only that it may not be any more.
USE_WEIGHT = 3.0

#: Share of its value that is left to a memory which a newer one repeats.
REPEATED_SHARE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A memory to be valued, how often the agent was shown it, and whether a newer memory says nearly the same."""

    entry: MemoryEntry
    uses: int = 0
    last_used_at: datetime | None = None
    is_repeated: bool = False


class MemoryValue(Protocol):
    """Values a memory; the least valuable is removed first, of equals the oldest.

    Core and pinned memories go last, whatever their value. An answer that is no finite number, or an exception, ends
    the run before anything is removed.
    """

    def __call__(self, candidate: Candidate, now: datetime) -> float:
        """Return the value of one memory; only the order matters."""
        ...


def usual_value(candidate: Candidate, now: datetime) -> float:
    """Return confidence x (recency + 3 x use), a tenth of it where a newer memory says nearly the same.

    Recency halves every 90 days since the memory was made. Use grows with the logarithm of the uses, up to 8, and
    halves every 90 days since the last one.
    """
    entry = candidate.entry
    worth = _halved(now - entry.created_at)
    if candidate.last_used_at is not None:
        often = min(1.0, math.log1p(candidate.uses) / math.log1p(MANY_USES))
        worth += USE_WEIGHT * often * _halved(now - candidate.last_used_at)
    return entry.metadata.confidence * worth * (REPEATED_SHARE if candidate.is_repeated else 1.0)


def _halved(since: timedelta) -> float:
    return float(0.5 ** (max(since, timedelta(0)) / HALF_LIFE))


#: Entry point group under which a package names its rule.
GROUP = "memtend.memory_value"


def installed_value() -> MemoryValue:
    """Return the rule that an installed package names as an entry point of the group, or else the shipped one.

    Raises MemoryConfigError when two packages name one, or it cannot be loaded or called.
    """
    found = list(entry_points(group=GROUP))
    if not found:
        return usual_value
    names = ", ".join(sorted(f"{each.name} = {each.value}" for each in found))
    if len(found) > 1:
        raise MemoryConfigError(
            f"the value of memories: {GROUP} is named more than once ({names}); uninstall all but one"
        )
    try:
        value: MemoryValue = found[0].load()
    except Exception as error:
        raise MemoryConfigError(f"the value of memories: {names} cannot be loaded ({type(error).__name__})") from error
    if not callable(value):
        raise MemoryConfigError(f"the value of memories: {names} names no function")
    return value


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


class MemoryScorer:
    """Scores one agent's memories by the rule; the first call looks for near duplicates."""

    def __init__(self, snapshot: AgentSnapshot, value: MemoryValue) -> None:
        self._snapshot = snapshot
        self._value = value
        self._repeated: frozenset[str] | None = None

    async def values(self, records: Sequence[MemoryRecord]) -> list[float]:
        """Return the value of each memory. Raises MemoryConfigError when the rule fails, or gives no finite number."""
        snapshot = self._snapshot
        if self._repeated is None:
            repeats = NearDuplicates()
            # Pages come oldest first.
            async for page in pages(snapshot.backend, snapshot.free):
                repeats.add(page)
            self._repeated = repeats.found()
        ids = [record.entry.id for record in records]
        uses = snapshot.ledger.uses.of(snapshot.company, snapshot.agent_id, ids)
        worth: list[float] = []
        for record in records:
            use = uses.get(record.entry.id)
            candidate = Candidate(
                entry=record.entry,
                uses=use.uses if use else 0,
                last_used_at=use.last_used_at if use else None,
                is_repeated=record.entry.id in self._repeated,
            )
            worth.append(self._asked(candidate))
        return worth

    def _asked(self, candidate: Candidate) -> float:
        try:
            worth = float(self._value(candidate, self._snapshot.now))
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


async def lowest(
    found: AsyncIterator[tuple[MemoryRecord, ...]],
    *,
    size: int,
    value: MemoryScorer,
    counts: Callable[[MemoryRecord], bool] = lambda _: True,
) -> tuple[EvictionCandidate, ...]:
    """Return the ``size`` memories to remove first; its memory grows with ``size``, not with the agent."""
    kept: list[EvictionCandidate] = []
    async for page in found:
        counted = [record for record in page if counts(record)]
        worth = await value.values(counted)
        kept += [EvictionCandidate.of(record, each) for record, each in zip(counted, worth, strict=True)]
        if len(kept) > 2 * size:
            kept = sorted(kept)[:size]
    return tuple(sorted(kept)[:size])


#: Eviction candidates chosen in one scan of an agent's memories: under a megabyte, and sixteen journal entries.
ROUND_SIZE = 4096

_log = logging.getLogger(__name__)


async def apply_enforcement(store: JournaledStore, value: MemoryScorer) -> None:
    """Remove exactly the excess over the agent's limit, by the store's count.

    Memories under a hold are neither counted nor removed: else others, that nobody restored, would go instead.
    """
    snapshot, removed = store.snapshot, 0
    while (excess := await snapshot.backend.count_where(snapshot.free) - snapshot.terms.max_memories) > 0:
        found = await lowest(pages(snapshot.backend, snapshot.free), size=min(excess, ROUND_SIZE), value=value)
        taken = 0
        for is_protected in (False, True):
            # A memory that was pinned after it was chosen stays; the next round finds another.
            where = Where(agent_id=snapshot.agent_id, without_tags=() if is_protected else PROTECTED_FROM_ENFORCEMENT)
            ids = [each.id for each in found if each.is_protected is is_protected]
            taken += await store.remove(where, ids, reason="enforced", archive_as=snapshot.archive_mode)
        if not taken:
            break
        removed += taken
    _log.info(MaintenanceEvent.ENFORCED, extra={"agent_id": snapshot.agent_id, "removed": removed})
