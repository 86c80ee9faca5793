"""Telling that a skill was applied, without ever failing the task that applied it."""

import logging
from datetime import datetime
from typing import TYPE_CHECKING

from pydantic import ValidationError

from memcore import ids
from memcore.backends.owner import is_memory_id
from memcore.client.envelope import Scope
from memcore.client.events import ClientEvent
from memcore.client.receipts import AppliedReceipt
from memcore.errors import MemoryError, MemoryInputError  # noqa: A004  # the reference fixes the name
from memcore.jobs.names import TaskName
from memcore.jobs.queues import Queue
from memcore.jobs.skill_payloads import ApplicationOutcome, AppliedPayload

if TYPE_CHECKING:
    from memcore.client.sender import Admit, Sender

#: Stands for the id until the other fields have been checked.
_UNNAMED = "unnamed"

_log = logging.getLogger(__name__)


def seal_application(
    agent_id: str,
    skill_id: str,
    outcome: ApplicationOutcome,
    *,
    task_id: str | None,
    company: str,
    now: datetime,
) -> AppliedPayload:
    """Return the application in its envelope; the same task of the same agent applies a skill once.

    Raises:
        MemoryInputError: naming the field and the limit.
    """
    if not is_memory_id(skill_id):
        raise MemoryInputError("skill_id", "must be the id under which the skill or lesson was found: a UUID")
    try:
        cause = Scope(task_id=task_id).task_id or ids.new_id()
        payload = AppliedPayload(
            company=company,
            agent_id=agent_id,
            application_id=_UNNAMED,
            skill_id=skill_id,
            outcome=outcome,
            applied_at=now,
        )
    except ValidationError as error:
        raise MemoryInputError.of(error) from None
    application_id = ids.application_id(
        company=payload.company, agent_id=payload.agent_id, skill_id=skill_id, cause=cause
    )
    return payload.model_copy(update={"application_id": application_id})


def post_application(sender: "Sender", payload: AppliedPayload, *, admit: "Admit | None") -> AppliedReceipt | None:
    """Send the application; None, with a warning, when the broker does not take it."""
    try:
        job_id = sender.send(
            TaskName.APPLIED,
            payload.model_dump_json(),
            queue=Queue.CONTROL,
            job_id=ids.new_id(),
            summary=f"1 application by {payload.agent_id}",
            track=False,
            admit=admit,
        )
    except MemoryError as error:
        _log.warning(
            ClientEvent.APPLICATION_LOST,
            extra={"agent_id": payload.agent_id, "skill_id": payload.skill_id, "error": type(error).__name__},
        )
        return None
    return AppliedReceipt(job_id=job_id, application_id=payload.application_id)
