"""The life of a worker process: its context, opened after the fork; its heartbeat; its shutdown within a limit."""

import gc
import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from types import FrameType
from typing import TYPE_CHECKING, Any

import psutil
from celery import Celery, signals
from celery.bootsteps import StartStopStep

from memcore.config.settings import Settings
from memcore.telemetry import tracing
from memcore.telemetry.events import Event
from workers.children import Children
from workers.groups import STOP_SECONDS, WorkerGroup
from workers.health import BEAT_SECONDS, Heartbeat

if TYPE_CHECKING:
    from workers.context import WorkerContexts

# Celery runs the whole cold shutdown inside the signal handler, wherever the signal interrupted the main process. Half
# way through handing a job to a child, it waits for a child that waits for the rest of that job: the worker hangs until
# somebody kills it, and its jobs come back only when their leases lapse. Here the handler only notifies; the event loop
# does the rest between two steps.
#
# Celery also waits without limit for its pool, and for answers of a broker that is gone; ``end_within`` does not.

#: How long the event loop may take to respond; one that reconnects to its broker does not run at all.
LOOP_SECONDS = 2.0

#: A main loop of which nothing was seen for so long, in seconds, hangs: each step of it waits less for a broker.
LOOP_LIMIT_SECONDS = 600.0

#: Exit code of a process whose shutdown did not end by itself.
EXIT_OVERDUE = 75

_STOPS = frozenset({signal.SIGTERM, signal.SIGQUIT, signal.SIGINT})

log = logging.getLogger("memtend.pulse")

Handler = Callable[[int, FrameType | None], Any]


class DeferredSignal:
    """Runs Celery's handler of a signal in the event loop ``hub``, or at once if it does not respond in time."""

    def __init__(self, number: signal.Signals, handler: Handler, hub: Any, *, seconds: float = LOOP_SECONDS) -> None:
        self._number = number
        self._handler = handler
        self._hub = hub
        self._seconds = seconds
        self._begun = threading.Event()
        self._is_notified = False
        # A pipe and a thread that waits already: neither takes a lock that the interrupted step may hold.
        self._reader, self._writer = os.pipe()
        threading.Thread(target=self._listen, name=f"deferred-{number.name}", daemon=True).start()

    def __call__(self, *_: object) -> None:
        """Handle the signal: notify the loop the first time, act at once the second."""
        if self._is_notified:
            self._begin()
        else:
            self._is_notified = True
            os.write(self._writer, b"!")

    def _listen(self) -> None:
        os.read(self._reader, 1)
        self._hub.call_soon(self._begin)
        if not self._begun.wait(self._seconds):
            os.kill(os.getpid(), self._number)

    def _begin(self) -> None:
        if not self._begun.is_set():
            self._begun.set()
            self._handler(self._number, None)


def defer_shutdown() -> None:
    """Make every prefork worker of this process shut down from its event loop, once it is ready."""
    signals.worker_ready.connect(_defer, weak=False)


def _defer(sender: Any, **_: Any) -> None:
    hub = sender.hub
    if hub is None or not sender.controller.use_eventloop:
        return  # threads and solo: nothing is handed over byte by byte
    for number in (signal.SIGTERM, signal.SIGQUIT):
        handler = signal.getsignal(number)
        # Ready again after a lost connection: the handler is ours already.
        if callable(handler) and not isinstance(handler, DeferredSignal):
            signal.signal(number, DeferredSignal(number, handler, hub))


def end_within(seconds: float = STOP_SECONDS) -> None:
    """Exit this process a fixed time after the first stop signal, finished or not; call it in the main thread.

    Nothing is lost: unacknowledged messages are redelivered, and children die with their parent.
    """
    heard, written = os.pipe()
    os.set_blocking(written, False)
    # Written by the interpreter itself as the signal comes: it needs neither a handler, which Celery replaces, nor a
    # main thread that comes round to it.
    signal.set_wakeup_fd(written, warn_on_full_buffer=False)
    # A child inherits the descriptor, and is ended by signals that are not meant for us.
    os.register_at_fork(after_in_child=_be_silent)
    threading.Thread(target=_end_after, args=(heard, seconds), name="stop-limit", daemon=True).start()


def _be_silent() -> None:
    with suppress(ValueError):  # forked in a thread that may not change it, and is no worker's
        signal.set_wakeup_fd(-1)


def _end_after(heard: int, seconds: float) -> None:
    while os.read(heard, 1)[0] not in _STOPS:
        pass
    time.sleep(seconds)
    # Not through logging: whatever hangs may hold its lock.
    os.write(2, f"worker.stop.overdue: ended after {seconds:g} s\n".encode())
    os._exit(EXIT_OVERDUE)


def watch_pool(
    contexts: "WorkerContexts", group: WorkerGroup, children: Children, *, share: Callable[[], object]
) -> None:
    """Open the context where jobs will run, before the first job comes, and close it at the end.

    ``children`` show life from the fork on. ``share`` loads what children of one parent can share; it must open no
    connection and start no thread.
    """

    def spread(**_: Any) -> None:
        # Loaded before the fork, 100 MB are there once instead of once in each child, and a new child starts at once.
        import_module("memcore.backends.mem0.backend")
        share()
        gc.collect()
        # Kept out of later collections, which would write to these pages and so copy them after all.
        gc.freeze()

    def arrive(**_: Any) -> None:
        contexts.connect()

    def begin(**_: Any) -> None:
        children.show_life()
        arrive()

    def leave(**_: Any) -> None:
        contexts.close()
        # A child ends without its exit handlers.
        tracing.flush()

    # weak=False: the signal would otherwise forget these closures as soon as this function returns.
    if group.pool == "prefork":
        defer_shutdown()
        signals.worker_init.connect(spread, weak=False)
        signals.worker_process_init.connect(begin, weak=False)
        signals.worker_process_shutdown.connect(leave, weak=False)
    else:
        if group.opens_early:
            signals.worker_init.connect(arrive, weak=False)
        signals.worker_shutdown.connect(leave, weak=False)


def watch_heartbeat(
    app: Celery, settings: Settings, group: WorkerGroup, children: Children, *, is_ready: Callable[[], bool]
) -> None:
    """Write the heartbeat from the event loop in which the worker takes its jobs, while they can begin (``is_ready``).

    A loop that hangs writes none, and neither does one that has lost its broker: Celery stops the step with the
    consumer and starts it again with the next. With each sign of life the frozen ``children`` are ended.
    """
    part = f"worker-{group.name}"
    heartbeat = Heartbeat.of(settings.home, part)
    signs = SignsOfLife(Heartbeat.alive(settings.home, part), beside=children.end_frozen)

    class HeartbeatStep(StartStopStep):  # type: ignore[misc]  # celery is untyped
        requires = ("celery.worker.consumer.tasks:Tasks",)
        _timer: Any = None

        def __init__(self, parent: Any, **options: Any) -> None:
            super().__init__(parent, **options)
            parent.on_alive = signs.show
            signs.start()

        def start(self, parent: Any) -> None:
            self._timer = parent.timer.call_repeatedly(BEAT_SECONDS, self._renew_until_end, (parent,))

        def stop(self, parent: Any) -> None:
            del parent
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        @staticmethod
        def _renew_until_end(consumer: Any) -> None:
            signs.show()
            if consumer.connection is not None and consumer.connection.connected:
                touch()

    def touch(**_: Any) -> None:
        if is_ready():
            touch_heartbeat(heartbeat)

    signals.worker_ready.connect(touch, weak=False)
    steps: Any = app.steps
    steps["consumer"].add(HeartbeatStep)


def touch_heartbeat(heartbeat: Heartbeat) -> None:
    """Touch the file; a folder that cannot be written must not stop the work."""
    _noted(heartbeat, heartbeat.touch)


def _noted(heartbeat: Heartbeat, write: Callable[[], None]) -> None:
    try:
        write()
    except OSError as error:
        log.warning(Event.HEARTBEAT_LOST, extra={"path": str(heartbeat.path), "error": type(error).__name__})


class SignsOfLife:
    """Touches a part's file while its main loop has been seen alive within LOOP_LIMIT_SECONDS, from a thread.

    The loop alone would not do: it waits minutes for a broker that takes connections and answers nothing.
    ``beside`` is called with each.
    """

    def __init__(
        self, alive: Heartbeat, *, pause_seconds: float = BEAT_SECONDS, beside: Callable[[], object] = bool
    ) -> None:
        self._alive = alive
        self._beside = beside
        self._pause_seconds = pause_seconds
        # Pauses are counted, not time: a process that was stopped as a whole, or a machine that slept, goes on.
        self._pauses = 0
        self._is_started = False

    def start(self) -> None:
        """Start the thread, once."""
        if not self._is_started:
            self._is_started = True
            process = psutil.Process()
            _noted(self._alive, lambda: self._alive.name_process(process.pid, process.create_time()))
            threading.Thread(target=self._run, name="signs-of-life", daemon=True).start()

    def show(self) -> None:
        """Say that the loop lives."""
        self._pauses = 0

    def _run(self) -> None:
        while True:
            if self._pauses * self._pause_seconds < LOOP_LIMIT_SECONDS:
                touch_heartbeat(self._alive)
            self._beside()
            self._pauses += 1
            time.sleep(self._pause_seconds)
