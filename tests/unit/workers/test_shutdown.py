import signal
import threading
from collections.abc import Callable

import pytest

from workers.shutdown import DeferredSignal

#: Longest wait for a thread, in seconds; it answers in milliseconds.
ANSWER_SECONDS = 60


class Loop:
    """An event loop that comes round when the test says so."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.steps: list[Callable[[], None]] = []

    def call_soon(self, step: Callable[[], None]) -> None:
        self.steps.append(step)
        self.asked.set()


class Handler:
    def __init__(self) -> None:
        self.calls: list[int] = []

    def __call__(self, number: int, frame: object) -> None:
        del frame
        self.calls.append(number)


def test_the_interrupted_step_is_not_where_the_shutdown_runs() -> None:
    loop, handler = Loop(), Handler()
    deferred = DeferredSignal(signal.SIGQUIT, handler, loop, seconds=ANSWER_SECONDS)

    deferred(signal.SIGQUIT, None)
    assert loop.asked.wait(ANSWER_SECONDS)
    assert handler.calls == []

    loop.steps[0]()
    assert handler.calls == [signal.SIGQUIT]


def test_a_second_signal_does_not_wait_and_nothing_shuts_down_twice() -> None:
    loop, handler = Loop(), Handler()
    deferred = DeferredSignal(signal.SIGQUIT, handler, loop, seconds=ANSWER_SECONDS)

    deferred(signal.SIGQUIT, None)
    deferred(signal.SIGQUIT, None)
    deferred(signal.SIGQUIT, None)
    assert loop.asked.wait(ANSWER_SECONDS)
    loop.steps[0]()

    assert handler.calls == [signal.SIGQUIT]


def test_a_loop_that_does_not_come_round_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, handler, killed = Loop(), Handler(), threading.Event()
    deferred = DeferredSignal(signal.SIGQUIT, handler, loop, seconds=0.01)

    def kill(_: int, number: int) -> None:
        deferred(number, None)
        killed.set()

    monkeypatch.setattr("workers.shutdown.os.kill", kill)

    deferred(signal.SIGQUIT, None)

    assert killed.wait(ANSWER_SECONDS)
    assert handler.calls == [signal.SIGQUIT]
