"""Events of jobs wait for others, so that one message takes many."""

from collections.abc import Callable
from typing import Any

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
