"""The one way in which maintenance changes a store: a booking, written down in full before it is carried out.

Claim the victims in the store with this attempt's token; read exactly what carries it; journal all that goes out and
comes in, in one transaction; store what comes in and see that it can be read; delete what still carries the token;
settle. A booking that a crash left open is a decision already made: the next attempt finishes it.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from memcore import ids
from memcore.backends.protocol import BatchBackend
from memcore.backends.record import MemoryRecord
from memcore.backends.where import Where
from memcore.errors import LeaseLostError, MemoryInputError, MemoryStoreError
from memcore.ledger.booking import Booking, BookingReason, IncomingKind
from memcore.ledger.journal import Journal
from memcore.ledger.run import Run
from memcore.maintenance.events import MaintenanceEvent
from memcore.maintenance.guard import Guard
from memcore.maintenance.pages import marked

#: Given the memories that go out, returns the one that replaces them; None leaves them where they are.
Replace = Callable[[tuple[MemoryRecord, ...]], Awaitable[MemoryRecord | None]]

#: Times that victims are marked and deleted before the store counts as unable to: a zombie's mark may cover ours once.
_DELETE_ATTEMPTS = 3

#: Before any tombstone was set: asks whether one stands at all.
_EVER = datetime.min.replace(tzinfo=UTC)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Booked:
    """What a booking did: how many memories came in and went out."""

    incoming: int = 0
    outgoing: int = 0


class Bookkeeper:
    """Carry out the bookings of one attempt of one run.

    Args:
        backend: the store.
        journal: where bookings are kept.
        guard: asked before every write.
        run: whose bookings these are.
    """

    def __init__(self, backend: BatchBackend, journal: Journal, guard: Guard, run: Run) -> None:
        self._backend = backend
        self._journal = journal
        self._guard = guard
        self._run = run
        self._claims = 0

    async def begin(self) -> None:
        """Take all marks off, so that zombies delete nothing, then carry out what earlier attempts decided."""
        self._guard.hold()
        await self._backend.unclaim(self._run.agent_id)
        await self.resume()

    async def resume(self) -> None:
        """Carry out the agent's open bookings, also those of a run that failed for good."""
        for booking in self._journal.open_of(self._run.company, self._run.agent_id):
            _log.info(
                MaintenanceEvent.BOOKING_RESUMED,
                extra={"booking_id": booking.booking_id, "run_id": booking.run_id, "agent_id": booking.agent_id},
            )
            await self._carry_out(booking, None)

    async def remove(self, where: Where, *, reason: BookingReason, replace: Replace | None = None) -> Booked:
        """Remove what the filter still matches, replaced by a summary if ``replace`` makes one.

        Args:
            where: names at most 256 ids, and the conditions under which they may go: the store looks at both again,
                so a memory that was pinned a moment ago stays.
            reason: why.
            replace: makes the summary from exactly what will be removed.

        Raises:
            LeaseLostError, MaintenancePausedError: before anything new was decided.
            MemoryStoreError, MemoryRetrievalError, MemoryConnectionError: the booking, if it was written down, is
                finished by the next attempt.
        """
        self._guard.enter()
        token, victims = await self._claim(where)
        if not victims:
            return Booked()
        incoming: tuple[MemoryRecord, ...] = ()
        if replace is not None:
            summary = await replace(victims)
            if summary is None:
                return Booked()
            incoming = await self._unless_there(summary)
        return await self._book(token, incoming=incoming, kind="created", outgoing=victims, reason=reason)

    async def exchange(
        self,
        *,
        incoming: tuple[MemoryRecord, ...],
        outgoing_ids: frozenset[str],
        may_go: Callable[[MemoryRecord], bool],
        seq: int,
    ) -> Booked:
        """Bring memories back as they were, and take out those of the ids that ``may_go`` allows.

        Args:
            incoming: whole, with their vectors.
            outgoing_ids: what goes in exchange.
            may_go: looked up on the store's present record.
            seq: the booking's place in its run.
        """
        self._guard.enter()
        token, found = "", tuple[MemoryRecord, ...]()
        if outgoing_ids:
            token, found = await self._claim(Where(agent_id=self._run.agent_id, ids=outgoing_ids))
        outgoing = tuple(record for record in found if may_go(record))
        if not incoming and not outgoing:
            return Booked()
        return await self._book(token, incoming=incoming, kind="restored", outgoing=outgoing, reason="undone", seq=seq)

    async def _claim(self, where: Where) -> tuple[str, tuple[MemoryRecord, ...]]:
        token = self._next_token()
        await self._backend.claim(where, token)
        return token, await marked(self._backend, where.agent_id, token)

    def _next_token(self) -> str:
        # One mark a booking: what an earlier booking of this attempt claimed and then left must not be taken for ours.
        self._claims += 1
        return f"{self._guard.token}.{self._claims}"

    async def _unless_there(self, summary: MemoryRecord) -> tuple[MemoryRecord, ...]:
        # The sources were stored anew after their summary was made: it stands for them already.
        found = await self._backend.get_many(self._run.agent_id, [summary.entry.id])
        return () if found else (summary,)

    async def _book(
        self,
        token: str,
        *,
        incoming: tuple[MemoryRecord, ...],
        kind: IncomingKind,
        outgoing: tuple[MemoryRecord, ...],
        reason: BookingReason,
        seq: int | None = None,
    ) -> Booked:
        booking = Booking(
            booking_id=ids.new_id(),
            run_id=self._run.run_id,
            company=self._run.company,
            agent_id=self._run.agent_id,
            seq=self._journal.next_seq(self._run.run_id) if seq is None else seq,
            reason=reason,
            incoming=incoming,
            incoming_kind=kind,
            outgoing=outgoing,
        )
        self._guard.hold()
        try:
            self._journal.prepare(booking)
        except MemoryInputError as error:
            if error.field != "seq":
                raise
            # A zombie wrote its booking down in our place. Only the run's owner gets past this line.
            self._guard.confirm()
            raise MemoryStoreError("another attempt's booking must be carried out first; try again") from error
        return await self._carry_out(booking, token)

    async def _carry_out(self, booking: Booking, token: str | None) -> Booked:
        foreign_in = await self._store(booking)
        foreign_out = await self._delete(booking, token)
        self._guard.hold()
        self._journal.settle(booking.booking_id, missing_in=foreign_in, missing_out=foreign_out)
        return Booked(
            incoming=len(booking.incoming) - len(foreign_in), outgoing=len(booking.outgoing) - len(foreign_out)
        )

    async def _store(self, booking: Booking) -> frozenset[str]:
        """Store what comes in; return the ids that this booking did not bring: removed since, or someone else's."""
        if not booking.incoming:
            return frozenset()
        # A booking takes the tombstones of what it brings away: one that stands now was set by a later removal.
        buried = self._buried(booking)
        wanted = {record.entry.id: record for record in booking.incoming if record.entry.id not in buried}
        self._guard.hold()
        await self._backend.store_many(list(wanted.values()))
        if risen := self._buried(booking) - buried:
            # While we slept, another attempt did all this and removed these again. The journal has them in full.
            await self._backend.delete_many(booking.agent_id, sorted(risen))
            raise LeaseLostError(f"run {self._run.run_id}: another worker has done this booking's work")
        found = {record.entry.id: record for record in await self._backend.get_many(booking.agent_id, list(wanted))}
        if len(found) < len(wanted):
            raise MemoryStoreError(
                f"{len(wanted) - len(found)} of {len(wanted)} memories cannot be read back after they were stored"
            )
        return buried | {key for key, record in wanted.items() if not is_same(record, found[key])}

    def _buried(self, booking: Booking) -> frozenset[str]:
        return self._journal.buried(dict.fromkeys(booking.incoming_ids, _EVER))

    async def _delete(self, booking: Booking, token: str | None) -> frozenset[str]:
        """Delete what goes out; return the ids that this booking did not remove. No token: an earlier attempt's."""
        wanted = {record.entry.id: record for record in booking.outgoing}
        if not wanted:
            return frozenset()
        not_ours = frozenset[str]()
        if token is None:
            left = await self._left(booking, wanted)
            # A zombie may have written down the same removal: a memory goes out of a run once.
            not_ours = self._journal.removed_by_run(booking.run_id, frozenset(wanted) - left)
            token = await self._mark(booking, left)
        for _ in range(_DELETE_ATTEMPTS):
            self._guard.confirm()
            where = Where(agent_id=booking.agent_id, ids=frozenset(wanted), token=token)
            if await self._backend.delete_where(where) == len(wanted):
                return not_ours
            left = await self._left(booking, wanted)
            if not left:
                return not_ours
            token = await self._mark(booking, left)
        raise MemoryStoreError(f"{len(wanted)} memories were deleted, and some of them are still there")

    async def _left(self, booking: Booking, wanted: dict[str, MemoryRecord]) -> frozenset[str]:
        # A memory that was stored anew since has the id of the one that went, and stays.
        found = await self._backend.get_many(booking.agent_id, list(wanted))
        return frozenset(record.entry.id for record in found if is_same(record, wanted[record.entry.id]))

    async def _mark(self, booking: Booking, left: frozenset[str]) -> str:
        token = self._next_token()
        if left:
            self._guard.hold()
            await self._backend.claim(Where(agent_id=booking.agent_id, ids=left), token)
        return token


def is_same(record: MemoryRecord, other: MemoryRecord) -> bool:
    """Return whether both are one memory, and not one that was stored anew under the same id."""
    return record.entry.created_at == other.entry.created_at
