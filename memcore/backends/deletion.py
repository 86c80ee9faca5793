"""Deletion by an engine: journaled as in a run, so that it can be explained and undone.

One transaction writes the memory to the journal in full and sets a tombstone; then the store deletes it; then the
journal entry is settled. A crash before the transaction leaves the memory, a crash after it leaves an open entry: the
next ``delete`` of the memory finishes it, and so does the agent's next run.
"""

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from memcore import ids
from memcore.backends.protocol import archive_index_of
from memcore.clock import Clock, utc_now
from memcore.config.urls import LedgerUrls
from memcore.errors import MemoryStoreError
from memcore.ledger.journal import JournalEntry, Removal
from memcore.ledger.runs import NewRun
from memcore.records import Where

if TYPE_CHECKING:
    from memcore.backends.protocol import BatchBackend
    from memcore.ledger.ledger import Ledger
    from memcore.records import MemoryRecord

#: Attempts before the caller gets an error: another process deletes the memory at the same moment.
_CHECKS = 3

#: Filters exclude their end time, and the memory made at that very moment is meant.
_MOMENT = timedelta(microseconds=1)


class Deletion:
    """Deletes single memories of one company, each by a run of kind ``remove`` and origin ``engine``.

    Safe in any number of processes at once, beside runs of the same agent. The ledger is opened with the first delete.
    """

    def __init__(self, urls: LedgerUrls, *, company: str, clock: Clock = utc_now) -> None:
        self._urls = urls
        self._company = company
        self._clock = clock
        self._ledger: Ledger | None = None

    async def delete(self, backend: "BatchBackend", agent_id: str, memory_id: str) -> bool:
        """Delete the memory; False when this agent has none with that id.

        Raises MemoryStoreError while a run of the agent is removing it, and MemoryConnectionError: try again.
        """
        for attempt in range(1, _CHECKS + 1):
            # Before the memory is read: a later removal is seen when the entry is written.
            known = await asyncio.to_thread(self._removals, memory_id)
            found = await backend.get_many(agent_id, [memory_id], with_vectors=True)
            if not found:
                return False
            try:
                removal = await asyncio.to_thread(self._decided, found[0], known)
            except MemoryStoreError:
                if attempt == _CHECKS:
                    raise
                continue
            await self._execute(backend, found[0], removal)
            return True
        raise AssertionError("unreachable")  # pragma: no cover  # the last look returns or raises

    def close(self) -> None:
        """Close the connections to the ledger; a later delete opens new ones."""
        ledger, self._ledger = self._ledger, None
        if ledger is not None:
            ledger.close()

    def _opened(self) -> "Ledger":
        if self._ledger is None:
            from memcore.ledger.ledger import Ledger  # noqa: PLC0415  # an engine that deletes nothing needs no ledger

            self._ledger = Ledger.open(self._urls, clock=self._clock)
        return self._ledger

    def _removals(self, memory_id: str) -> tuple[Removal, ...]:
        return self._opened().journal.removals([memory_id])

    def _decided(self, record: "MemoryRecord", known: tuple[Removal, ...]) -> Removal:
        """Return the entry that deletes the memory: one that was left open, or a new one."""
        ledger, memory_id = self._opened(), record.entry.id
        for removal in known:
            if not removal.is_open:
                continue
            journaled = ledger.lineage.record(removal.booking_id, memory_id)
            # A memory stored anew since has the same id, and is not the one that was removed.
            if journaled is None or journaled.entry.created_at != record.entry.created_at:
                continue
            if removal.reason == "deleted":
                return removal
            raise MemoryStoreError(f"run {removal.run_id} is removing memory {memory_id} now; try again")
        run = ledger.runs.note_done(
            NewRun(
                run_id=ids.new_id(),
                company=self._company,
                agent_id=record.entry.agent_id,
                kind="remove",
                origin="engine",
                planned_at=self._clock(),
                scope_id=memory_id,
            )
        )
        journal_entry = JournalEntry(
            booking_id=ids.new_id(),
            run_id=run.run_id,
            company=self._company,
            agent_id=record.entry.agent_id,
            seq=0,
            reason="deleted",
            outgoing=(record,),
        )
        ledger.journal.prepare(journal_entry, known=frozenset(each.booking_id for each in known))
        return Removal(
            memory_id=memory_id, booking_id=journal_entry.booking_id, run_id=run.run_id, reason="deleted", is_open=True
        )

    async def _execute(self, backend: "BatchBackend", record: "MemoryRecord", removal: Removal) -> None:
        agent_id, memory_id = record.entry.agent_id, record.entry.id
        where = Where(agent_id=agent_id, ids=frozenset({memory_id}), created_before=record.entry.created_at + _MOMENT)
        for _ in range(_CHECKS):
            token = ids.new_id()
            await backend.claim(where, token)
            # After the mark: a memory deleted and restored before it is seen here; one restored later has no mark.
            if removal not in await asyncio.to_thread(self._removals, memory_id):
                return
            if record.lineage.summary_of and (index := archive_index_of(backend)) is not None:
                # What the summary replaced is deleted with it, so it must not be found any more.
                await index.unindex_archived(agent_id, summaries=[memory_id])
            if await backend.delete_where(where.model_copy(update={"token": token})):
                break
            found = await backend.get_many(agent_id, [memory_id])
            if all(each.entry.created_at != record.entry.created_at for each in found):
                break
        else:
            raise MemoryStoreError(f"memory {memory_id} was deleted, and is still there; try again")
        await asyncio.to_thread(self._settle, removal)

    def _settle(self, removal: Removal) -> None:
        ledger = self._opened()
        ledger.journal.settle(removal.booking_id)
        ledger.runs.count(removal.run_id, {"removed": 1})
