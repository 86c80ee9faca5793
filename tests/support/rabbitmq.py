"""A virtual host of one's own on a RabbitMQ that the environment names."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from kombu.connection import Connection

from memcore.jobs import Queue

#: The variable that names a RabbitMQ virtual host; tests fill and delete memtend's queues there.
RABBITMQ = "MEMTEND_TEST_RABBITMQ_URL"


@contextmanager
def rabbitmq() -> Iterator[str]:
    """Yield the URL of a broker that holds none of memtend's queues; delete them again; without the variable, skip."""
    url = os.environ.get(RABBITMQ)
    if not url:
        pytest.skip(f"needs a RabbitMQ, named by {RABBITMQ}")
    delete_queues(url)
    yield url
    delete_queues(url)


def delete_queues(url: str) -> None:
    with Connection(url) as connection:
        channel = connection.channel()
        for queue in Queue:
            channel.queue_delete(str(queue))
            channel.exchange_delete(str(queue))
