"""The broker as workers see it: what Celery must be told for each kind, and how much waits on it."""

from typing import Any

from kombu.connection import Connection
from kombu.exceptions import KombuError

from memcore.config.address import Address
from memcore.config.settings import Settings
from memcore.jobs.queues import Queue
from workers import transport
from workers.groups import WorkerGroup

#: Seconds between two looks for jobs whose worker died; Celery's own default adds up to 100 s (STACK, Broker).
RESTORE_SECONDS = 5

#: How long the broker may take to answer a person's question, in seconds.
ANSWER_SECONDS = 2


def broker_conf(settings: Settings, group: WorkerGroup) -> dict[str, Any]:
    """Return Celery's settings for the broker and the result store; nothing is connected."""
    broker, results = Address.of(settings.broker_url), Address.of(settings.result_url)
    return {
        "broker_url": transport.reliable_url(broker.url),
        "broker_transport_options": broker.options | (_redis_options(group) if broker.is_redis else {}),
        "result_backend": results.url,
        "result_backend_transport_options": results.options,
    }


def waiting(settings: Settings) -> dict[str, int | None]:
    """Return how many jobs wait on each queue, whatever the broker is; None where it does not answer."""
    transport.register()
    address = Address.of(settings.broker_url)
    timeouts = {"socket_timeout": ANSWER_SECONDS, "socket_connect_timeout": ANSWER_SECONDS}
    if not address.is_redis:
        timeouts = {"read_timeout": ANSWER_SECONDS}
    connection = Connection(
        transport.reliable_url(address.url),
        connect_timeout=ANSWER_SECONDS,
        transport_options=address.options | timeouts,
    )
    try:
        with connection:
            return {str(queue): _waiting_on(connection, queue) for queue in Queue}
    except (OSError, KombuError, *connection.connection_errors, *connection.channel_errors):
        return dict.fromkeys(map(str, Queue))


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
        "unacked_restore_interval": RESTORE_SECONDS,
        "unacked_restore_throttle": 1,
        "unacked_mutex_expire": 15,
        "socket_keepalive": True,
        "health_check_interval": 10,
    }
