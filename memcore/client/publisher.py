"""The publisher of jobs and the reader of their outcomes, over Celery; imported when the first job is sent."""

import contextlib
import json
import re
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Self
from uuid import uuid4

from amqp.exceptions import AccessRefused, AMQPError
from celery import Celery
from celery.app.utils import Settings
from celery.exceptions import CeleryError
from celery.loaders.app import AppLoader
from kombu.entity import Exchange
from kombu.entity import Queue as BrokerQueue
from kombu.exceptions import KombuError, OperationalError
from kombu.serialization import dumps as serialize
from kombu.transport.redis import Channel as RedisChannel
from kombu.utils.json import dumps
from redis.exceptions import AuthenticationError, OutOfMemoryError, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from memcore.client.envelopes import OutgoingJob, portions
from memcore.client.results import JobState, JobStatus
from memcore.config.urls import Address
from memcore.deadline.breaker import Part, breaker_of
from memcore.errors import (
    MemoryBrokerFullError,
    MemoryBrokerUnsafeError,
    MemoryConnectionError,
    MemoryDiskFullError,
)
from memcore.extras import naming_extras
from memcore.jobs import Queue
from memcore.telemetry import tracing

#: How long RabbitMQ waits for an acknowledgement from a consumer that lives: above the hard limit of the longest job
#: (55 minutes). Its own 30 minutes would end the channel of every worker with a long run. A consumer that is gone
#: loses its messages at once, whatever this says; Redis does not read it.
CONSUMER_TIMEOUT = timedelta(minutes=65)


def broker_queue(name: str) -> BrokerQueue:
    """Return one durable queue behind an exchange of its own name.

    Engine and worker declare alike, whichever connects first: RabbitMQ refuses a queue that is declared in another way.
    """
    arguments = {"x-consumer-timeout": int(CONSUMER_TIMEOUT / timedelta(milliseconds=1))}
    name = str(name)
    return BrokerQueue(name, Exchange(name, type="direct"), routing_key=name, queue_arguments=arguments)


class _Loader(AppLoader):  # type: ignore[misc]  # Celery ships no types
    def read_configuration(self, env: str = "") -> None:
        """Read no configuration, whatever module a variable names."""


class _Conf(Settings):  # type: ignore[misc]  # see above
    """Celery's settings without the four that the environment overrides."""

    @property
    def broker_url(self) -> str | None:
        found: str | None = self.first("broker_url")
        return found

    @property
    def broker_read_url(self) -> str | None:
        return self.get("broker_read_url") or self.broker_url

    @property
    def broker_write_url(self) -> str | None:
        return self.get("broker_write_url") or self.broker_url

    @property
    def result_backend(self) -> str | None:
        found: str | None = self.first("result_backend")
        return found


class OwnCelery(Celery):  # type: ignore[misc]  # see above
    """A Celery app that its caller alone configures; addresses may be set later, in ``conf``.

    For Celery the environment wins over the program: ``CELERY_BROKER_URL``, ``CELERY_CONFIG_MODULE``,
    ``DJANGO_SETTINGS_MODULE``, for its command line even ``APP`` and ``BROKER_URL``. An engine or a shell that works on
    a Celery project of its own has them set, and our jobs would go to its broker.
    """

    def __init__(self, name: str | None = None, *, broker: str | None = None, backend: str | None = None) -> None:
        super().__init__(name, loader=_Loader, broker=broker, backend=backend, fixups=(), set_as_current=False)
        # Celery makes the object itself, and a plain assignment to it would be a setting.
        object.__setattr__(self._conf, "__class__", _Conf)

    def start(self, argv: Sequence[str] | None = None) -> int | None:
        """Run a command of Celery's with this app; return its exit code, or None for success."""
        from celery.bin.celery import celery  # noqa: PLC0415  # every command of Celery's, which an engine never needs

        for option in celery.params:
            option.envvar = None
        code: int | None = super().start(argv=argv)
        return code


#: The header that names a job's company and agent (``memcore.jobs.job_owner``), and the key where workers count the
#: messages of a queue that they have sorted by it (workers/transport/scripts.py).
OWNER_HEADER, SORTED_KEY = "owner", "{queue}:sorted"

#: The header that says when a job was sent, in seconds since 1970: the age of the oldest one is how late a queue is.
SENT_HEADER = "sent_at"

#: Stand in the cut message until it is filled in; no text of Celery's holds words like these.
_GAPS = (
    "memtend<job>",
    "memtend<summary>",
    "memtend<tag>",
    "memtend<body>",
    "memtend<owner>",
    "memtend<sent>",
    "memtend<trace>",
)
_JOB, _SUMMARY, _TAG, _BODY, _OWNER, _SENT, _TRACE = _GAPS


class MessageTemplate:
    """The message of one task on one queue, as Celery and kombu would write it, with gaps for a job's values.

    Build it with :meth:`of`; it is bound to no connection and may be used by many threads.
    """

    def __init__(self, message: str, body: tuple[str, str]) -> None:
        self._pieces = re.split(f"({'|'.join(_GAPS)})", message)
        self._body = body

    @classmethod
    def of(cls, app: Celery, channel: Any, name: str, *, queue: str, track: bool, is_traced: bool = False) -> Self:
        """Let Celery and a virtual channel of kombu's, such as Redis's, write the message of a task once."""
        task: Any = app.amqp.create_task_message(
            _JOB, name, args=(_BODY,), argsrepr=_SUMMARY, kwargsrepr="", ignore_result=not track
        )
        text: Any
        content_type, content_encoding, text = serialize(task.body, "json")
        message = channel.prepare_message(
            "",
            content_type=content_type,
            content_encoding=content_encoding,
            # First, where the broker finds it soonest.
            headers=_headers(_OWNER, _SENT, _TRACE if is_traced else None) | task.headers,
            properties={**task.properties, "delivery_mode": app.conf.task_default_delivery_mode},
            priority=0,
        )
        channel._inplace_augment_message(message, "", queue)  # noqa: SLF001  # kombu's only way to a whole message; a test compares the two
        message["body"] = _BODY
        message["properties"]["delivery_tag"] = _TAG
        before, after = text.split(json.dumps(_BODY))
        return cls(dumps(message), (before, after))

    def fill(self, outgoing_job: OutgoingJob, *, sent_at: float, trace: str | None = None) -> str:
        """Return the message of one job that is sent at a time in seconds since 1970, as part of a trace."""
        before, after = self._body
        body = f"{before}{json.dumps(outgoing_job.payload)}{after}"
        values = {
            _JOB: _inside(outgoing_job.job_id),
            _SUMMARY: _inside(outgoing_job.summary),
            _OWNER: outgoing_job.owner,
            _SENT: _moment(sent_at),
            _TRACE: trace or "",
            _TAG: str(uuid4()),
            _BODY: b64encode(body.encode()).decode("ascii"),
        }
        return "".join([values.get(piece, piece) for piece in self._pieces])


def _headers(owner: str, sent_at: str, trace: str | None) -> dict[str, str]:
    headers = {OWNER_HEADER: owner, SENT_HEADER: sent_at}
    return headers if trace is None else {**headers, tracing.HEADER: trace}


def _moment(sent_at: float) -> str:
    return f"{sent_at:.3f}"


def _inside(text: str) -> str:
    # As it stands between the quotes of a JSON string.
    return json.dumps(text)[1:-1]


#: Jobs in one round trip: more gain nothing (STACK, Broker: measured at 1,000), and hold up other clients.
CHUNK_JOBS = 1_000

#: Payload in one round trip, in bytes (4 MiB): what the broker must take in one piece.
CHUNK_BYTES = 4_194_304

#: How Redis and its like begin their answer when their log or their snapshot cannot be written.
_CANNOT_WRITE = "MISCONF"

_BROKER_ERRORS = (OSError, AMQPError, CeleryError, KombuError, RedisError)

#: How brokers say that a user or a password is wrong, or missing.
_LOGIN_REFUSED = (AuthenticationError, AccessRefused)

#: What is said of it: never the password.
REFUSES = "refuses the user or the password in its address"


def is_login_refused(error: BaseException) -> bool:
    """Return whether a broker refused the user or the password."""
    # kombu wraps what its connection raised.
    return any(isinstance(each, _LOGIN_REFUSED) for each in (error, error.__cause__))


def _unavailable(what: str, problem: str, error: Exception) -> MemoryConnectionError:
    """Return the error of a server that does not do what it was asked."""
    if is_login_refused(error):
        return MemoryConnectionError(f"{what} {problem}: it {REFUSES}", part=Part.BROKER)
    return MemoryConnectionError(
        f"{what} {problem}: {type(error.__cause__ or error).__name__}; is it running?", part=Part.BROKER
    )


def loss_of(client: Any) -> str | None:
    """Return the setting by which a Redis or Valkey may lose jobs that it accepted, and what it should be.

    Raises ResponseError where it shows no settings, as many that others run.
    """
    has: dict[str, str] = client.config_get("maxmemory-policy", "appendonly")
    if has.get("maxmemory-policy", "").startswith("allkeys-"):
        return f"maxmemory-policy is {has['maxmemory-policy']}, so that it evicts jobs: set noeviction"
    if has.get("appendonly") == "no":
        return "appendonly is no, so that a restart loses jobs: set yes"
    return None


class Publisher:
    """Publishes jobs through a Celery app's connections; thread-safe, and safe across fork.

    With ``may_lose`` it publishes to any broker; without, it first asks the broker whether it keeps jobs.
    """

    def __init__(self, app: Celery, *, seconds: Callable[[], float] = time.time, may_lose: bool = True) -> None:
        self._app = app
        self._may_lose = may_lose
        self._seconds = seconds
        # By what a message's fixed part depends on; a few entries, since queues are few.
        self._templates: dict[tuple[str, str, bool, bool], MessageTemplate] = {}

    def publish(self, name: str, outgoing_jobs: Iterable[OutgoingJob], *, track: bool) -> None:
        """Send the jobs in their order, one round trip a chunk on Redis and its like, one a job elsewhere.

        Raises:
            MemoryBrokerUnsafeError: the broker may lose what it accepts; nothing was sent.
            MemoryDiskFullError: the broker says that it cannot write.
            MemoryBrokerFullError: the broker's memory is full.
            MemoryConnectionError: the broker did not take all of them. Those of earlier chunks are sent, and of this
                one perhaps too: sending a job again under its id does no harm.
        """
        try:
            with self._app.producer_pool.acquire(block=True) as producer:
                for chunk in chunks(outgoing_jobs):
                    if isinstance(producer.channel, RedisChannel):
                        self._push(producer, name, chunk, track=track)
                    else:
                        self._send(producer, name, chunk, track=track)
        except _BROKER_ERRORS as error:
            if str(error).startswith(_CANNOT_WRITE):
                msg = "the broker cannot write to its disk, and takes no jobs until it can: is that disk full?"
                raise MemoryDiskFullError(msg) from error
            if any(isinstance(each, OutOfMemoryError) for each in (error, error.__cause__)):
                raise MemoryBrokerFullError("the broker is full: start workers, or raise its maxmemory") from error
            raise _unavailable("the broker", "did not take the job", error) from error

    def waiting(self, queue: str) -> int:
        """Return how many jobs wait on a queue; raises MemoryConnectionError."""
        try:
            with self._app.producer_pool.acquire(block=True) as producer:
                if isinstance(producer.channel, RedisChannel):
                    return int(self._ensured(producer, lambda: _length(_open_channel(producer), queue)))
                return _declared(producer.connection, queue)
        except _BROKER_ERRORS as error:
            raise _unavailable("the broker", f"does not say how full {queue} is", error) from error

    def _push(self, producer: Any, name: str, chunk: Sequence[OutgoingJob], *, track: bool) -> None:
        by_queue: dict[str, list[str]] = {}
        sent_at, trace = self._seconds(), tracing.current_context()
        for job in chunk:
            template = self._template(producer, name, job.queue, track=track, is_traced=trace is not None)
            by_queue.setdefault(job.queue, []).append(template.fill(job, sent_at=sent_at, trace=trace))

        def push() -> None:
            with _open_channel(producer).conn_or_acquire() as client, client.pipeline(transaction=False) as pipeline:
                self._refuse_loss(client)
                for queue, messages in by_queue.items():
                    pipeline.lpush(queue, *messages)
                pipeline.execute()

        self._ensured(producer, push)

    def _refuse_loss(self, client: Any) -> None:
        if self._may_lose:
            return
        with contextlib.suppress(ResponseError):  # it shows no settings: `memtend doctor` says so
            if (loss := loss_of(client)) is not None:
                msg = f"the broker may lose memories: {loss}, or allow it with MEMTEND_BROKER_MAY_LOSE=true"
                raise MemoryBrokerUnsafeError(msg)
        self._may_lose = True  # asked once

    def _send(self, producer: Any, name: str, chunk: Sequence[OutgoingJob], *, track: bool) -> None:
        def send(outgoing_job: OutgoingJob) -> None:
            try:
                self._app.send_task(
                    name,
                    args=(outgoing_job.payload,),
                    task_id=outgoing_job.job_id,
                    queue=outgoing_job.queue,
                    headers=_headers(outgoing_job.owner, _moment(self._seconds()), tracing.current_context()),
                    argsrepr=outgoing_job.summary,
                    kwargsrepr="",
                    ignore_result=not track,
                    producer=producer,
                    retry=False,
                )
            except OperationalError as error:  # Celery's, around kombu's own
                if not isinstance(error.__cause__, TimeoutError):
                    raise error.__cause__ or error from None
                # A late answer would count as that to the next message.
                producer.connection.collect()
                raise

        for outgoing_job in chunk:
            self._ensured(producer, partial(send, outgoing_job))

    def _template(self, producer: Any, name: str, queue: str, *, track: bool, is_traced: bool) -> MessageTemplate:
        key = (name, queue, track, is_traced)
        if key not in self._templates:
            self._templates[key] = MessageTemplate.of(
                self._app, producer.channel, name, queue=queue, track=track, is_traced=is_traced
            )
        return self._templates[key]

    def _ensured(self, producer: Any, step: Any) -> Any:
        # As kombu ensures its own publishing: the first try may find a connection that died while idle.
        policy = self._app.conf.task_publish_retry_policy

        def patient() -> Any:
            try:
                return step()
            except RedisTimeoutError as error:
                # Not tried again: the caller has waited long enough.
                raise KombuError from error

        return producer.connection.ensure(producer, patient, **policy)()


def _open_channel(producer: Any) -> Any:
    # A broker that stops at the wrong moment leaves a closed channel with its producer, and kombu then dies of an
    # AttributeError; this error is one that it connects again after.
    if producer.channel.closed:
        msg = "the channel is closed"
        raise ConnectionResetError(msg)
    return producer.channel


def chunks(outgoing_jobs: Iterable[OutgoingJob]) -> Iterator[list[OutgoingJob]]:
    """Cut the jobs into round trips; the order stays."""
    # Characters stand for bytes here: JSON in a message is ASCII, and the limit is no promise.
    return portions(outgoing_jobs, size=lambda job: len(job.payload), most=CHUNK_JOBS, most_size=CHUNK_BYTES)


def _length(channel: Any, queue: str) -> int:
    with channel.conn_or_acquire() as client:
        return int(client.llen(queue)) + int(client.get(SORTED_KEY.format(queue=queue)) or 0)


def _declared(connection: Any, queue: str) -> int:
    # On a channel of its own: a queue that nobody has made yet costs the channel that asks for it.
    with connection.channel() as channel:
        try:
            return int(channel.queue_declare(queue, passive=True).message_count)
        except TimeoutError:
            connection.collect()  # else the channel's end is waited for, too
            raise
        except connection.channel_errors:
            return 0


#: How long to wait for a connection to the broker before a send fails, in seconds; an engine must not hang on it.
_CONNECT_SECONDS = 4

#: How long a broker that is connected may say nothing, in seconds; a message of the largest size takes it under one.
_ANSWER_SECONDS = 4

#: Attempts to publish before the error reaches the caller; the first may find a connection that died while idle.
_PUBLISH_RETRIES = 3

#: The state, beside Celery's own, of a snoozed job.
SNOOZED = "SNOOZED"

#: The state of a long job that reports its progress.
PROGRESS = "PROGRESS"

#: Celery's states that say a job has started but not ended.
_RUNNING_STATES = {"STARTED", PROGRESS, "RECEIVED"}

#: kombu's transport options for a Redis broker.
_PATIENCE = {
    "socket_connect_timeout": _CONNECT_SECONDS,
    "socket_timeout": _ANSWER_SECONDS,
    "socket_keepalive": True,
    # kombu connects a second time after two seconds, unless it is told otherwise.
    "max_retries": 0,
}

#: kombu's transport options for a RabbitMQ broker; the client's wait is shorter than a worker's.
_AMQP_PATIENCE = {"read_timeout": _ANSWER_SECONDS, "write_timeout": _ANSWER_SECONDS, "max_retries": 0}

#: Says how many of these jobs a queue may take now; raises when it may take none.
Admit = Callable[[str, int], int]


class JobResults(Publisher):
    """Publishes jobs with an app of its own and reads their outcomes; nothing is opened before the first job.

    Raises MissingExtraError when the outcomes are in a database, and what speaks to it is not installed.
    """

    def __init__(self, broker_url: str, result_url: str | None, *, may_lose: bool = False) -> None:
        # Two apps: one that knows the results would subscribe to each job's result as it sends the job and unsubscribe
        # again, two commands beside the one that matters. Outcomes are asked for here, never waited for.
        broker = Address.of(broker_url)
        app = OwnCelery(broker=broker.url)
        app.conf.update(
            task_serializer="json",
            accept_content=["json"],
            result_extended=False,
            broker_connection_timeout=_CONNECT_SECONDS,
            broker_transport_options=broker.options | (_PATIENCE if broker.is_redis else _AMQP_PATIENCE),
            task_queues=[broker_queue(name) for name in Queue],
            task_publish_retry_policy={"max_retries": _PUBLISH_RETRIES, "interval_start": 0, "interval_step": 0.2},
        )
        super().__init__(app, may_lose=may_lose)
        results = Address.of(result_url) if result_url else None
        self._result_errors = _result_errors(results)
        self._breaker = breaker_of(Part.BROKER, result_url or "")
        self._outcomes = OwnCelery(backend=results.url if results else None)
        self._outcomes.conf.update(
            accept_content=["json"],
            redis_socket_connect_timeout=_CONNECT_SECONDS,
            redis_socket_timeout=_ANSWER_SECONDS,
            result_backend_transport_options=results.options if results else {},
        )

    def send_many(self, name: str, outgoing_jobs: Sequence[OutgoingJob], *, track: bool, admit: Admit | None) -> None:
        """Publish jobs of one queue, as many at a time as ``admit`` lets pass; raises what both raise."""
        sent = 0
        while sent < len(outgoing_jobs):
            left = len(outgoing_jobs) - sent
            portion = admit(outgoing_jobs[sent].queue, left) if admit else left
            self.publish(name, outgoing_jobs[sent : sent + portion], track=track)
            sent += portion

    def forget(self, job_id: str) -> None:
        """Drop a job's outcome, so that it can have another; raises MemoryConnectionError."""
        if self._outcomes.conf.result_backend is None:
            return
        try:
            self._outcomes.backend.forget(job_id)
        except self._result_errors as error:
            raise _unavailable("the result store", "does not drop the outcome", error) from error

    def status(self, job_id: str) -> JobStatus:
        """Return where a job stands; PENDING also means unknown. Raises MemoryConnectionError."""
        if self._outcomes.conf.result_backend is None:
            msg = "job outcomes are not read: give the client a result_url"
            raise MemoryConnectionError(msg)
        with self._breaker.call() as limit:
            began = time.monotonic()
            try:
                meta = self._outcomes.backend.get_task_meta(job_id)
            except self._result_errors as error:
                if limit is not None and time.monotonic() - began >= limit:
                    self._breaker.timed_out()
                raise _unavailable("the result store", "does not say the outcome", error) from error
        return _status(job_id, meta)

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
        progress = result if state == PROGRESS and isinstance(result, dict) else {}
        return JobStatus(
            job_id=job_id, state=JobState.RUNNING, stage=progress.get("stage"), fraction=progress.get("fraction")
        )
    if state == "RETRY":
        return JobStatus(job_id=job_id, state=JobState.RETRYING)
    if state == SNOOZED and isinstance(result, dict):
        return JobStatus(job_id=job_id, state=JobState.SNOOZED, reason=result.get("reason"))
    if state in {"FAILURE", "REVOKED"}:
        # The exception's text may quote a memory; its type says enough.
        return JobStatus(job_id=job_id, state=JobState.DEAD, reason=type(result).__name__)
    return JobStatus(job_id=job_id, state=JobState.PENDING)
