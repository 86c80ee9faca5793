"""The enforcement step: removes the memories over an agent's limit, repetitions first, then the least valuable.

A package can replace the rule that values a memory.
"""

import builtins
import heapq
import logging
import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from importlib.metadata import entry_points
from typing import Protocol, Self

from memcore.backends.protocol import pages
from memcore.embedding.bm25 import Vocabulary
from memcore.errors import MemoryConfigError
from memcore.maintenance.removals import JournaledStore, total_use
from memcore.maintenance.rules import AgentSnapshot
from memcore.models.archival import ArchivalMode
from memcore.models.memory import PROTECTED_FROM_ENFORCEMENT, MemoryEntry
from memcore.records import MemoryRecord, Where
from memcore.retrieval.repetitions import Repetitions
from memcore.telemetry.events import Event

#: Time after which an unused memory has half of its recency: a quarter of a year, as long as most work is discussed.
HALF_LIFE = timedelta(days=90)

#: Uses after which further ones add nothing.
MANY_USES = 8

#: Weight of use beside recency: use shows that a memory was wanted, age only that it may not be any more.
USE_WEIGHT = 3.0

#: Words of a memory by which it is told how much it says. More would make a long text worth more than any short fact.
RAREST_WORDS = 4

#: Share of its value that is left to a memory which another one repeats.
REPEATED_SHARE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A memory to be valued.

    Attributes:
        uses: how often the agent was shown it, or a memory that it repeats.
        is_repeated: whether another memory says all that it says.
        information: how much it says: the rarity (idf) of its four rarest words among the agent's memories, added up.
    """

    entry: MemoryEntry
    uses: int = 0
    last_used_at: datetime | None = None
    is_repeated: bool = False
    information: float = 1.0


class MemoryValue(Protocol):
    """Values a memory; the least valuable is removed first, of equals the oldest.

    Core and pinned memories go last, and what another memory repeats goes first, whatever their value. An answer that
    is no finite number, or an exception, ends the run before anything is removed.
    """

    def __call__(self, candidate: Candidate, now: datetime) -> float:
        """Return the value of one memory; only the order matters."""
        ...


def usual_value(candidate: Candidate, now: datetime) -> float:
    """Return confidence x information x (1 + recency + 3 x use).

    A tenth of it is left where another memory says all that this one says. Recency halves every 90 days since the
    memory was made. Use grows with the logarithm of the uses, up to 8, and halves every 90 days since the last one.
    """
    entry = candidate.entry
    worth = 1.0 + _halved(now - entry.created_at)
    if candidate.last_used_at is not None:
        often = min(1.0, math.log1p(candidate.uses) / math.log1p(MANY_USES))
        worth += USE_WEIGHT * often * _halved(now - candidate.last_used_at)
    repeated = REPEATED_SHARE if candidate.is_repeated else 1.0
    return entry.metadata.confidence * candidate.information * worth * repeated


def _halved(since: timedelta) -> float:
    return float(0.5 ** (max(since, timedelta(0)) / HALF_LIFE))


#: Entry point group under which a package names its rule.
GROUP = "memtend.memory_value"


@cache
def installed_value() -> MemoryValue:
    """Return the rule that an installed package names as an entry point of the group, or else the shipped one.

    To read what is installed takes 10 ms, so a process does it once.
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


#: Reads all memories that count.
MemoryPages = Callable[[], AsyncIterator[tuple[MemoryRecord, ...]]]


class MemoryScorer:
    """Scores one agent's memories by the rule; the first call reads them all: repetitions, and how rare words are.

    Args:
        every: reads them; left out, all that are under no hold.
        replaced: of a memory the ids of those whose uses it will have once a run has replaced them.
    """

    def __init__(
        self,
        snapshot: AgentSnapshot,
        value: MemoryValue,
        *,
        every: MemoryPages | None = None,
        replaced: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._value = value
        self._every = every or (lambda: pages(snapshot.backend, snapshot.free))
        self._replaced = replaced or {}
        self._copies: Mapping[str, tuple[str, ...]] | None = None
        self._repeated = frozenset[str]()
        self._words = Vocabulary()

    async def values(self, records: Sequence[MemoryRecord]) -> list[float]:
        """Return the value of each memory. Raises MemoryConfigError when the rule fails, or gives no finite number."""
        snapshot = self._snapshot
        if self._copies is None:
            repetitions = Repetitions()
            async for page in self._every():
                repetitions.add(page)
                self._words.add([record.entry.content for record in page])
            self._copies = {group.kept: group.repeated for group in repetitions.groups()}
            self._repeated = frozenset().union(*self._copies.values())
        ids = {record.entry.id: self._counted_with(record.entry.id, self._copies) for record in records}
        uses = snapshot.ledger.uses.of(
            snapshot.company, snapshot.agent_id, {each for copies in ids.values() for each in copies}
        )
        terms = self._words.terms_of([record.entry.content for record in records])
        worth: list[float] = []
        for record, words in zip(records, terms, strict=True):
            count, last_used_at = total_use(uses[each] for each in ids[record.entry.id] if each in uses)
            candidate = Candidate(
                entry=record.entry,
                uses=count,
                last_used_at=last_used_at,
                is_repeated=self.is_repeated(record),
                information=sum(heapq.nlargest(RAREST_WORDS, map(self._words.rarity, words))),
            )
            worth.append(self._asked(candidate))
        return worth

    def _counted_with(self, memory_id: str, copies: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
        alike = (memory_id, *copies.get(memory_id, ()))
        return (*alike, *(each for one in alike for each in self._replaced.get(one, ())))

    def is_repeated(self, record: MemoryRecord) -> bool:
        """Return whether another memory says all that this one says; known once values were asked for."""
        return record.entry.id in self._repeated

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


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class EvictionCandidate:
    """A memory in the order of removal: unprotected first, then what another repeats, then by value, age and id.

    So the last copy of a fact never goes while another fact is there twice.
    """

    is_protected: bool
    is_last_copy: bool
    value: float
    created_at: datetime
    id: str

    @classmethod
    def of(
        cls,
        record: MemoryRecord,
        value: float,
        *,
        is_repeated: bool = False,
        kept_tags: Sequence[str] = PROTECTED_FROM_ENFORCEMENT,
    ) -> Self:
        """Return the candidate of a memory of this value; one with one of ``kept_tags`` is protected."""
        entry = record.entry
        return cls(
            is_protected=not set(kept_tags).isdisjoint(entry.metadata.tags),
            is_last_copy=not is_repeated,
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
    kept_tags: Sequence[str] = PROTECTED_FROM_ENFORCEMENT,
) -> tuple[EvictionCandidate, ...]:
    """Return the ``size`` memories to remove first; its memory grows with ``size``, not with the agent."""
    kept: list[EvictionCandidate] = []
    async for page in found:
        counted = [record for record in page if counts(record)]
        worth = await value.values(counted)
        kept += [
            EvictionCandidate.of(record, each, is_repeated=value.is_repeated(record), kept_tags=kept_tags)
            for record, each in zip(counted, worth, strict=True)
        ]
        if len(kept) > 2 * size:
            kept = sorted(kept)[:size]
    return tuple(sorted(kept)[:size])


#: Eviction candidates chosen in one scan of an agent's memories: under a megabyte, and sixteen journal entries.
ROUND_SIZE = 4096

_log = logging.getLogger(__name__)


def _as_it_is(_record: MemoryRecord) -> ArchivalMode:
    # The limit is no wish that something be forgotten: whoever needs it finds it in the archive.
    return ArchivalMode.EXTRACTIVE


async def apply_enforcement(store: JournaledStore, value: MemoryScorer, *, most: int | None = None) -> None:
    """Remove exactly the excess over the agent's limit, by the store's count; all of it is archived.

    A released run removes at most as many as a person was shown (``most``).

    Memories under a hold are neither counted nor removed: else others, that nobody restored, would go instead.
    """
    snapshot, removed = store.snapshot, 0
    while (excess := await snapshot.backend.count_where(snapshot.free) - snapshot.terms.max_memories) > 0:
        if most is not None and (excess := min(excess, most - removed)) <= 0:
            break
        found = await lowest(
            pages(snapshot.backend, snapshot.free),
            size=min(excess, ROUND_SIZE),
            value=value,
            kept_tags=snapshot.kept_tags,
        )
        taken = 0
        for is_protected in (False, True):
            # A memory that was pinned after it was chosen stays; the next round finds another.
            where = Where(agent_id=snapshot.agent_id, without_tags=() if is_protected else snapshot.kept_tags)
            ids = [each.id for each in found if each.is_protected is is_protected]
            taken += await store.remove(where, ids, reason="enforced", archive_as=_as_it_is)
        if not taken:
            break
        removed += taken
    _log.info(Event.CONSOLIDATION_MAX_MEMORIES_ENFORCED, extra={"agent_id": snapshot.agent_id, "removed": removed})
