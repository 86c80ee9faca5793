"""Jobs that this worker's release does not know: they wait for a newer worker instead of being thrown away."""

import logging
from typing import Any

from celery.worker.consumer import Consumer

from tasks.newer import NEWER_DELAY

log = logging.getLogger("memtend.jobs")


class PatientConsumer(Consumer):  # type: ignore[misc]  # Celery is untyped
    """Celery's consumer, except that a job of a name unknown here goes back to its queue after a while.

    Celery's own drops it, and writes its body, memories and all, into the log. In the middle of an upgrade older
    workers meet such jobs; whoever reads the log learns the name.
    """

    #: Seconds that such a job rests in this worker's hands; given back at once, it would come round without end.
    rest_seconds = NEWER_DELAY.total_seconds()

    def on_unknown_task(self, body: Any, message: Any, exc: Exception) -> None:  # noqa: ARG002  # Celery's names
        """Follow Celery's signature; the body is not read."""
        headers = message.headers or {}
        log.warning(
            "job.unknown",
            extra={"job": headers.get("task"), "job_id": headers.get("id"), "error": type(exc).__name__},
        )
        timer: Any = self.timer
        timer.call_after(self.rest_seconds, self._give_back, (message,))

    def _give_back(self, message: Any) -> None:
        # On a connection that broke meanwhile there is nothing to give back: the broker has it again by itself.
        message.reject_log_error(log, self.connection_errors, requeue=True)
