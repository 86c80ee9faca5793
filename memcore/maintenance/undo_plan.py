"""What an undo would do, without doing it."""

from enum import StrEnum

from memcore.backends.protocol import BatchBackend
from memcore.backends.record import MemoryRecord
from memcore.frozen import Frozen
from memcore.ledger.booking import Booking
from memcore.ledger.ledger import Ledger
from memcore.maintenance.bookkeeper import is_same
from memcore.maintenance.undo import deleted_since, is_untouched, undo_target


class SkipReason(StrEnum):
    """Why an undo would leave a memory as it is."""

    #: A later run has decided about it.
    DECIDED_SINCE = "decided since"
    #: It would come back, and a memory with its id is in the store.
    THERE_ALREADY = "there already"
    #: It would go, and an agent has changed it.
    CHANGED_SINCE = "changed since"
    #: It was exchanged for a memory, its summary or its original, that an engine or a person has deleted since.
    DELETED_SINCE = "what it was exchanged for was deleted since"
    #: It would go, and is not in the store.
    GONE_ALREADY = "gone already"


class UndoSkip(Frozen):
    """A memory that an undo would leave as it is."""

    memory_id: str
    reason: SkipReason


class UndoPlan(Frozen):
    """What the undo of a run would do; a memory that the run moved twice stands here twice.

    Attributes:
        run_id: the run that would be undone.
        restored: ids that would come back.
        removed: ids that would go.
        skipped: what would be left as it is, and why.
    """

    run_id: str
    agent_id: str
    restored: tuple[str, ...]
    removed: tuple[str, ...]
    skipped: tuple[UndoSkip, ...]


async def plan_undo(run_id: str, *, backend: BatchBackend, ledger: Ledger, company: str) -> UndoPlan:
    """Return what undoing the run now would do; nothing is written or marked.

    Raises:
        MemoryInputError: the run cannot be undone; the message says why.
    """
    target = undo_target(ledger, company, run_id)
    store = _Store(backend, target.agent_id)
    # An undo first finishes what the agent's runs had decided and did not carry out.
    for booking in ledger.journal.open_of(company, target.agent_id):
        await store.finish(booking)
    restored: list[str] = []
    removed: list[str] = []
    skipped: list[UndoSkip] = []
    for booking in ledger.journal.bookings(run_id, newest_first=True):
        ids = booking.incoming_ids | booking.outgoing_ids
        overtaken = ledger.journal.overtaken(booking.booking_id, ids, not_by={run_id})
        await store.look(ids)
        deleted = SkipReason.DELETED_SINCE if deleted_since(ledger, booking) else None
        for record in booking.outgoing:
            memory_id = record.entry.id
            reason = SkipReason.DECIDED_SINCE if memory_id in overtaken else deleted or store.why_not_back(memory_id)
            if reason is None:
                store.put(record)
                restored.append(memory_id)
            else:
                skipped.append(UndoSkip(memory_id=memory_id, reason=reason))
        for record in booking.incoming:
            memory_id = record.entry.id
            reason = SkipReason.DECIDED_SINCE if memory_id in overtaken else deleted or store.why_not_out(record)
            if reason is None:
                store.take(memory_id)
                removed.append(memory_id)
            else:
                skipped.append(UndoSkip(memory_id=memory_id, reason=reason))
    return UndoPlan(
        run_id=run_id,
        agent_id=target.agent_id,
        restored=tuple(restored),
        removed=tuple(removed),
        skipped=tuple(skipped),
    )


class _Store:
    """The store as it would be, while one booking after the other is reversed."""

    def __init__(self, backend: BatchBackend, agent_id: str) -> None:
        self._backend = backend
        self._agent_id = agent_id
        self._there: dict[str, MemoryRecord | None] = {}

    async def look(self, ids: frozenset[str]) -> None:
        """Read those of the ids that were not looked at before."""
        new = sorted(each for each in ids if each not in self._there)
        if new:
            self._there.update(dict.fromkeys(new))
            found = await self._backend.get_many(self._agent_id, new)
            self._there.update((record.entry.id, record) for record in found)

    async def finish(self, booking: Booking) -> None:
        """Let happen what a booking had decided."""
        await self.look(booking.incoming_ids | booking.outgoing_ids)
        for record in booking.incoming:
            if self._there[record.entry.id] is None:
                self.put(record)
        for record in booking.outgoing:
            now = self._there[record.entry.id]
            if now is not None and is_same(now, record):
                self.take(record.entry.id)

    def why_not_back(self, memory_id: str) -> SkipReason | None:
        """Return why a memory could not come back."""
        return None if self._there[memory_id] is None else SkipReason.THERE_ALREADY

    def why_not_out(self, record: MemoryRecord) -> SkipReason | None:
        """Return why a memory could not go."""
        now = self._there[record.entry.id]
        if now is None:
            return SkipReason.GONE_ALREADY
        return None if is_untouched(now, record) else SkipReason.CHANGED_SINCE

    def put(self, record: MemoryRecord) -> None:
        """Let a memory be there."""
        self._there[record.entry.id] = record

    def take(self, memory_id: str) -> None:
        """Let a memory be gone."""
        self._there[memory_id] = None
