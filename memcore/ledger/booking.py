"""A booking: memories coming in and memories going out, as one decision of one run."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from memcore.archival_models import ArchivalMode
from memcore.backends.record import MemoryRecord
from memcore.errors import MemoryInputError

BookingReason = Literal[
    "retention", "expired", "consolidated", "enforced", "ended", "pruned", "restored", "deleted", "undone"
]
BookingState = Literal["prepared", "done"]
IncomingKind = Literal["created", "restored"]
RecordKind = Literal["created", "restored", "removed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Booking:
    """Memories coming in and going out, in full; both redo log and undo log.

    Attributes:
        booking_id: from cause, so that preparing it twice leaves one.
        seq: its place in the run, from 0.
        reason: why the outgoing ones leave, or why the incoming ones return.
        incoming: to be stored; a summary, or memories that are restored.
        incoming_kind: which of the two they are.
        outgoing: to be deleted, with payload and vectors.
        state: prepared when it is decided, done when it is carried out.
        reverses: the booking that it undoes, if it does.
        archived: how those of the outgoing ones are archived that are, in the transaction that prepares the booking;
            read back from the archive alone, and so is the next.
        vector_space: what the vectors of the archived ones mean; see BatchBackend.

    Raises:
        MemoryInputError: an id stands in it twice, a memory is another agent's, or one is archived that does not go.
    """

    booking_id: str
    run_id: str
    company: str
    agent_id: str
    seq: int
    reason: BookingReason
    incoming: tuple[MemoryRecord, ...] = ()
    incoming_kind: IncomingKind = "created"
    outgoing: tuple[MemoryRecord, ...] = ()
    state: BookingState = "prepared"
    reverses: str | None = None
    archived: Mapping[str, ArchivalMode] = field(default_factory=dict)
    vector_space: str | None = None

    def __post_init__(self) -> None:
        """Refuse a booking that could not be carried out or undone."""
        records = self.incoming + self.outgoing
        if len({record.entry.id for record in records}) != len(records):
            raise MemoryInputError("booking", "holds one id twice; an id comes in or goes out, once")
        if any(record.entry.agent_id != self.agent_id for record in records):
            raise MemoryInputError("booking", "holds a memory of another agent")
        if not self.outgoing_ids.issuperset(self.archived):
            raise MemoryInputError("booking", "archives a memory that does not go out")

    @property
    def incoming_ids(self) -> frozenset[str]:
        """Ids coming in."""
        return frozenset(record.entry.id for record in self.incoming)

    @property
    def outgoing_ids(self) -> frozenset[str]:
        """Ids going out."""
        return frozenset(record.entry.id for record in self.outgoing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One thing that a run did to a memory: answers what made it, and what removed it.

    Attributes:
        kind: created, restored or removed.
        counted: False when the booking is still open, or when the memory turned out not to be concerned.
    """

    memory_id: str
    booking_id: str
    run_id: str
    kind: RecordKind
    reason: BookingReason
    at: datetime
    counted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """A booking that removes a memory, or has removed it.

    Attributes:
        is_open: whether it is decided and not yet carried out.
    """

    memory_id: str
    booking_id: str
    run_id: str
    reason: BookingReason
    is_open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How often each id of an agent was created, restored and removed by bookings that are done.

    Per agent: stored + created + restored = live + removed, as multisets of ids.
    """

    created: Counter[str] = field(default_factory=Counter)
    restored: Counter[str] = field(default_factory=Counter)
    removed: Counter[str] = field(default_factory=Counter)
