"""Speaking to the broker: the only place in memcore that knows Celery, imported when the first job is sent."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from amqp.exceptions import AMQPError
from celery.exceptions import CeleryError
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

from memcore.client.broker_queues import broker_queues
from memcore.client.celery_app import OwnCelery
from memcore.client.outlet import Outlet
from memcore.client.posting import Posting
from memcore.client.receipts import JobState, JobStatus
from memcore.client.vigil import Vigil
from memcore.config.address import Address
from memcore.errors import MemoryConnectionError
from memcore.extras import naming_extras
from memcore.jobs.names import TaskName
from memcore.jobs.queues import Queue

#: How long to wait for the broker before a send fails, in seconds; an engine must not hang on it.
_CONNECT_SECONDS = 5

#: Attempts to publish before the error reaches the caller; the first may find a connection that died while idle.
_PUBLISH_RETRIES = 3

#: The state, beside Celery's own, of a job that will be run again at a better time.
SNOOZED = "SNOOZED"

#: The state of a long job that says how far it is.
PROGRESS = "PROGRESS"

#: Celery's states that say a job has started but not ended.
_RUNNING_STATES = {"STARTED", PROGRESS, "RECEIVED"}

#: What kombu must be told of a Redis broker.
_PATIENCE = {"socket_connect_timeout": _CONNECT_SECONDS, "socket_keepalive": True}

_BROKER_ERRORS = (OSError, AMQPError, CeleryError, KombuError, RedisError)


#: Says how many of these jobs a queue may take now; raises when it may take none.
Admit = Callable[[str, int], int]


class Sender:
    """Publish jobs by name and read their outcomes; needs no worker code."""

    def __init__(self, broker_url: str, result_url: str | None) -> None:
        """Prepare the connection; nothing is opened before the first job.

        Raises:
            MissingExtraError: the outcomes are in a database, and what speaks to it is not installed.
        """
        # Two apps: one that knows the results would subscribe to each job's result as it sends the job and unsubscribe
        # again, two commands beside the one that matters. Outcomes are asked for here, never waited for.
        broker = Address.of(broker_url)
        self._app = OwnCelery(broker=broker.url)
        self._app.conf.update(
            task_serializer="json",
            accept_content=["json"],
            result_extended=False,
            broker_connection_timeout=_CONNECT_SECONDS,
            broker_transport_options=broker.options | (_PATIENCE if broker.is_redis else {}),
            task_queues=broker_queues(Queue),
            task_publish_retry_policy={"max_retries": _PUBLISH_RETRIES, "interval_start": 0, "interval_step": 0.2},
        )
        self._outlet = Outlet(self._app)
        results = Address.of(result_url) if result_url else None
        self._result_errors = _result_errors(results)
        self._outcomes = OwnCelery(backend=results.url if results else None)
        self._outcomes.conf.update(
            accept_content=["json"],
            redis_socket_connect_timeout=_CONNECT_SECONDS,
            result_backend_transport_options=results.options if results else {},
        )

    def send(
        self, name: TaskName, payload: str, *, queue: str, job_id: str, summary: str, track: bool = True,
        admit: Admit | None = None,
    ) -> str:  # fmt: skip
        """Publish one job and return its id; see :meth:`send_many`."""
        posting = Posting(job_id=job_id, queue=str(queue), payload=payload, summary=summary)
        self.send_many(name, [posting], track=track, admit=admit)
        return job_id

    def send_many(
        self, name: TaskName, postings: Sequence[Posting], *, track: bool = True, admit: Admit | None = None
    ) -> None:
        """Publish jobs of one queue, in one round trip a chunk where the broker can.

        Raises:
            MemoryConnectionError: the broker did not take all of them.
            MemoryQueueFullError: ``admit`` refused them; a caller that waits for room may have sent some.
        """
        sent = 0
        while sent < len(postings):
            left = len(postings) - sent
            portion = admit(postings[sent].queue, left) if admit else left
            self._outlet.publish(name, postings[sent : sent + portion], track=track)
            sent += portion

    def waiting(self, queue: str) -> int:
        """Return how many jobs wait on a queue; raises MemoryConnectionError."""
        return self._outlet.waiting(queue)

    def forget(self, job_id: str) -> None:
        """Drop a job's outcome, so that it can have another; raises MemoryConnectionError."""
        if self._outcomes.conf.result_backend is None:
            return
        try:
            self._outcomes.backend.forget(job_id)
        except self._result_errors as error:
            msg = f"the outcome cannot be dropped: {type(error).__name__}; is the result store running?"
            raise MemoryConnectionError(msg) from error

    def status(self, job_id: str) -> JobStatus:
        """Return where a job stands; PENDING also means unknown. Raises MemoryConnectionError."""
        if self._outcomes.conf.result_backend is None:
            msg = "job outcomes are not read: give the client a result_url"
            raise MemoryConnectionError(msg)
        try:
            meta = self._outcomes.backend.get_task_meta(job_id)
        except self._result_errors as error:
            msg = f"the outcome cannot be read: {type(error).__name__}; is the result store running?"
            raise MemoryConnectionError(msg) from error
        return _status(job_id, meta)

    def finished(self, job_ids: Sequence[str]) -> list[JobStatus]:
        """Look once, and return the status of those that have finished; raises MemoryConnectionError."""
        return [status for status in map(self.status, job_ids) if status.is_finished]

    def wait(self, job_ids: Sequence[str], *, timeout_seconds: float) -> Iterator[JobStatus]:
        """Yield each job's status once it has finished. Raises TimeoutError, MemoryConnectionError."""
        vigil = Vigil(job_ids, timeout_seconds=timeout_seconds)
        while vigil.waiting:
            yield from vigil.strike(self.finished(vigil.waiting))
            if vigil.waiting:
                time.sleep(vigil.pause())

    def close(self) -> None:
        """Close every connection."""
        self._app.close()
        self._outcomes.close()


def _result_errors(results: Address | None) -> tuple[type[Exception], ...]:
    if results is None or not results.is_database:
        return _BROKER_ERRORS
    with naming_extras():
        from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415  # only where it keeps the outcomes
    return (*_BROKER_ERRORS, SQLAlchemyError)


def _status(job_id: str, meta: dict[str, Any]) -> JobStatus:
    state, result = meta.get("status"), meta.get("result")
    if state == "SUCCESS" and isinstance(result, dict):
        return JobStatus(
            job_id=job_id,
            state=JobState(result.get("outcome", JobState.DONE)),
            facts=result.get("facts") or {},
            reason=result.get("reason"),
        )
    if state in _RUNNING_STATES:
        told = result if state == PROGRESS and isinstance(result, dict) else {}
        return JobStatus(job_id=job_id, state=JobState.RUNNING, stage=told.get("stage"), fraction=told.get("fraction"))
    if state == "RETRY":
        return JobStatus(job_id=job_id, state=JobState.RETRYING)
    if state == SNOOZED and isinstance(result, dict):
        return JobStatus(job_id=job_id, state=JobState.SNOOZED, reason=result.get("reason"))
    if state in {"FAILURE", "REVOKED"}:
        # The exception's text may quote a memory; its type says enough.
        return JobStatus(job_id=job_id, state=JobState.DEAD, reason=type(result).__name__)
    return JobStatus(job_id=job_id, state=JobState.PENDING)
