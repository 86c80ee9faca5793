"""The names under which the client logs; the fields stand beside them in ``extra``, memory text never does."""

from enum import StrEnum


class ClientEvent(StrEnum):
    """A log event of the client."""

    #: A trace was not sent, and the engine goes on; agent, trace and error stand beside.
    TRACE_LOST = "memory.distill.lost"
    #: An application of a skill was not sent, and the engine goes on; agent, skill and error stand beside.
    APPLICATION_LOST = "memory.skills.applied.lost"
