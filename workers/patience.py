"""Messages that this worker cannot do: those of a newer release wait for it, and what cannot be read is kept aside.

Celery's own consumer drops both, and writes their bodies, memories and all, into the log; or it ends over them.
"""

import logging
import re
from typing import Any

from celery.worker import state
from celery.worker.consumer import Consumer

from memcore.errors import MemoryInputError
from tasks.newer import NEWER_DELAY
from workers.delivery import check_message
from workers.transport.unreadable import broker_errors

#: What a job of another release of ours is called.
_OUR_NAME = re.compile(r"memory(\.[a-z_]+)+")

#: Errors of this process, not of a message: passed on, so that the worker is started again and the message given back.
_OWN_ERRORS = (MemoryError, RuntimeError, OSError)

log = logging.getLogger("memtend.jobs")


class PatientConsumer(Consumer):  # type: ignore[misc]  # Celery is untyped
    """Celery's consumer, for messages of which none may be lost, and none may end the worker."""

    #: Seconds that a job of an unknown name rests in this worker's hands; given back at once, it would come round
    #: without end.
    rest_seconds = NEWER_DELAY.total_seconds()

    #: Takes what cannot be read; set by workers.unreadable.
    unreadable: Any

    #: What Celery gives every consumer.
    app: Any
    task_consumer: Any

    def create_task_handler(self, *args: Any, **kwargs: Any) -> Any:
        """Return what is called with each message: nothing that a message brings makes it raise."""
        handle = super().create_task_handler(*args, **kwargs)
        errors_of_broker = broker_errors(self)

        def on_task_received(message: Any) -> None:
            try:
                self._check(message)
            except MemoryInputError as error:
                self.unreadable.add(message, str(error))
                return
            try:
                handle(message)
            except errors_of_broker:
                raise
            except Exception as error:
                is_own = isinstance(error, _OWN_ERRORS) and not isinstance(error, RecursionError)
                if is_own or state.should_stop is not None or state.should_terminate is not None:
                    raise
                self.unreadable.add(message, f"message: cannot be handed to a job: {type(error).__name__}")

        return on_task_received

    def on_decode_error(self, message: Any, exc: Exception) -> None:
        """Follow Celery's signature; a broadcast that cannot be read is dropped, like one that nobody hears."""
        if self.task_consumer is not None and message.channel is self.task_consumer.channel:
            self.unreadable.add(message, f"message: cannot be decoded: {type(exc).__name__}")
        else:
            log.warning("broadcast.unreadable", extra={"error": type(exc).__name__})

    def on_invalid_task(self, body: Any, message: Any, exc: Exception) -> None:  # noqa: ARG002  # Celery's names
        """Follow Celery's signature; the body is not read."""
        self.unreadable.add(message, f"message: is no job: {type(exc).__name__}")

    def on_unknown_message(self, body: Any, message: Any) -> None:  # noqa: ARG002  # Celery's names
        """Follow Celery's signature; the body is not read."""
        self.unreadable.add(message, "message: names no job")

    def on_unknown_task(self, body: Any, message: Any, exc: Exception) -> None:  # noqa: ARG002  # Celery's names
        """Let a job that only a newer release knows go back to its queue after a while; the body is not read."""
        log.warning(
            "job.unknown",
            extra={"job": message.headers["task"], "job_id": message.headers["id"], "error": type(exc).__name__},
        )
        timer: Any = self.timer
        timer.call_after(self.rest_seconds, self._give_back, (message,))

    def _check(self, message: Any) -> None:
        headers = message.headers if isinstance(message.headers, dict) else {}
        name = headers.get("task")
        task = self.app.tasks.get(name) if isinstance(name, str) else None
        check_message(message, may_expire=bool(getattr(task, "is_repeated", False)))
        if str(name).startswith("celery.") or (task is None and not _OUR_NAME.fullmatch(str(name))):
            raise MemoryInputError("headers.task", "is no job of ours")

    def _give_back(self, message: Any) -> None:
        # On a connection that broke meanwhile there is nothing to give back: the broker has it again by itself.
        message.reject_log_error(log, self.connection_errors, requeue=True)
