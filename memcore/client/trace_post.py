"""Sending a trace without ever failing the task that it tells of."""

import logging
from typing import TYPE_CHECKING

from memcore import ids
from memcore.client.events import ClientEvent
from memcore.client.receipts import DistillReceipt
from memcore.errors import MemoryError  # noqa: A004  # the reference fixes the name
from memcore.jobs.distill_payload import DistillPayload
from memcore.jobs.names import TaskName
from memcore.jobs.queues import Queue

if TYPE_CHECKING:
    from memcore.client.sender import Admit, Sender

_log = logging.getLogger(__name__)


def post_trace(
    sender: "Sender", payload: DistillPayload, *, track: bool, admit: "Admit | None"
) -> DistillReceipt | None:
    """Send the trace; None, with a warning, when the broker does not take it."""
    try:
        job_id = sender.send(
            TaskName.DISTILL,
            payload.model_dump_json(),
            queue=Queue.DISTILL,
            job_id=ids.new_id(),
            summary=f"1 trace of {payload.agent_id}",
            track=track,
            admit=admit,
        )
    except MemoryError as error:
        _log.warning(
            ClientEvent.TRACE_LOST,
            extra={"agent_id": payload.agent_id, "trace_id": payload.trace_id, "error": type(error).__name__},
        )
        return None
    return DistillReceipt(job_id=job_id, trace_id=payload.trace_id)
