"""The names under which a reindex logs; counts and names stand beside them in ``extra``, memory text never does."""

from enum import StrEnum


class ReindexEvent(StrEnum):
    """A log event of a reindex."""

    #: It cannot go on for now; the error's name stands beside.
    TROUBLE = "memory.reindex.trouble"
    #: Writes were stopped, and it took too long to catch up; they go on, and it is tried again.
    THAWED = "memory.reindex.thawed"
    #: The new collection serves.
    SWITCHED = "memory.reindex.switched"
