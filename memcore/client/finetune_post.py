"""Sending a fine-tune run: the ledger's row is made from the message."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from memcore import ids
from memcore.client.receipts import JobReceipt
from memcore.errors import MemoryInputError
from memcore.finetune.plan import FineTunePlan
from memcore.jobs.finetune_payload import FineTunePayload
from memcore.jobs.names import TaskName
from memcore.jobs.queues import Queue

if TYPE_CHECKING:
    from memcore.client.sender import Admit, Sender


def seal_finetune(plan: FineTunePlan | Mapping[str, Any], *, company: str, cause: str | None) -> FineTunePayload:
    """Return the run in its envelope; one cause starts one run. Raises MemoryInputError, naming the field."""
    checked = plan if isinstance(plan, FineTunePlan) else FineTunePlan.model_validate(dict(plan))
    if cause is not None and not cause.strip():
        raise MemoryInputError("request_id", "must not be blank")
    try:
        return FineTunePayload(
            company=company,
            run_id=ids.finetune_run_id(company=company, cause=cause or ids.new_id()),
            plan=checked.model_dump(mode="json"),
        )
    except ValidationError as error:
        raise MemoryInputError.of(error) from None


def post_finetune(sender: "Sender", payload: FineTunePayload, *, admit: "Admit | None") -> JobReceipt:
    """Send the run; the job's id is the run's id. Raises MemoryConnectionError, MemoryQueueFullError."""
    sender.send(
        TaskName.FINETUNE,
        payload.model_dump_json(),
        queue=Queue.FINETUNE,
        job_id=payload.run_id,
        summary="a fine-tune run",
        admit=admit,
    )
    return JobReceipt(job_id=payload.run_id)
