"""The Celery app as every process sees the broker, what it publishes for rows that are ready, and its queues."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from celery import Celery
from kombu.connection import Connection
from kombu.exceptions import KombuError
from redis.exceptions import ResponseError

from memcore.client.envelopes import OutgoingJob
from memcore.client.publisher import REFUSES, OwnCelery, Publisher, broker_queue, is_login_refused, loss_of
from memcore.config.settings import Settings
from memcore.config.urls import Address
from memcore.deadline.breaker import Part
from memcore.errors import MemoryConnectionError
from memcore.jobs import MAX_MESSAGE_BYTES, Queue, declared_payloads, job_owner
from workers import transport
from workers.groups import STORE, WorkerGroup
from workers.transport.channel import Channel

if TYPE_CHECKING:
    from memcore.ledger.work_items import WorkItem

#: How long a stopping worker lets running jobs finish, in seconds, before it returns them to the broker.
SOFT_SHUTDOWN_SECONDS = 15

#: How long a child may take to open its connections, in seconds; the default of 4 kills children on a busy machine.
CHILD_START_SECONDS = 120

#: How long a job's outcome can be asked for, in seconds (one hour).
RESULT_SECONDS = 3_600

#: Seconds between two searches for jobs whose worker died; Celery's own default adds up to 100 s (STACK, Broker).
RESTORE_SECONDS = 5

#: Timeout of a worker's command to the broker, in seconds; without it a worker that stops waits for a silent broker for
#: ever.
COMMAND_SECONDS = 10

#: Seconds between two signs of life that a worker and RabbitMQ give each other; either side ends the connection after
#: two that it missed, and what a silent worker holds goes to others.
HEARTBEAT_SECONDS = 20

#: Pauses of a worker or of beat between two tries to connect to a broker that is away, in seconds: the first, how much
#: longer each is than the one before, and the longest. Celery's own grow to half a minute, in which a broker that is
#: back has nobody who works.
RECONNECTING = {"interval_start": 0.2, "interval_step": 0.4, "interval_max": 4.0}

#: Timeout of a question by a person, in seconds.
ANSWER_SECONDS = 1

#: The queue of jobs that another Celery app sends without naming one; it may be another project's, so no worker of ours
#: reads it.
UNREAD = "celery"

#: kombu tries a second time after two seconds, unless it is told otherwise.
_ONE_TRY = {"max_retries": 0}


def broker_app(settings: Settings, *, group: WorkerGroup = STORE) -> OwnCelery:
    """Return an app that sends jobs and reads their outcomes, configured for one group of workers.

    Nothing is connected. It runs no job: ``workers.app.create_app`` adds the jobs, and with them most of what a worker
    imports; who only sends or shows jobs starts a second sooner without.
    """
    transport.register()
    broker, results = Address.of(settings.broker_url), Address.of(settings.result_url)
    app = OwnCelery("memtend")
    app.conf.update(
        broker_url=transport.reliable_url(broker.url),
        broker_transport_options=broker.options | (_redis_options(group) if broker.is_redis else {}),
        result_backend=results.url,
        result_backend_transport_options=results.options,
        broker_connection_retry_on_startup=True,
        # For ever: a worker that ends after a hundred tries has to be started again.
        broker_connection_max_retries=None,
        task_serializer="json",
        result_serializer="json",
        accept_content=["json"],
        task_queues=[broker_queue(name) for name in Queue],
        task_default_queue=str(Queue.STORE),
        task_create_missing_queues=False,
        task_routes={each.task: {"queue": str(each.queue)} for each in declared_payloads()},
        task_acks_late=True,
        # A child that dies or is killed at the hard limit returns its message like a worker that dies, and the ledger
        # counts both (workers/celery_task.py). Celery's own retries would count separately and end without a record.
        task_reject_on_worker_lost=True,
        task_retry_on_worker_lost=False,
        task_acks_on_timeout=False,
        task_ignore_result=False,
        task_store_errors_even_if_ignored=False,
        task_track_started=False,
        result_expires=RESULT_SECONDS,
        worker_consumer="workers.consumer:RequeueUnknownConsumer",
        worker_prefetch_multiplier=1,
        # Celery would otherwise restore the count in the pool's threads, as each job ends: a question and an answer on
        # the connection that the event loop reads. Whoever reads the other's answer leaves both waiting for ever.
        worker_enable_prefetch_count_reduction=False,
        broker_heartbeat=HEARTBEAT_SECONDS,
        worker_max_tasks_per_child=group.recycle_after,
        worker_proc_alive_timeout=CHILD_START_SECONDS,
        worker_soft_shutdown_timeout=SOFT_SHUTDOWN_SECONDS,
        worker_enable_soft_shutdown_on_idle=False,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        worker_send_task_events=settings.send_events,
        worker_disable_rate_limits=True,
        beat_max_loop_interval=5,
        timezone="UTC",
        enable_utc=True,
    )
    app.events.dispatcher_cls = "workers.consumer:LoopDispatcher"
    return app


def results_within(settings: Settings, *, seconds: float) -> Any:
    """Return the result store for what can do without it: it is given so long to answer, and one try.

    Of an app of its own: the worker's waits twenty seconds, which is right for an outcome.
    """
    address = Address.of(settings.result_url)
    app = OwnCelery(backend=address.url)
    app.conf.update(
        result_serializer="json",
        accept_content=["json"],
        result_expires=RESULT_SECONDS,
        redis_socket_timeout=seconds,
        redis_socket_connect_timeout=seconds,
        result_backend_transport_options=address.options | {"retry_policy": {"max_retries": 0}},
    )
    return app.backend


def read_unread(settings: Settings) -> int:
    """Return how many jobs wait where a Celery app sends those that name no queue; raises as read_queue_lengths."""
    with _asked(settings) as connection:
        return _waiting_on(connection, UNREAD)


def read_queue_lengths(settings: Settings) -> tuple[dict[str, int], int]:
    """Return how many jobs wait on each queue, and how many messages no worker could read.

    Only Redis and Valkey keep those. Raises MemoryConnectionError when no answer comes within ANSWER_SECONDS.
    """
    with _asked(settings) as connection:
        return {str(queue): _waiting_on(connection, queue) for queue in Queue}, _unreadable(connection)


def read_loss(settings: Settings) -> tuple[bool, str] | None:
    """Return whether a Redis or Valkey keeps every job, and what was seen; None for others. Raises the same."""
    with _asked(settings) as connection:
        channel: Any = connection.default_channel
        if not isinstance(channel, Channel):
            return None
        try:
            loss = loss_of(channel.client)
        except ResponseError:
            return True, "shows no settings; it should have appendonly yes and maxmemory-policy noeviction"
    return loss is None, loss or "appendonly, evicts no job"


@contextmanager
def _asked(settings: Settings) -> Iterator[Connection]:
    url, options = transport.reliable_url(Address.of(settings.broker_url).url), person_options(settings)
    connection = Connection(url, connect_timeout=ANSWER_SECONDS, transport_options=options)
    try:
        with connection:
            yield connection
    except (OSError, KombuError, *connection.connection_errors, *connection.channel_errors) as error:
        if is_login_refused(error):
            raise MemoryConnectionError(REFUSES, part=Part.BROKER) from error
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise MemoryConnectionError(f"does not answer ({reason})", part=Part.BROKER) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFacts:
    """What waits on a queue: how many jobs, and when the oldest one was sent, in seconds since 1970.

    ``sent_at`` is None where nothing waits, and on a broker that does not say (RabbitMQ).
    """

    waiting: int
    sent_at: float | None = None


def read_queues(settings: Settings) -> tuple[dict[str, QueueFacts], int]:
    """Return what waits on each queue, and how many messages no worker could read; raises as read_queue_lengths."""
    with _asked(settings) as connection:
        return {str(queue): _facts(connection, queue) for queue in Queue}, _unreadable(connection)


def _facts(connection: Connection, queue: Queue) -> QueueFacts:
    count, channel = _waiting_on(connection, queue), connection.default_channel
    oldest = channel.oldest_sent(str(queue)) if count and isinstance(channel, Channel) else None
    return QueueFacts(waiting=count, sent_at=oldest)


def answering(app: OwnCelery, *, limit: int | None = None) -> Counter[str]:
    """Return how many workers of each group answer within ANSWER_SECONDS; with a limit, no more are waited for."""
    answers = app.control.ping(timeout=ANSWER_SECONDS, limit=limit)
    return Counter(name.partition("@")[0] for answer in answers for name in answer)


def waiting(settings: Settings) -> dict[str, int | None]:
    """Return how many jobs wait on each queue, whatever the broker is; None where it does not answer."""
    try:
        return {**read_queue_lengths(settings)[0]}
    except MemoryConnectionError:
        return dict.fromkeys(map(str, Queue))


def person_options(settings: Settings) -> dict[str, Any]:
    """Return the transport options for a person's question: a silent broker is reported, not waited for."""
    transport.register()
    address = Address.of(settings.broker_url)
    if not address.is_redis:
        return address.options | {"read_timeout": ANSWER_SECONDS} | _ONE_TRY
    timeouts = {"socket_timeout": ANSWER_SECONDS, "socket_connect_timeout": ANSWER_SECONDS}
    return address.options | timeouts | _ONE_TRY


def _unreadable(connection: Connection) -> int:
    channel: Any = connection.default_channel
    key = getattr(channel, "unreadable_key", None)
    return 0 if key is None else int(channel.client.llen(key))


def _waiting_on(connection: Connection, queue: str) -> int:
    try:
        return int(connection.default_channel.queue_declare(str(queue), passive=True).message_count)
    except connection.channel_errors as error:
        # A queue that nobody has declared yet, or on Redis one that is empty; RabbitMQ closes the channel over it.
        if getattr(error, "code", None) != 404 and "NOT_FOUND" not in str(error):  # noqa: PLR2004  # AMQP's not found
            raise
        return 0


def _redis_options(group: WorkerGroup) -> dict[str, Any]:
    return {
        "visibility_timeout": int(group.visibility.total_seconds()),
        "unacked_key": group.unacked_key,
        "unacked_index_key": f"unacked_index.{group.name}",
        "unacked_mutex_key": f"unacked_mutex.{group.name}",
        "queue_limits": {str(queue): count for queue, count in group.at_most.items()},
        "largest_message": MAX_MESSAGE_BYTES,
        "unacked_restore_interval": RESTORE_SECONDS,
        "unacked_restore_throttle": 1,
        "unacked_mutex_expire": 15,
        "socket_timeout": COMMAND_SECONDS,
        "socket_keepalive": True,
        "health_check_interval": 10,
    }


class BrokerDispatcher:
    """Publishes jobs over the broker; a lost message costs time, not work: the sweep dispatches its row again."""

    def __init__(self, app: Celery) -> None:
        self._publisher = Publisher(app)

    def dispatch(self, items: Iterable["WorkItem"]) -> None:
        for kind, of_kind in groupby(sorted(items, key=attrgetter("kind")), key=attrgetter("kind")):
            outgoing_jobs = [
                OutgoingJob(
                    job_id=item.key,
                    queue=item.queue,
                    payload=item.payload,
                    summary=f"work of {item.agent_id or 'the company'}",
                    owner=job_owner(item.company, item.agent_id),
                )
                for item in of_kind
                if item.queue is not None and item.payload is not None
            ]
            self._publisher.publish(kind, outgoing_jobs, track=True)
