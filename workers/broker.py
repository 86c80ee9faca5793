"""Broker settings for Celery, for each kind of broker, and the lengths of its queues."""

from dataclasses import dataclass
from typing import Any

from kombu.connection import Connection
from kombu.exceptions import KombuError

from memcore.config.settings import Settings
from memcore.config.urls import Address
from memcore.errors import MemoryConnectionError
from memcore.jobs.payloads import MAX_MESSAGE_BYTES, Queue
from workers import transport
from workers.groups import WorkerGroup

#: Seconds between two searches for jobs whose worker died; Celery's own default adds up to 100 s (STACK, Broker).
RESTORE_SECONDS = 5

#: Timeout of a worker's command to the broker, in seconds; without it a worker that stops waits for a silent broker for
#: ever.
COMMAND_SECONDS = 10

#: Timeout of a question by a person, in seconds.
ANSWER_SECONDS = 1

#: kombu tries a second time after two seconds, unless it is told otherwise.
_ONE_TRY = {"max_retries": 0}


def broker_conf(settings: Settings, group: WorkerGroup) -> dict[str, Any]:
    """Return Celery's settings for the broker and the result store; nothing is connected."""
    broker, results = Address.of(settings.broker_url), Address.of(settings.result_url)
    return {
        "broker_url": transport.reliable_url(broker.url),
        "broker_transport_options": broker.options | (_redis_options(group) if broker.is_redis else {}),
        "result_backend": results.url,
        "result_backend_transport_options": results.options,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLengths:
    """Number of messages on the broker.

    Attributes:
        waiting: how many jobs wait on each queue.
        unreadable: messages set aside because no worker could read them; only Redis and Valkey keep them.
    """

    waiting: dict[str, int]
    unreadable: int


def read_queue_lengths(settings: Settings) -> QueueLengths:
    """Count the messages on the broker, whatever its kind.

    Raises:
        MemoryConnectionError: it does not answer within ANSWER_SECONDS.
    """
    address = Address.of(settings.broker_url)
    connection = Connection(
        transport.reliable_url(address.url),
        connect_timeout=ANSWER_SECONDS,
        transport_options=person_options(settings),
    )
    try:
        with connection:
            waiting_now = {str(queue): _waiting_on(connection, queue) for queue in Queue}
            return QueueLengths(waiting=waiting_now, unreadable=_unreadable(connection))
    except (OSError, KombuError, *connection.connection_errors, *connection.channel_errors) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise MemoryConnectionError(f"does not answer ({reason})") from error


def waiting(settings: Settings) -> dict[str, int | None]:
    """Return how many jobs wait on each queue, whatever the broker is; None where it does not answer."""
    try:
        return dict(read_queue_lengths(settings).waiting)
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


def _waiting_on(connection: Connection, queue: Queue) -> int:
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
        # Long and short jobs must not share these: the shortest timeout among them would win for all.
        "unacked_key": f"unacked.{group.name}",
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
