"""Putting an execution trace into its envelope: its id and its time are fixed here, once, before anything is sent."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from memcore import ids
from memcore.client.envelope import Scope, checked, checked_scope
from memcore.errors import MemoryInputError
from memcore.execution_trace import ExecutionTrace
from memcore.jobs.distill_payload import DistillPayload

#: Stands for the id until the other fields have been checked.
_UNNAMED = "unnamed"


def seal_trace(
    agent_id: str,
    trace: ExecutionTrace | Mapping[str, Any],
    *,
    company: str,
    now: datetime,
    scope: Scope | Mapping[str, Any] | None = None,
) -> DistillPayload:
    """Return the trace in its envelope, with its deterministic id.

    Raises:
        MemoryInputError: naming the field and the limit.
    """
    scope = checked_scope(scope)
    trace = checked(ExecutionTrace, trace, name="trace", prefix="trace")
    try:
        payload = DistillPayload(
            company=company,
            agent_id=agent_id,
            trace_id=_UNNAMED,
            trace=trace,
            sent_at=now,
            session_id=scope.session_id,
            project_id=scope.project_id,
        )
    except ValidationError as error:
        raise MemoryInputError.of(error) from None
    # Without what was left out, so that a field of a later release changes no id.
    trace_id = ids.trace_id(
        company=payload.company, agent_id=payload.agent_id, trace=trace.model_dump_json(exclude_defaults=True)
    )
    return payload.model_copy(update={"trace_id": trace_id})
