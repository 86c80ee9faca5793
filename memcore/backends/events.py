"""The names under which backends log; the fields stand beside them in ``extra``, memory text never does."""

from enum import StrEnum


class BackendEvent(StrEnum):
    """A log event of a backend."""

    CONNECTED = "memory.backend.connected"
    DISCONNECTED = "memory.backend.disconnected"
    HEALTH_CHECK_FAILED = "memory.backend.health_check"
    #: A point that cannot be read as a memory was passed over; its id stands beside.
    ENTRY_UNREADABLE = "memory.model.invalid"
    #: A composite backend answered a query without one of its children; which, and with which errors, stands beside.
    FANOUT_PARTIAL = "memory.composite.fanout_partial"
    #: A line of the log of shared knowledge is open, and could not be carried out; its version stands beside.
    SHARED_OVERDUE = "memory.shared.overdue"
