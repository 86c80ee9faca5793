"""What travels when an engine tells how a task went."""

from typing import Literal, Self

from pydantic import model_validator
from pydantic_core import PydanticSerializationError

from memcore.clock import BoundedTime
from memcore.execution_trace import ExecutionTrace
from memcore.jobs.payload import Payload
from memcore.jobs.payloads import MAX_PAYLOAD_BYTES
from memcore.models import AgentId, Key


class DistillPayload(Payload):
    """One trace of a finished task; as JSON it has at most 1 MiB.

    Attributes:
        version: the version of this payload.
        agent_id: the agent that did the task.
        trace_id: deterministic (memcore.ids.trace_id); it names the memory, the experience and the trajectory.
        trace: the trace.
        sent_at: when the client sent it; a removal after this time wins over a late redelivery.
        session_id: the session that ends the memory, at level session.
        project_id: the project that ends the memory, at level project.
    """

    version: Literal[1] = 1
    agent_id: AgentId
    trace_id: Key
    trace: ExecutionTrace
    sent_at: BoundedTime
    session_id: Key | None = None
    project_id: Key | None = None

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        try:
            size = len(self.trace.model_dump_json().encode())
        except PydanticSerializationError:
            raise ValueError("trace: must be valid Unicode text") from None
        if size > MAX_PAYLOAD_BYTES:
            raise ValueError(f"trace: has {size} bytes as JSON; the limit is {MAX_PAYLOAD_BYTES}")
        return self
