"""The journaled store: the only way in which maintenance changes a store.

A journal entry is written in full before it is executed. The steps: claim the candidates in the store with this
attempt's token; read the memories that carry it; journal all that goes out and comes in, in one transaction; store
what comes in and read it back; copy what a summary replaces to the archive's index; delete what still carries the
token; settle. An entry that a crash left open is a decision: the next attempt finishes it. Several entries may take
each step together: they cost little more than one.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

from memcore import ids
from memcore.backends.protocol import MAX_PAGE, archive_index_of, scanned
from memcore.errors import LeaseLostError, MemoryInputError, MemoryStoreError
from memcore.jobs import Use
from memcore.ledger.attempt import Lease
from memcore.ledger.erasure.hidden import Hidden
from memcore.ledger.journal import EntryReason, IncomingKind, Journal, JournalEntry
from memcore.ledger.runs import Run
from memcore.maintenance.rules import AgentSnapshot
from memcore.models.archival import ArchivalMode
from memcore.models.memory import EARLIEST
from memcore.records import ArchivedCopy, MemoryRecord, Where
from memcore.telemetry.events import Event

#: Returns the memory that replaces the outgoing ones; None leaves them where they are.
Replace = Callable[[tuple[MemoryRecord, ...]], Awaitable[MemoryRecord | None]]

#: Returns the mode under which an outgoing memory is archived; None does not archive it.
ArchiveAs = Callable[[MemoryRecord], ArchivalMode | None]

#: Most records on one side of an entry: with vectors about a megabyte, one page of a scan, one small transaction.
MAX_ENTRY = MAX_PAGE

#: Attempts to mark and delete memories before the store counts as failing: the mark of a worker that lost its lease may
#: overwrite ours once.
_DELETE_ATTEMPTS = 3

_log = logging.getLogger(__name__)


def _not_at_all(_record: MemoryRecord) -> None:
    """Archive nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryCounts:
    """The numbers of memories that an entry brought in and took out."""

    incoming: int = 0
    outgoing: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRemoval:
    """Memories that one entry removes; ``replace`` makes the summary of exactly those that it removes.

    ``archive_as`` is called for each of them after ``replace``; those with a mode are archived before they go.
    """

    ids: frozenset[str]
    replace: Replace | None = None
    archive_as: ArchiveAs = _not_at_all


class JournaledStore:
    """One attempt at a run: the run, the agent's snapshot, and the journal entries by which the run changes the store.

    The lease is checked before every write.
    """

    def __init__(self, snapshot: AgentSnapshot, run: Run, journal: Journal, lease: Lease) -> None:
        self.snapshot = snapshot
        self.run = run
        self._backend = snapshot.backend
        self._journal = journal
        self._lease = lease
        self._claims = 0

    def check(self) -> None:
        """Raise LeaseLostError where the run's lease is another worker's."""
        self._lease.check()

    async def begin(self) -> None:
        """Remove all marks, so that workers without the lease delete nothing; then finish the agent's open entries.

        Entries of a run that failed for good are finished too.
        """
        self._lease.check()
        await self._backend.unclaim(self.run.agent_id)
        for journal_entry in self._journal.open_of(self.run.company, self.run.agent_id):
            names = ("booking_id", "run_id", "agent_id")
            _log.info(Event.CONSOLIDATION_BOOKING_RESUMED, extra={name: getattr(journal_entry, name) for name in names})
            await self._execute([journal_entry], None)

    async def matching(self, where: Where, wanted: Collection[str]) -> tuple[MemoryRecord, ...]:
        """Return those of the ids that the filter matches, as they are removed: nothing is claimed or written."""
        self._lease.enter()
        found = scanned(self._backend, where.model_copy(update={"ids": frozenset(wanted)}), with_vectors=True)
        return tuple([record async for page in found for record in page])

    async def remove(
        self, where: Where, ids: Collection[str], *, reason: EntryReason, archive_as: ArchiveAs = _not_at_all
    ) -> int:
        """Remove those of the ids that the filter still matches, in entries of one page each; return how many.

        The store checks the conditions again, so a memory that was pinned a moment ago stays. Raises as
        ``remove_parts`` does.
        """
        removed, wanted = 0, list(ids)
        for start in range(0, len(wanted), MAX_ENTRY):
            part = PlannedRemoval(ids=frozenset(wanted[start : start + MAX_ENTRY]), archive_as=archive_as)
            (entry_counts,) = await self.remove_parts(where, [part], reason=reason)
            removed += entry_counts.outgoing
        return removed

    async def remove_parts(
        self, where: Where, parts: Sequence[PlannedRemoval], *, reason: EntryReason
    ) -> tuple[EntryCounts, ...]:
        """Remove the memories of each part that the filter still matches, one entry each; return the counts.

        The parts have at most 256 memories together, and none is in two. A part that is to be replaced stays when any
        of it is distrusted or raised by now: what took its place would hide the others too, or lower it.
        LeaseLostError and MaintenancePausedError are raised before anything new was decided; after an error of the
        store the next attempt finishes what was written.
        """
        self._lease.enter()
        wanted = frozenset[str]().union(*(part.ids for part in parts))
        # Read before the memories: what an engine deletes after this must not live on in a summary.
        known = frozenset(each.booking_id for each in self._journal.removals(wanted))
        token, claimed = await self._claim(where.model_copy(update={"ids": wanted}))
        # Not as the run began: a model may have been asked since.
        hidden = self.snapshot.ledger.hidden.of(self.run.company) if any(part.replace for part in parts) else Hidden()
        unmerged = frozenset(record.entry.id for record in claimed if hidden.keeps_unmerged(record.entry))
        chosen: dict[int, tuple[tuple[MemoryRecord, ...], MemoryRecord | None]] = {}
        for place, part in enumerate(parts):
            if part.replace is not None and not unmerged.isdisjoint(part.ids):
                continue
            outgoing = tuple([record for record in claimed if record.entry.id in part.ids])
            summary = await part.replace(outgoing) if part.replace is not None and outgoing else None
            if outgoing and (part.replace is None or summary is not None):
                chosen[place] = (outgoing, summary)
        # Where the sources were stored anew after their summary was made, it replaces them already.
        there = await self.there([summary.entry.id for _, summary in chosen.values() if summary is not None])
        first = self._journal.next_seq(self.run.run_id) if chosen else 0
        decided = [
            self._decision(
                seq=first + number,
                incoming=() if summary is None or summary.entry.id in there else (summary,),
                kind="created",
                outgoing=outgoing,
                reason=reason,
                archived={
                    each.entry.id: mode for each in outgoing if (mode := parts[place].archive_as(each)) is not None
                },
            )
            for number, (place, (outgoing, summary)) in enumerate(chosen.items())
        ]
        done = dict(zip(chosen, await self._carry_out(token, decided, known=known), strict=True))
        return tuple([done.get(place, EntryCounts()) for place in range(len(parts))])

    async def exchange(
        self,
        *,
        incoming: tuple[MemoryRecord, ...],
        outgoing_ids: frozenset[str],
        may_go: Callable[[MemoryRecord], bool],
        seq: int,
        reverses: str,
        known: frozenset[str],
    ) -> EntryCounts:
        """Bring memories back whole, and remove those that they replace where ``may_go`` allows it.

        ``may_go`` is called with the store's present record. ``reverses`` is the entry that this one undoes, ``known``
        are the entries that had removed any of the outgoing ids before this decision.
        """
        self._lease.enter()
        token, found = "", tuple[MemoryRecord, ...]()
        if outgoing_ids:
            token, found = await self._claim(Where(agent_id=self.run.agent_id, ids=outgoing_ids))
        outgoing = tuple(record for record in found if may_go(record))
        if not incoming and not outgoing:
            return EntryCounts()
        decision = self._decision(
            seq=seq, incoming=incoming, kind="restored", outgoing=outgoing, reason="undone", reverses=reverses
        )
        return (await self._carry_out(token, [decision], known=known, watched=outgoing_ids))[0]

    async def restore_removed(self, *records: MemoryRecord, seq: int = 0) -> EntryCounts:
        """Bring memories back as they were, in the run's entry of this number, so that two attempts never make two."""
        self._lease.enter()
        decision = self._decision(seq=seq, incoming=records, kind="restored", outgoing=(), reason="restored")
        return (await self._carry_out("", [decision]))[0]

    async def _claim(self, where: Where) -> tuple[str, tuple[MemoryRecord, ...]]:
        token = self._next_token()
        await self._backend.claim(where, token)
        carrying = scanned(self._backend, Where(agent_id=where.agent_id, token=token), with_vectors=True)
        return token, tuple([record async for page in carrying for record in page])

    def _next_token(self) -> str:
        # One mark per entry: memories that an earlier entry of this attempt claimed and left are not ours.
        self._claims += 1
        return f"{self._lease.token}.{self._claims}"

    def _decision(
        self,
        *,
        seq: int,
        incoming: tuple[MemoryRecord, ...],
        kind: IncomingKind,
        outgoing: tuple[MemoryRecord, ...],
        reason: EntryReason,
        reverses: str | None = None,
        archived: Mapping[str, ArchivalMode] = MappingProxyType({}),
    ) -> JournalEntry:
        return JournalEntry(
            booking_id=ids.new_id(),
            run_id=self.run.run_id,
            company=self.run.company,
            agent_id=self.run.agent_id,
            seq=seq,
            reason=reason,
            incoming=incoming,
            incoming_kind=kind,
            outgoing=outgoing,
            reverses=reverses,
            archived=archived,
            vector_space=self._backend.vector_space,
        )

    async def there(self, ids: Sequence[str]) -> frozenset[str]:
        """Return those of the ids that are in the store."""
        found = await self._backend.get_many(self.run.agent_id, ids) if ids else ()
        return frozenset([record.entry.id for record in found])

    async def _carry_out(
        self,
        token: str,
        decided: Sequence[JournalEntry],
        *,
        known: frozenset[str] | None = None,
        watched: frozenset[str] = frozenset(),
    ) -> tuple[EntryCounts, ...]:
        if not decided:
            return ()
        self._lease.check()
        try:
            self._journal.prepare(*decided, known=known, watched=watched)
        except MemoryInputError as error:
            if error.field != "seq":
                raise
            # A worker without the lease wrote its entry in our place. Only the run's owner gets past this line.
            self._lease.confirm()
            raise MemoryStoreError("another attempt's journal entry must be carried out first; try again") from error
        if archived := sum(len(journal_entry.archived) for journal_entry in decided):
            facts = {"agent_id": self.run.agent_id, "run_id": self.run.run_id, "archived": archived}
            _log.info(Event.CONSOLIDATION_ARCHIVAL_STORED, extra=facts)
        return await self._execute(decided, token)

    async def _execute(self, journal_entries: Sequence[JournalEntry], token: str | None) -> tuple[EntryCounts, ...]:
        """Execute entries of one run; without a token, one that an earlier attempt wrote."""
        agent_id, run_id = journal_entries[0].agent_id, journal_entries[0].run_id
        foreign_in = await self._store(agent_id, _by_id(record for each in journal_entries for record in each.incoming))
        await self._index(agent_id, journal_entries, foreign_in)
        outgoing = _by_id(record for each in journal_entries for record in each.outgoing)
        foreign_out = await self._delete(agent_id, run_id, outgoing, token)
        await self._unindex_stayed(agent_id, journal_entries, foreign_out)
        self._lease.check()
        self._journal.settle(
            *(each.booking_id for each in journal_entries), missing_in=foreign_in, missing_out=foreign_out
        )
        return tuple(
            EntryCounts(incoming=len(each.incoming_ids - foreign_in), outgoing=len(each.outgoing_ids - foreign_out))
            for each in journal_entries
        )

    async def _store(self, agent_id: str, incoming: Mapping[str, MemoryRecord]) -> frozenset[str]:
        """Store the incoming memories; return the ids that these entries did not bring in."""
        if not incoming:
            return frozenset()
        # An entry removes the tombstones of its incoming memories: one that exists now is of a later removal.
        tombstoned = self._tombstoned(incoming)
        wanted = {key: record for key, record in incoming.items() if key not in tombstoned}
        self._lease.check()
        await self._backend.store_many(list(wanted.values()))
        if without_tombstone := self._tombstoned(incoming) - tombstoned:
            # Meanwhile another attempt did all this and removed these again. The journal has them in full.
            await self._backend.delete_many(agent_id, sorted(without_tombstone))
            raise LeaseLostError(f"run {self.run.run_id}: another worker has done this entry's work")
        found = {record.entry.id: record for record in await self._backend.get_many(agent_id, list(wanted))}
        if len(found) < len(wanted):
            raise MemoryStoreError(
                f"{len(wanted) - len(found)} of {len(wanted)} memories cannot be read back after they were stored"
            )
        return tombstoned | {key for key, record in wanted.items() if not is_same(record, found[key])}

    async def _index(self, agent_id: str, journal_entries: Sequence[JournalEntry], foreign_in: frozenset[str]) -> None:
        """Let the archive's index follow the entries: what a summary replaces must be found when it is deleted."""
        index = archive_index_of(self._backend)
        if index is None:
            return
        left, back = set[str](), set[str]()
        copies: dict[str, ArchivedCopy] = {}
        for each in journal_entries:
            came = [record for record in each.incoming if record.entry.id not in foreign_in]
            summaries = [*came, *(await self._summaries_of(each) if each.reason == "undone" and not came else ())]
            copies |= {
                copy.archival_id: copy for summary in summaries for copy in self._copies(summary, each.outgoing_ids)
            }
            if each.incoming_kind == "restored":
                back |= {record.entry.id for record in came}
            if each.reason != "consolidated":
                # It left for good: nothing of what it stood for may be found any more.
                left |= {record.entry.id for record in each.outgoing if record.lineage.summary_of}
        going = {record.entry.id for each in journal_entries for record in each.outgoing if record.lineage.summary_of}
        if copies:
            self._lease.check()
            await index.index_archived(agent_id, list(copies.values()), moved_from=going)
            if gone := self._tombstoned({copy.summary_id for copy in copies.values()}):
                # Another attempt, or an engine, has removed the summary meanwhile.
                await index.unindex_archived(agent_id, summaries=gone)
        if left or back:
            self._lease.confirm()
            await index.unindex_archived(agent_id, summaries=left, originals=back)

    async def _summaries_of(self, undone: JournalEntry) -> tuple[MemoryRecord, ...]:
        """Return the summaries in the store of memories whose restore is undone."""
        lineage, level, met = self.snapshot.ledger.lineage, undone.outgoing_ids, set[str]()
        found: tuple[MemoryRecord, ...] = ()
        while level and not found:
            met |= level
            moves = lineage.moves(self.run.company, self.run.agent_id, level).values()
            merges = {move.booking_id for each in moves for move in each if move.reason == "consolidated"}
            exchanges = lineage.exchanges(merges).values()
            level = frozenset(memory_id for each in exchanges for memory_id in each.incoming if memory_id not in met)
            found = await self._backend.get_many(self.run.agent_id, sorted(level)) if level else ()
        return found

    async def _unindex_stayed(
        self, agent_id: str, journal_entries: Sequence[JournalEntry], stayed: frozenset[str]
    ) -> None:
        """Delete the copies of memories that did not go: the archive drops its entries of them too."""
        entries = [
            ids.archival_id(
                company=self.run.company, agent_id=agent_id, memory_id=memory_id, cause=journal_entry.booking_id
            )
            for journal_entry in journal_entries
            for memory_id in sorted(journal_entry.outgoing_ids & stayed)
        ]
        if entries and (index := archive_index_of(self._backend)) is not None:
            await index.unindex_archived(agent_id, entries=entries)

    def _copies(self, summary: MemoryRecord, going: frozenset[str]) -> Iterator[ArchivedCopy]:
        """Yield the copies by which the originals behind a summary are found."""
        if not summary.lineage.summary_of:
            return
        archive, space = self.snapshot.ledger.archive, self._backend.vector_space
        for archived in archive.replaced_by(self.run.company, self.run.agent_id, summary, going=going):
            yield ArchivedCopy(
                archival_id=archived.archival_id, summary_id=summary.entry.id, record=archived.record_for(space)
            )

    def _tombstoned(self, incoming: Iterable[str]) -> frozenset[str]:
        # The earliest time is before any tombstone: this asks whether one exists at all.
        return self._journal.tombstoned(dict.fromkeys(incoming, EARLIEST))

    async def _delete(
        self, agent_id: str, run_id: str, wanted: Mapping[str, MemoryRecord], token: str | None
    ) -> frozenset[str]:
        """Delete the outgoing memories; return the ids that these entries did not remove."""
        if not wanted:
            return frozenset()
        not_ours = frozenset[str]()
        if token is None:
            left = await self._left(agent_id, wanted)
            # A worker without the lease may have written the same removal: a run removes a memory once.
            not_ours = self._journal.removed_by_run(run_id, frozenset(wanted) - left)
            token = await self._mark(agent_id, left)
        for _ in range(_DELETE_ATTEMPTS):
            self._lease.confirm()
            where = Where(agent_id=agent_id, ids=frozenset(wanted), token=token)
            if await self._backend.delete_where(where) == len(wanted):
                return not_ours
            left = await self._left(agent_id, wanted)
            if not left:
                return not_ours
            token = await self._mark(agent_id, left)
        raise MemoryStoreError(f"{len(wanted)} memories were deleted, and some of them are still there")

    async def _left(self, agent_id: str, wanted: Mapping[str, MemoryRecord]) -> frozenset[str]:
        # A memory that was stored anew since has the id of the removed one, and stays.
        found = await self._backend.get_many(agent_id, list(wanted))
        return frozenset(record.entry.id for record in found if is_same(record, wanted[record.entry.id]))

    async def _mark(self, agent_id: str, left: frozenset[str]) -> str:
        token = self._next_token()
        if left:
            self._lease.check()
            await self._backend.claim(Where(agent_id=agent_id, ids=left), token)
        return token


def _by_id(records: Iterable[MemoryRecord]) -> dict[str, MemoryRecord]:
    return {record.entry.id: record for record in records}


def is_same(record: MemoryRecord, other: MemoryRecord) -> bool:
    """Return whether both are one memory, not one that was stored anew under the same id."""
    return record.entry.created_at == other.entry.created_at


def carry_uses(store: JournaledStore, sources: Sequence[MemoryRecord], summary: MemoryRecord) -> None:
    """Count the uses of the sources, which go with them, for the memory that replaces them; once by its id."""
    run, uses, summary_id = store.run, store.snapshot.ledger.uses, summary.entry.id
    count, last_used_at = total_use(
        uses.of(run.company, run.agent_id, [source.entry.id for source in sources]).values()
    )
    if last_used_at is not None:
        use = Use(agent_id=run.agent_id, memory_id=summary_id, uses=count, last_used_at=last_used_at)
        uses.count(run.company, summary_id, [use])


def total_use(uses: Iterable[Use]) -> tuple[int, datetime | None]:
    """Return how often memories were shown together, and when one of them was last; 0 and None for no use."""
    found = tuple(uses)
    return sum(use.uses for use in found), max((use.last_used_at for use in found), default=None)
