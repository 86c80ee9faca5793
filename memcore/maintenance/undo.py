"""Undoing a run: its bookings are reversed, the last first, as bookings of the run that undoes it.

So an undo is as safe as a night, and can itself be undone. What later runs, or agents, have changed since is left as
it is and reported.
"""

import logging
from collections import Counter
from datetime import timedelta

from memcore.backends.protocol import BatchBackend
from memcore.backends.record import MemoryRecord
from memcore.errors import MemoryInputError
from memcore.frozen import Frozen
from memcore.ledger.booking import Booking
from memcore.ledger.journal import Journal
from memcore.ledger.ledger import Ledger
from memcore.ledger.run import Run, RunState
from memcore.maintenance.attempt import Attempt
from memcore.maintenance.events import MaintenanceEvent

_log = logging.getLogger(__name__)


class UndoReport(Frozen):
    """What an undo left as it is.

    Attributes:
        not_restored: ids that the run had removed and that were not brought back: a memory stands there now, a later
            run has decided about them, or what they had been exchanged for was deleted.
        not_removed: ids that the run had brought in and that stay: they were changed, or are gone already.
    """

    not_restored: tuple[str, ...]
    not_removed: tuple[str, ...]


def undo_report(journal: Journal, undo: Run) -> UndoReport:
    """Compare a finished undo with the run that it undid.

    Raises:
        MemoryInputError: the run is no undo.
        MemoryNotFoundError: the journal of one of them has expired.
    """
    if undo.undo_of is None:
        raise MemoryInputError("run_id", "names no undo")
    missing_in, missing_out = Counter[str](), Counter[str]()
    for booking in journal.bookings(undo.undo_of):
        missing_in.update(booking.outgoing_ids)
        missing_out.update(booking.incoming_ids)
    for booking in journal.bookings(undo.run_id):
        missing_in.subtract(booking.incoming_ids)
        missing_out.subtract(booking.outgoing_ids)
    return UndoReport(not_restored=tuple(sorted(+missing_in)), not_removed=tuple(sorted(+missing_out)))


async def apply_undo(attempt: Attempt, ledger: Ledger) -> None:
    """Reverse every booking of the run named by ``undo_of``, and hold what comes back from the next nights.

    Raises:
        MemoryInputError: the run cannot be undone; the message says why.
    """
    run = attempt.run
    target = undo_target(ledger, run.company, run.undo_of or "", agent_id=run.agent_id)
    journal = ledger.journal
    start = journal.next_seq(attempt.run.run_id)
    # A reversal has the place of what it reverses, counted from the end: after a crash the journal itself says how
    # far the undo came, and no booking is reversed twice.
    for place, booking in enumerate(journal.bookings(target.run_id, newest_first=True)):
        if place >= start:
            await _reverse(attempt, ledger, booking, place)
    moved = journal.totals(attempt.run.run_id)
    _log.info(
        MaintenanceEvent.UNDO_COMPLETED,
        extra={
            "agent_id": attempt.run.agent_id,
            "run_id": attempt.run.run_id,
            "undo_of": target.run_id,
            "restored": moved["undone", "restored"],
            "removed": moved["undone", "removed"],
        },
    )


def undo_target(ledger: Ledger, company: str, run_id: str, *, agent_id: str | None = None) -> Run:
    """Return the run that is to be undone; one that waits and gives way counts as ended.

    Args:
        ledger: where runs are kept.
        company: whose run.
        run_id: the run.
        agent_id: whose run, where that is known.

    Raises:
        MemoryInputError: it cannot be undone; the message says why.
    """
    target = ledger.runs.get(run_id)
    if target is None or target.company != company or agent_id not in {None, target.agent_id}:
        raise MemoryInputError("undo_of", f"names no run of this {'company' if agent_id is None else 'agent'}")
    if target.state in {RunState.QUEUED, RunState.RUNNING} and not target.gives_way:
        raise MemoryInputError("undo_of", f"names a run that is {target.state}; wait until it has ended")
    journal = ledger.journal
    # What a run has left open is finished first, and is whole until then.
    is_whole = journal.undoable(run_id) or journal.open_bookings(run_id)
    if journal.next_seq(run_id) and not is_whole:
        raise MemoryInputError("undo_of", "names a run whose journal has expired; it can no longer be undone")
    return target


def deleted_since(ledger: Ledger, booking: Booking) -> bool:
    """Return whether memories were exchanged for others that an engine or a person has deleted since.

    Deleting a summary deletes what it stands for, also where it went into a further summary before. A deletion that was
    undone does not count.
    """
    if not (booking.incoming and booking.outgoing):
        return False
    met: set[str] = set()
    level = booking.incoming_ids
    while level:
        met |= level
        gone = ledger.journal.gone(level).values()
        if any(reason == "deleted" for _, reason in gone):
            return True
        exchanges = ledger.lineage.exchanges({booking_id for booking_id, _ in gone})
        level = frozenset(each for exchange in exchanges.values() for each in exchange.incoming) - met
    return False


async def _reverse(attempt: Attempt, ledger: Ledger, booking: Booking, place: int) -> None:
    journal = ledger.journal
    run, view = attempt.run, attempt.view
    known = frozenset(each.booking_id for each in journal.removals(booking.incoming_ids))
    if deleted_since(ledger, booking):
        return
    overtaken = journal.overtaken(
        booking.booking_id,
        booking.incoming_ids | booking.outgoing_ids,
        not_by={booking.run_id, run.run_id},
    )
    back = await _absent(view.backend, booking, but_not=overtaken)
    if back:
        until = view.now + timedelta(days=view.policy.restored_hold_days)
        journal.hold(run.company, run.agent_id, [record.entry.id for record in back], until=until)
    came = {record.entry.id: record for record in booking.incoming if record.entry.id not in overtaken}
    await attempt.books.exchange(
        incoming=back,
        outgoing_ids=frozenset(came),
        may_go=lambda record: is_untouched(record, came[record.entry.id]),
        seq=place,
        reverses=booking.booking_id,
        known=known,
    )


async def _absent(backend: BatchBackend, booking: Booking, *, but_not: frozenset[str]) -> tuple[MemoryRecord, ...]:
    ids = [record.entry.id for record in booking.outgoing if record.entry.id not in but_not]
    there = {record.entry.id for record in await backend.get_many(booking.agent_id, ids)} if ids else set[str]()
    return tuple(record for record in booking.outgoing if record.entry.id in ids and record.entry.id not in there)


def is_untouched(now: MemoryRecord, then: MemoryRecord) -> bool:
    """Return whether a memory is as a run brought it in, so that an undo may take it out."""
    # Not updated_at: a backend may write one of its own when it stores.
    return all(
        getattr(now.entry, name) == getattr(then.entry, name)
        for name in ("content", "metadata", "category", "namespace", "created_at", "expires_at")
    )
