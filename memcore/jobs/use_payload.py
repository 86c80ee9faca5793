"""What travels when an engine tells which memories its agents were shown."""

from typing import Literal

from pydantic import Field

from memcore.clock import BoundedTime
from memcore.frozen import Frozen
from memcore.jobs.payload import Payload
from memcore.models import AgentId, Key

#: Most memories in one job, about 150 KB of JSON.
MAX_USES = 1_024


class Use(Frozen):
    """How often an agent was shown a memory since the last report.

    Attributes:
        agent_id: the agent that was shown the memory; of shared knowledge, not the publisher.
        memory_id: the memory.
        uses: how often.
        last_used_at: when it was shown last.
    """

    agent_id: AgentId
    memory_id: Key
    uses: int = Field(ge=1, le=2**31 - 1)
    last_used_at: BoundedTime


class UsePayload(Payload):
    """Uses of memories by any agents of one company.

    Attributes:
        version: the version of this payload.
        batch_id: the id of this report, so that a job that runs twice counts once.
        uses: the uses.
    """

    version: Literal[1] = 1
    batch_id: Key
    uses: tuple[Use, ...] = Field(min_length=1, max_length=MAX_USES)
