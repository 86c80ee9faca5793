import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from unittest.mock import MagicMock, call

import pytest
from support.repository import ROOT

from workers import lifecycle
from workers.groups import GROUPS, MAINTENANCE_RUN
from workers.lifecycle import EXIT_OVERDUE, DeferredSignal, _defer

#: Longest wait for a thread, in seconds; it answers in milliseconds.
ANSWER_SECONDS = 600


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

    monkeypatch.setattr("workers.lifecycle.os.kill", kill)

    deferred(signal.SIGQUIT, None)

    assert killed.wait(ANSWER_SECONDS)
    assert handler.calls == [signal.SIGQUIT]


class Consumer:
    """What Celery's readiness signal brings along."""

    def __init__(self, *, has_loop: bool) -> None:
        self.hub = Loop() if has_loop else None
        self.controller = SimpleNamespace(use_eventloop=has_loop)


@pytest.fixture
def handler() -> Iterator[Handler]:
    """Celery's handler, as it stands for SIGQUIT and SIGTERM when a worker becomes ready."""
    stop = Handler()
    before = {number: signal.signal(number, stop) for number in (signal.SIGQUIT, signal.SIGTERM)}
    yield stop
    for number, former in before.items():
        signal.signal(number, former)


@pytest.mark.parametrize("number", [signal.SIGQUIT, signal.SIGTERM])
def test_a_ready_worker_takes_the_real_signal_in_its_loop(handler: Handler, number: signal.Signals) -> None:
    consumer = Consumer(has_loop=True)
    _defer(consumer)
    _defer(consumer)  # ready again, after a lost connection

    os.kill(os.getpid(), number)

    assert consumer.hub is not None
    assert consumer.hub.asked.wait(ANSWER_SECONDS)
    assert handler.calls == []
    for step in consumer.hub.steps:
        step()
    assert handler.calls == [number]


def test_a_worker_without_a_loop_keeps_its_own_handlers(handler: Handler) -> None:
    _defer(Consumer(has_loop=False))

    assert signal.getsignal(signal.SIGQUIT) is handler
    assert signal.getsignal(signal.SIGTERM) is handler


def test_workers_with_children_and_no_others_defer_their_end(monkeypatch: pytest.MonkeyPatch) -> None:
    deferred: list[str] = []
    monkeypatch.setattr(lifecycle, "signals", MagicMock())
    for group in GROUPS.values():
        monkeypatch.setattr(lifecycle, "defer_shutdown", lambda name=group.name: deferred.append(name))
        lifecycle.watch_pool(MagicMock(), group, MagicMock(), share=MagicMock())

    assert deferred == [group.name for group in GROUPS.values() if group.pool == "prefork"] != []


def test_a_child_shows_life_before_it_opens_its_context(monkeypatch: pytest.MonkeyPatch) -> None:
    signals, child = MagicMock(), MagicMock()
    monkeypatch.setattr(lifecycle, "signals", signals)
    lifecycle.watch_pool(child.contexts, MAINTENANCE_RUN, child.children, share=MagicMock())
    (begin,) = signals.worker_process_init.connect.call_args.args
    begin(sender=None)

    assert child.mock_calls == [call.children.show_life(), call.contexts.connect()]


#: A process whose shutdown hangs: it hears the signal and goes on. Its child is told to stop first, as a pool's is.
HANGING = """
import os, signal, sys, time
from workers.lifecycle import end_within

end_within(float(sys.argv[1]))
signal.signal(signal.SIGTERM, lambda *_: print("heard", flush=True))
child = os.fork()
if child == 0:
    os.kill(os.getpid(), signal.SIGTERM)
    os._exit(0)
os.waitpid(child, 0)
print("ready", flush=True)
while True:
    time.sleep(60)
"""


def test_a_shutdown_that_hangs_ends_at_its_limit_and_a_childs_signal_does_not_count() -> None:
    command = [sys.executable, "-c", HANGING, "0.3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "heard\n"  # the child's
        assert process.stdout.readline() == "ready\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1.0)

        process.send_signal(signal.SIGTERM)
        assert process.wait(ANSWER_SECONDS) == EXIT_OVERDUE
        assert process.stderr is not None
        assert process.stderr.read() == "worker.stop.overdue: ended after 0.3 s\n"
