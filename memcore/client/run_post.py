"""Sending runs: a person asks for something now, and the ledger's row is made from the message."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, TypeAdapter, ValidationError

from memcore import ids
from memcore.client.receipts import JobReceipt
from memcore.errors import MemoryInputError
from memcore.jobs.names import TaskName
from memcore.jobs.payloads import MaintenancePayload
from memcore.jobs.queues import Queue
from memcore.jobs.skill_payloads import EvolvePayload
from memcore.models import AgentId, StoredKey, not_reserved

if TYPE_CHECKING:
    from memcore.client.sender import Admit, Sender

#: Stands for an id until the other fields have been checked.
_UNNAMED = "unnamed"

_NEW_AGENT: TypeAdapter[str] = TypeAdapter(AgentId)
_KNOWN_AGENT: TypeAdapter[str] = TypeAdapter(Annotated[StoredKey, AfterValidator(not_reserved)])


def post_run(
    sender: "Sender", agent_id: str, *, company: str, now: datetime, admit: "Admit | None", **wanted: Any
) -> JobReceipt:
    """Send a run of an agent's; the job's id is the run's id. Raises MemoryInputError, naming the field."""
    try:
        # A night may give an agent its first row. Whatever else is asked for names what stands, and an older release
        # took control characters.
        (_NEW_AGENT if "kind" not in wanted else _KNOWN_AGENT).validate_python(agent_id)
    except ValidationError as error:
        raise MemoryInputError("agent_id", MemoryInputError.of(error).problem) from None
    try:
        payload = MaintenancePayload(
            company=company, agent_id=agent_id, run_id=_UNNAMED, origin="manual", planned_at=now, **wanted
        )
    except ValidationError as error:
        raise MemoryInputError.of(error) from None
    # An agent may end two sessions at one moment, and each is a run.
    job = payload.kind if payload.scope_id is None else f"{payload.kind} {payload.scope_id}"
    run_id = ids.run_id(company=company, agent_id=payload.agent_id, job=job, planned_at=now.isoformat())
    sender.send(
        TaskName.MAINTAIN,
        payload.model_copy(update={"run_id": run_id}).model_dump_json(),
        queue=Queue.MAINTENANCE,
        job_id=run_id,
        summary=f"{payload.kind} of {payload.agent_id}",
        admit=admit,
    )
    return JobReceipt(job_id=run_id)


def post_cycle(sender: "Sender", *, company: str, now: datetime, admit: "Admit | None") -> JobReceipt:
    """Send a cycle of the skill evolver; the job's id is the cycle's id."""
    cycle_id = ids.cycle_id(company=company, planned_at=now.astimezone(UTC).isoformat())
    payload = EvolvePayload(company=company, cycle_id=cycle_id, origin="manual", planned_at=now)
    sender.send(
        TaskName.EVOLVE,
        payload.model_dump_json(),
        queue=Queue.SKILLS,
        job_id=cycle_id,
        summary="a cycle of the skill evolver",
        admit=admit,
    )
    return JobReceipt(job_id=cycle_id)
