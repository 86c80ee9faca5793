"""Deliveries whose connection to RabbitMQ is gone: their messages come again, so that what waits need not run."""

import os
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

#: The header in which a worker numbers the connection that a message came by.
HEADER = "memtend_connection"


@dataclass(frozen=True, slots=True)
class _Connection:
    pid: int
    number: int


_live: _Connection | None = None


def connected(consumer: Any) -> None:
    """Note that the consumer has a new connection, and that the one before, if it had one, is gone."""
    global _live  # noqa: PLW0603  # one consumer a process; its threads ask
    # Other brokers keep what a living worker holds: a connection that is lost and found changes nothing.
    is_amqp = consumer.connection.transport.driver_type == "amqp"
    _live = _Connection(os.getpid(), 1 if _live is None else _live.number + 1) if is_amqp else None


def mark(headers: MutableMapping[str, Any]) -> None:
    """Number a message that has come by the present connection."""
    if _live is not None:
        headers[HEADER] = _live.number


def is_stale(request: Any) -> bool:
    """Tell whether a task's message came by a connection that is gone.

    Its acknowledgement would reach nobody, and the broker has given the message to a worker again.
    """
    number = getattr(request, HEADER, None)
    # A forked child knows only the connection that there was when it began.
    return _live is not None and _live.pid == os.getpid() and number not in {None, _live.number}
