"""The declarations of the broker's queues: engine and worker declare alike, whichever connects first."""

from collections.abc import Iterable
from datetime import timedelta

from kombu.entity import Exchange, Queue

#: How long RabbitMQ waits for an acknowledgement from a consumer that lives: above the hard limit of the longest job
#: (55 minutes). Its own 30 minutes would end the channel of every worker with a long run. A consumer that is gone
#: loses its messages at once, whatever this says; Redis does not read it.
CONSUMER_TIMEOUT = timedelta(minutes=65)


def broker_queue(name: str) -> Queue:
    """Return one durable queue behind an exchange of its own name."""
    milliseconds = int(CONSUMER_TIMEOUT / timedelta(milliseconds=1))
    return Queue(
        name, Exchange(name, type="direct"), routing_key=name, queue_arguments={"x-consumer-timeout": milliseconds}
    )


def broker_queues(names: Iterable[str]) -> list[Queue]:
    """Return these queues; RabbitMQ refuses a queue that is declared again in another way."""
    return [broker_queue(str(name)) for name in names]
