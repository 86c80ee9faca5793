"""Writes heartbeats: from the event loop in which a worker takes its jobs, and from beat's ticks."""

import logging
from typing import Any

from celery.beat import Scheduler
from celery.bootsteps import StartStopStep

from workers.health import BEAT_SECONDS, Heartbeat

log = logging.getLogger("memtend.pulse")


def touch_heartbeat(heartbeat: Heartbeat) -> None:
    """Touch the file; a folder that cannot be written must not stop the work."""
    try:
        heartbeat.touch()
    except OSError as error:
        log.warning("heartbeat.lost", extra={"path": str(heartbeat.path), "error": type(error).__name__})


def worker_heartbeat(heartbeat: Heartbeat) -> type[StartStopStep]:
    """Return a consumer step that writes the heartbeat from the worker's event loop.

    A loop that hangs writes none, and neither does one that has lost its broker: Celery stops the step with the
    consumer and starts it again with the next.
    """

    class HeartbeatStep(StartStopStep):  # type: ignore[misc]  # celery is untyped
        requires = ("celery.worker.consumer.tasks:Tasks",)

        def __init__(self, parent: Any, **options: Any) -> None:
            super().__init__(parent, **options)
            self._timer: Any = None

        def start(self, parent: Any) -> None:
            self._timer = parent.timer.call_repeatedly(BEAT_SECONDS, self._renew_until_end, (parent,))

        def stop(self, parent: Any) -> None:
            del parent
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        @staticmethod
        def _renew_until_end(consumer: Any) -> None:
            if consumer.connection is not None and consumer.connection.connected:
                touch_heartbeat(heartbeat)

    return HeartbeatStep


def beat_scheduler(heartbeat: Heartbeat) -> type[Scheduler]:
    """Return beat's scheduler, which keeps its entries in memory and writes a heartbeat with every tick."""

    class HeartbeatScheduler(Scheduler):  # type: ignore[misc]  # celery is untyped
        def tick(self, *args: Any, **kwargs: Any) -> Any:
            pause_seconds = super().tick(*args, **kwargs)
            touch_heartbeat(heartbeat)
            return pause_seconds

    return HeartbeatScheduler
