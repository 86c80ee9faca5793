"""An agent as the ledger knows it, and what may be set on one."""

from datetime import datetime
from typing import Annotated

from pydantic import (
    Field,
)

from memcore.clock import BoundedTime, in_range
from memcore.errors import MemoryInputError
from memcore.frozen import Frozen
from memcore.models import MAX_KEY_CHARS, AgentId, ConsolidationInterval, Key, MemoryCategory, MemoryLevel
from memcore.validated import ValidatedModel

#: Most memories one agent may be allowed; PostgreSQL's integer ends a little above.
MAX_MEMORIES = 2_000_000_000

#: Longest retention, in days (about a hundred years); longer is "for ever", which is None.
MAX_RETENTION_DAYS = 36_525

Days = Annotated[int, Field(ge=1, le=MAX_RETENTION_DAYS)]


class AgentSpec(ValidatedModel):
    """What to set on an agent: fields left out stay as they are, fields given as None go back to the company's.

    Attributes:
        role: what the agent does.
        department: where it belongs.
        level: how long its memories live.
        interval: its own interval; None follows the company's.
        max_memories: 1 to 2,000,000,000.
        retention_days: 1 to 36,525.
        retention_overrides: days per category, each 1 to 36,525.

    Raises:
        MemoryInputError: a value breaks its limit; the message names the field.
    """

    company: Key
    agent_id: AgentId
    role: Key | None = None
    department: Key | None = None
    level: MemoryLevel | None = None
    interval: ConsolidationInterval | None = None
    max_memories: int | None = Field(default=None, ge=1, le=MAX_MEMORIES)
    retention_days: Days | None = None
    retention_overrides: dict[MemoryCategory, Days] = Field(default_factory=dict)


class Agent(Frozen):
    """An agent's row.

    Attributes:
        interval: None when it follows the company's.
        next_due_at: None when it is never due, or when the next tick will plan it.
    """

    company: str
    agent_id: str
    role: str | None = None
    department: str | None = None
    level: MemoryLevel | None = None
    interval: ConsolidationInterval | None = None
    max_memories: int | None = None
    retention_days: int | None = None
    retention_overrides: dict[MemoryCategory, int] = Field(default_factory=dict)
    paused: bool = False
    next_due_at: BoundedTime | None = None
    registered_at: BoundedTime
    last_run_at: BoundedTime | None = None


def checked_key(field: str, value: str) -> str:
    """Return an id without outer white space; MemoryInputError when it is blank, too long or has a NUL."""
    key = value.strip()
    if not key:
        raise MemoryInputError(field, "must not be blank")
    if len(key) > MAX_KEY_CHARS:
        raise MemoryInputError(field, f"has {len(key)} characters; the limit is {MAX_KEY_CHARS}")
    if "\x00" in key:
        raise MemoryInputError(field, "must not contain the character NUL")
    return key


def checked_time(field: str, value: datetime) -> datetime:
    """Return the time; MemoryInputError when it has no zone, or lies out of the range of all times."""
    if value.tzinfo is None:
        raise MemoryInputError(field, "needs a time zone")
    try:
        return in_range(value)
    except ValueError as error:
        raise MemoryInputError(field, str(error)) from None
