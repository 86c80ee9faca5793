"""One line of the log of shared knowledge, and how far the log has come."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from memcore.backends.record import MemoryRecord

SharedKind = Literal["publish", "retract"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedEntry:
    """A publication or a retraction.

    Attributes:
        version: 1 for a company's first line, and one more for each that follows.
        memory_id: what is published or retracted.
        agent_id: who did it.
        at: when.
        record: what is published, in full but without vectors; None for a retraction.
    """

    version: int
    kind: SharedKind
    memory_id: str
    agent_id: str
    at: datetime
    record: MemoryRecord | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How far a company's log has come.

    Attributes:
        head: the version that searches see: all up to it is in the store.
        last: the newest version written.
        open_since: when the first version after the head was written; None when there is none.
    """

    head: int = 0
    last: int = 0
    open_since: datetime | None = None
