"""Events of jobs wait for others, so that one message takes many."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from celery.worker.consumer import Consumer

from memcore.config.settings import Settings
from workers.broker import broker_app
from workers.consumer import EVENT_SECONDS, RequeueUnknownConsumer


class Hub:
    """An event loop whose timer the test turns."""

    def __init__(self) -> None:
        self.planned: list[tuple[float, Callable[[], None]]] = []

    def call_soon(self, call: Callable[..., None], *args: Any) -> None:
        call(*args)

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        self.planned.append((seconds, call))


class Dispatcher:
    def __init__(self) -> None:
        self.flushes = 0

    def flush(self) -> None:
        self.flushes += 1


def make_consumer() -> tuple[Any, Hub, Dispatcher]:
    # Without its constructor, which connects.
    consumer: Any = RequeueUnknownConsumer.__new__(RequeueUnknownConsumer)
    consumer.hub, consumer.event_dispatcher = Hub(), Dispatcher()
    return consumer, consumer.hub, consumer.event_dispatcher


def test_many_events_are_sent_once() -> None:
    consumer, hub, dispatcher = make_consumer()
    for _ in range(3):
        consumer.on_send_event_buffered()

    assert [seconds for seconds, _ in hub.planned] == [EVENT_SECONDS]
    hub.planned[0][1]()
    assert dispatcher.flushes == 1


def test_an_event_after_them_is_sent_too() -> None:
    consumer, hub, dispatcher = make_consumer()
    for _ in range(2):
        consumer.on_send_event_buffered()
        hub.planned.pop()[1]()

    assert dispatcher.flushes == 2


def test_a_worker_that_has_lost_its_connection_sends_none() -> None:
    consumer, hub, _ = make_consumer()
    consumer.on_send_event_buffered()
    consumer.event_dispatcher = None

    hub.planned[0][1]()


def make_app() -> Any:
    return broker_app(
        Settings(broker_url="redis://127.0.0.1:9", database_url="sqlite:///nowhere.db",
                 qdrant_url="http://127.0.0.1:9", home=Path("nowhere"))
    )  # fmt: skip


def test_a_jobs_thread_sends_none_however_many_wait() -> None:
    app = make_app()
    calls: list[str] = []
    dispatcher = app.events.Dispatcher(
        enabled=False, buffer_group=["task"], on_send_buffered=lambda: calls.append("planned")
    )
    dispatcher.enabled, dispatcher.flush = True, lambda: calls.append("sent")

    for _ in range(100):
        dispatcher.send("task-started")

    assert calls == ["planned"] * 100


def test_a_worker_waits_for_its_broker_for_ever() -> None:
    assert make_app().conf.broker_connection_max_retries is None


def test_a_new_connection_waits_for_no_event_of_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer, hub, _ = make_consumer()
    consumer.on_send_event_buffered()
    monkeypatch.setattr(Consumer, "create_task_handler", lambda *_: None)
    monkeypatch.setattr("workers.consumer.broker_errors", lambda _: ())
    consumer.connection = SimpleNamespace(transport=SimpleNamespace(driver_type="redis"))

    consumer.create_task_handler()
    consumer.on_send_event_buffered()

    assert len(hub.planned) == 2
