"""Changes and deletions by an engine: journaled as in a run, so that they can be explained and undone.

The memories are marked; one transaction writes what carries the mark to the journal in full and sets tombstones; then
the store takes the new version and deletes the old one; then the journal entry is settled. A crash before the
transaction leaves the memory, a crash after it leaves an open entry: the same call on the memory finishes it, and so
does the agent's next run.
"""

import asyncio
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Self, TypeVar

from memcore import ids
from memcore.backends.protocol import MAX_PAGE, archive_index_of, scanned
from memcore.clock import Clock, utc_now
from memcore.config.urls import LedgerUrls
from memcore.errors import MemoryConflictError, MemoryError  # noqa: A004  # the reference fixes the name
from memcore.ledger.journal import EntryReason, JournalEntry, Removal
from memcore.ledger.runs import NewRun
from memcore.models.memory import EARLIEST
from memcore.records import MemoryRecord, Where

if TYPE_CHECKING:
    from memcore.backends.protocol import BatchBackend
    from memcore.ledger.ledger import Ledger

#: Attempts before the caller gets an error: another process deletes the memory at the same moment.
_CHECKS = 3

#: Times that a memory is marked before the caller gets an error: each of several callers marks it for itself.
_MARKS = 10

#: Looks for the end of what another caller is at, before it is carried out for it.
_LOOKS = 8

#: Longest pause after the first time that somebody else was in between, in seconds; it grows with each further time.
_PAUSE_SECONDS = 0.02

#: Age of an open entry from which its caller counts as dead: a call that lives carries it out within seconds.
_DEAD_AFTER = timedelta(minutes=1)

Failed = TypeVar("Failed", bound=MemoryError)

#: Makes the next version of a stored memory; None leaves it as it is.
Change = Callable[[MemoryRecord], MemoryRecord | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """What a change left: the run that undoes it, and the version before and behind it."""

    run_id: str
    before: MemoryRecord
    after: MemoryRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decided:
    """An entry that is to be carried out, and the memories that it takes out.

    What it brings in may be in the store already (``has_incoming``): written again, it could come back after somebody
    removed it meanwhile. One of another caller who may live (``is_anothers``) is told to that caller alone.
    """

    booking_id: str
    run_id: str
    reason: EntryReason
    outgoing: Mapping[str, MemoryRecord]
    incoming: tuple[MemoryRecord, ...] = ()
    is_resumed: bool = False
    is_anothers: bool = False
    has_incoming: bool = False


class Deletion:
    """Deletes and changes memories of one company, each time by a run of origin ``engine``.

    Safe in any number of processes at once, beside runs of the same agent. The ledger is opened with the first call.

    Args:
        urls: where the ledger is; not needed where an open one is given.
        ledger: an open ledger, which stays the caller's.
    """

    def __init__(
        self,
        urls: LedgerUrls | None = None,
        *,
        company: str,
        clock: Clock = utc_now,
        ledger: "Ledger | None" = None,
    ) -> None:
        self._urls = urls
        self._company = company
        self._clock = clock
        self._given = ledger
        self._ledger: Ledger | None = ledger

    @classmethod
    def over(cls, ledger: "Ledger", *, company: str, clock: Clock = utc_now) -> Self:
        """Return one that uses an open ledger, which stays the caller's."""
        return cls(company=company, clock=clock, ledger=ledger)

    async def delete(self, backend: "BatchBackend", agent_id: str, memory_id: str) -> bool:
        """Delete the memory; False when this agent has none with that id.

        Raises MemoryConflictError while a run of the agent is removing it, and MemoryConnectionError: try again.
        """
        _, gone = await self.delete_many(backend, agent_id, [memory_id])
        return bool(gone)

    async def delete_many(
        self,
        backend: "BatchBackend",
        agent_id: str,
        memory_ids: Sequence[str],
        *,
        run_id: str | None = None,
        before: Sequence[str] = (),
    ) -> tuple[str | None, tuple[str, ...]]:
        """Delete those of the ids that the agent has, in one run; return the run's id and what it deleted.

        ``run_id`` and ``before`` are what an earlier call returned, where this one goes on with it. The id is None
        where there was nothing to delete. Of several calls at once one is told that it deleted a memory; the others
        return when it is gone. Raises as ``delete``; what was deleted before stays so, and the error names its run.
        """
        gone, begun = [*before], list[str]()
        wanted = list(dict.fromkeys(memory_ids))
        try:
            for start in range(0, len(wanted), MAX_PAGE):
                page = wanted[start : start + MAX_PAGE]
                for decided in await self._decide(backend, agent_id, page, run_id=run_id, begun=begun):
                    await self._execute(backend, agent_id, decided)
                    if decided.reason != "deleted" or decided.is_anothers:
                        continue
                    run_id = decided.run_id
                    gone += decided.outgoing
                    if run_id in begun:
                        begun.remove(run_id)
                    await asyncio.to_thread(self._opened().runs.count, run_id, {"removed": len(gone)})
        except MemoryError as error:
            in_part(error, begun[0] if begun else run_id, gone=gone, is_open=bool(begun))
            raise
        return run_id, tuple(gone)

    async def replace(self, backend: "BatchBackend", agent_id: str, memory_id: str, change: Change) -> Changed | None:
        """Put another version of a memory in its place; None when the agent has none with that id, or nothing changes.

        ``change`` is called with the memory as it is now, again where another process changed it at the same moment.
        Raises as ``delete``.
        """
        for decided in await self._decide(backend, agent_id, [memory_id], reason="updated", change=change):
            await self._execute(backend, agent_id, decided)
            if decided.is_resumed:
                continue
            await asyncio.to_thread(self._opened().runs.count, decided.run_id, {"updated": 1})
            return Changed(run_id=decided.run_id, before=decided.outgoing[memory_id], after=decided.incoming[0])
        return None

    async def succeed(self, backend: "BatchBackend", agent_id: str, memory_id: str, successor_id: str) -> bool:
        """Take out a memory whose next version is in the store already; False where one of both is not there.

        Raises as ``delete``.
        """
        found = await self._decide(backend, agent_id, [memory_id], reason="updated", successor_id=successor_id)
        for decided in found:
            await self._execute(backend, agent_id, decided)
            await asyncio.to_thread(self._opened().runs.count, decided.run_id, {"updated": 1})
        return bool(found)

    def close(self) -> None:
        """Close the connections to the ledger; a later call opens new ones."""
        ledger, self._ledger = self._ledger, self._given
        if ledger is not None and ledger is not self._given:
            ledger.close()

    def _opened(self) -> "Ledger":
        if self._ledger is None:
            from memcore.ledger.ledger import Ledger  # noqa: PLC0415  # an engine that changes nothing needs no ledger

            if self._urls is None:
                raise AssertionError("a deletion has a ledger or its addresses")  # pragma: no cover
            self._ledger = Ledger.open(self._urls, clock=self._clock)
        return self._ledger

    async def _decide(
        self,
        backend: "BatchBackend",
        agent_id: str,
        memory_ids: Sequence[str],
        *,
        reason: EntryReason = "deleted",
        change: Change | None = None,
        successor_id: str | None = None,
        run_id: str | None = None,
        begun: list[str] | None = None,
    ) -> list[_Decided]:
        """Journal what is to go; return the entries to carry out, those that a dead process left open first.

        ``begun`` is given the run whose entry may be in the journal, also where this raises.
        """
        for attempt in range(1, _CHECKS + 1):
            token = ids.new_id()
            # Before the memories are read: a later removal is seen when the entry is written.
            watched = () if successor_id is None else (successor_id,)
            known = await self._settled([*memory_ids, *watched])
            where = Where(agent_id=agent_id, ids=frozenset(memory_ids))
            if not await backend.claim(where, token):
                return []
            # Exactly what carries the mark: it cannot be another memory that was stored anew since.
            marked = {
                record.entry.id: record
                async for page in scanned(backend, Where(agent_id=agent_id, token=token), with_vectors=True)
                for record in page
            }
            if successor_id is not None:
                successors = await backend.get_many(agent_id, [successor_id])
                if not successors:
                    return []
                change = _always(successors[0])
            try:
                return await asyncio.to_thread(
                    self._decided,
                    agent_id,
                    marked,
                    known,
                    reason=reason,
                    change=change,
                    run_id=run_id,
                    begun=[] if begun is None else begun,
                    has_successor=successor_id is not None,
                )
            except MemoryConflictError:
                if attempt == _CHECKS:
                    raise
                await pause(attempt)
        raise AssertionError("unreachable")  # pragma: no cover  # the last look returns or raises

    async def _settled(self, memory_ids: Collection[str]) -> tuple[Removal, ...]:
        """Return the removals once those that others are at have ended, or some time has passed.

        Who marks a memory takes the mark of a caller who is about to delete it.
        """
        known = await asyncio.to_thread(self._removals, memory_ids)
        for look in range(1, _LOOKS):
            if not any(each.is_open and self._may_live(each) for each in known):
                break
            await pause(look)
            known = await asyncio.to_thread(self._removals, memory_ids)
        return known

    def _may_live(self, removal: Removal) -> bool:
        return removal.prepared_at > self._clock() - _DEAD_AFTER

    def _removals(self, memory_ids: Collection[str]) -> tuple[Removal, ...]:
        return self._opened().journal.removals(memory_ids)

    def _decided(
        self,
        agent_id: str,
        marked: Mapping[str, MemoryRecord],
        known: tuple[Removal, ...],
        *,
        reason: EntryReason,
        change: Change | None,
        run_id: str | None,
        begun: list[str],
        has_successor: bool,
    ) -> list[_Decided]:
        left_open = self._left_open(marked, known)
        done = {memory_id for decided in left_open for memory_id in decided.outgoing}
        outgoing = tuple(record for memory_id, record in marked.items() if memory_id not in done)
        if not outgoing:
            return left_open
        incoming: tuple[MemoryRecord, ...] = ()
        if change is not None:
            made = change(outgoing[0])
            if made is None:
                return []
            incoming = (made,)
        ledger = self._opened()
        run_id = run_id or self._noted(agent_id, outgoing[0].entry.id, is_change=change is not None)
        journal_entry = JournalEntry(
            booking_id=ids.new_id(),
            run_id=run_id,
            company=self._company,
            agent_id=agent_id,
            seq=ledger.journal.next_seq(run_id),
            reason=reason,
            incoming=incoming,
            outgoing=outgoing,
        )
        # A connection that is lost meanwhile leaves open whether the entry is there.
        begun[:] = [run_id]
        try:
            ledger.journal.prepare(
                journal_entry,
                known=frozenset(each.booking_id for each in known),
                watched=journal_entry.incoming_ids if has_successor else frozenset(),
            )
        except MemoryConflictError:
            begun.clear()
            raise
        mine = {record.entry.id: record for record in outgoing}
        return [
            *left_open,
            _Decided(
                booking_id=journal_entry.booking_id,
                run_id=run_id,
                reason=reason,
                outgoing=mine,
                incoming=incoming,
                has_incoming=has_successor,
            ),
        ]

    def _noted(self, agent_id: str, memory_id: str, *, is_change: bool) -> str:
        run = self._opened().runs.note_done(
            NewRun(
                run_id=ids.new_id(),
                company=self._company,
                agent_id=agent_id,
                kind="update" if is_change else "remove",
                origin="engine",
                planned_at=self._clock(),
                scope_id=memory_id,
            )
        )
        return run.run_id

    def _left_open(self, marked: Mapping[str, MemoryRecord], known: Iterable[Removal]) -> list[_Decided]:
        """Return the entries of dead engines on these memories.

        Raises MemoryConflictError where a run is at one of them, or one was carried out meanwhile: its memory is gone,
        and another version made of it would stand beside the first.
        """
        found: dict[str, _Decided] = {}
        for removal in known:
            if not removal.is_open or removal.memory_id not in marked or removal.booking_id in found:
                continue
            journaled = self._opened().lineage.record(removal.booking_id, removal.memory_id)
            # A memory stored anew since has the same id, and is not the one that was removed.
            if journaled is None or journaled.entry.created_at != marked[removal.memory_id].entry.created_at:
                continue
            if removal.reason not in {"deleted", "updated"}:
                raise MemoryConflictError(f"run {removal.run_id} is removing memory {removal.memory_id} now; try again")
            open_entries = self._opened().journal.open_entries(removal.run_id)
            left = next((each for each in open_entries if each.booking_id == removal.booking_id), None)
            if left is None:
                raise MemoryConflictError(f"memory {removal.memory_id} was removed meanwhile; try again")
            found[left.booking_id] = _Decided(
                booking_id=left.booking_id,
                run_id=left.run_id,
                reason=left.reason,
                outgoing={record.entry.id: record for record in left.outgoing},
                incoming=left.incoming,
                is_resumed=True,
                is_anothers=self._may_live(removal),
            )
        return list(found.values())

    async def _execute(self, backend: "BatchBackend", agent_id: str, decided: _Decided) -> None:
        if decided.incoming and not decided.has_incoming:
            gone = await asyncio.to_thread(self._tombstoned, [record.entry.id for record in decided.incoming])
            # A resumed entry may be an old one: its version was removed since.
            await backend.store_many([record for record in decided.incoming if record.entry.id not in gone])
        left = dict(decided.outgoing)
        for attempt in range(1, _MARKS + 1):
            token = ids.new_id()
            where = Where(agent_id=agent_id, ids=frozenset(left))
            await backend.claim(where, token)
            # After the mark: a memory deleted and restored before it is seen here; one restored later has no mark.
            open_ids = await asyncio.to_thread(self._still_open, decided.booking_id, left)
            found = {each.entry.id: each for each in await backend.get_many(agent_id, sorted(left))}
            going = frozenset(
                memory_id
                for memory_id, record in left.items()
                if memory_id in open_ids
                and memory_id in found
                and found[memory_id].entry.created_at == record.entry.created_at
            )
            if not open_ids or not going:
                break
            await self._unindex(backend, agent_id, [left[memory_id] for memory_id in sorted(going)])
            if await backend.delete_where(where.model_copy(update={"ids": going, "token": token})) == len(going):
                break
            await pause(attempt)
        else:
            raise MemoryConflictError(f"{len(left)} memories were deleted, and some are still there; try again")
        if open_ids:
            await asyncio.to_thread(self._opened().journal.settle, decided.booking_id)

    @staticmethod
    async def _unindex(backend: "BatchBackend", agent_id: str, going: Iterable[MemoryRecord]) -> None:
        # What the summary replaced is deleted with it, so it must not be found any more.
        summaries = [record.entry.id for record in going if record.lineage.summary_of]
        if summaries and (index := archive_index_of(backend)) is not None:
            await index.unindex_archived(agent_id, summaries=summaries)

    def _tombstoned(self, memory_ids: Iterable[str]) -> frozenset[str]:
        return self._opened().journal.tombstoned(dict.fromkeys(memory_ids, EARLIEST))

    def _still_open(self, booking_id: str, memory_ids: Collection[str]) -> frozenset[str]:
        return frozenset(
            each.memory_id for each in self._removals(memory_ids) if each.booking_id == booking_id and each.is_open
        )


def in_part(error: Failed, run_id: str | None, *, gone: Collection[str], is_open: bool = False) -> Failed:
    """Let an error name the run that deleted some memories before it, so that it can be looked up and undone.

    Where the run ``is_open``, its journal may have more than was deleted.
    """
    if gone or is_open:
        more = ", and may have begun more, which the same call or the agent's next run ends" if is_open else ""
        error.args = (f"{error}; run {run_id} took {len(gone)} before{more}", *error.args[1:])
    return error


@contextmanager
def naming_run(run_id: str | None, gone: Collection[str]) -> Iterator[None]:
    """Let the errors of what follows a deletion name its run."""
    try:
        yield
    except MemoryError as error:
        in_part(error, run_id, gone=gone)
        raise


async def pause(attempt: int) -> None:
    """Wait until those who work on the same memory at the same moment may have gone on."""
    # By chance: two that always mark at the same moments take each other's mark for ever.
    await asyncio.sleep(random.uniform(0, attempt * _PAUSE_SECONDS))  # noqa: S311  # no secret


def _always(record: MemoryRecord) -> Change:
    return lambda _old: record
