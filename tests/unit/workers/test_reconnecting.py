"""What a worker does after its connection to the broker broke while jobs ran in its pool's threads."""

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from celery.worker import state
from celery.worker.consumer import Consumer
from kombu.common import QoS

from memcore.config.settings import Settings
from workers.broker import broker_app
from workers.consumer import RequeueUnknownConsumer

#: Jobs that run when the connection breaks, and the threads of the pool.
RUNNING, THREADS = 47, 64

TASK = "memory.store.write"


class Running:
    """A job in a thread of the pool."""


def broken_while_busy(asked: list[str]) -> Any:
    """Return the consumer of a worker whose connection has just broken; each question of prefetch is noted."""
    consumer: Any = RequeueUnknownConsumer.__new__(RequeueUnknownConsumer)
    nowhere = "redis://127.0.0.1:9"
    consumer.app = broker_app(
        Settings(broker_url="amqp://guest@127.0.0.1:9//", result_url=nowhere, database_url="sqlite:///nowhere.db",
                 qdrant_url="http://127.0.0.1:9", home=Path("nowhere"))
    )  # fmt: skip
    consumer.pool = SimpleNamespace(num_processes=THREADS)
    consumer.hub = SimpleNamespace(call_soon=lambda step: step)
    consumer.connection = SimpleNamespace(collect=lambda **_: None, close=lambda: None)
    consumer.connection_errors, consumer.channel_errors = (OSError,), (OSError,)
    consumer.prefetch_multiplier, consumer.initial_prefetch_count, consumer.restart_count = 1, THREADS, 1
    consumer.qos_global, consumer._maximum_prefetch_restored = True, True
    consumer.on_task_message, consumer.strategies = set(), {}
    consumer.qos = QoS(lambda **_: asked.append(threading.current_thread().name), THREADS)
    consumer.on_connection_error_after_connected(ConnectionResetError())
    consumer.qos.value = consumer.initial_prefetch_count
    return consumer


@pytest.mark.filterwarnings("ignore::celery.exceptions.CPendingDeprecationWarning")
@pytest.mark.parametrize("how", ["ack", "reject"])
def test_a_pools_thread_that_ends_its_job_asks_the_broker_nothing(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    running = [Running() for _ in range(RUNNING)]
    monkeypatch.setattr(state, "active_requests", set(running))
    monkeypatch.setattr("celery.worker.consumer.consumer.active_requests", set(running))
    asked: list[str] = []
    consumer = broken_while_busy(asked)
    handed: list[Any] = []
    consumer.strategies[TASK] = lambda _message, _payload, ack, reject, _callbacks: handed.append((ack, reject))
    message = SimpleNamespace(headers={"task": TASK}, ack_log_error=lambda *_: None, reject_log_error=lambda *_: None)

    Consumer.create_task_handler(consumer)(message)
    end = handed[0][how == "reject"]
    thread = threading.Thread(target=end, args=(None, (OSError,)), name="pool")
    thread.start()
    thread.join()

    assert asked == []
