"""Celery beat: ``workers.beat`` sends the static schedule and stores nothing: the ledger knows who is due."""

import logging
import os
import sys
from datetime import UTC, datetime
from typing import Any

from celery.beat import Scheduler
from celery.schedules import schedule as every

from memcore.config.loader import effective_policy
from memcore.config.settings import Settings
from memcore.jobs import BasePayload, CanaryPayload, ExpirePayload, SweepPayload, TickPayload
from memcore.operational import report_error
from memcore.telemetry import tracing
from memcore.telemetry.events import Event
from workers.broker import RECONNECTING, broker_app
from workers.health import Heartbeat
from workers.lifecycle import SignsOfLife, end_within, touch_heartbeat
from workers.logs import set_up_logs

#: A control job that waited longer than this share of its interval is dropped: the next one does its work.
_EXPIRY_SHARE = 1.5

#: Seconds between two canaries of a company.
CANARY_SECONDS = 60.0

#: Seconds between two deletions of old rows, which are kept for days.
EXPIRE_SECONDS = 3600.0

#: When expiry and canary ran last: beat keeps no state, so they are due at each start, however short the stack's days.
_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)

log = logging.getLogger("memtend.pulse")


def schedule(settings: Settings) -> dict[str, dict[str, Any]]:
    """Return beat's entries, each with an expiry, so that a stopped worker finds no backlog."""
    return {
        TickPayload.task: _entry(TickPayload, settings.tick_seconds),
        SweepPayload.task: _entry(SweepPayload, settings.sweep_seconds),
        # At once: until the first one is found nobody knows whether the path works.
        CanaryPayload.task: {**_entry(CanaryPayload, CANARY_SECONDS), "last_run_at": _LONG_AGO},
        ExpirePayload.task: {**_entry(ExpirePayload, EXPIRE_SECONDS), "last_run_at": _LONG_AGO},
    }


def _entry(payload: type[BasePayload], seconds: float) -> dict[str, Any]:
    return {
        "task": payload.task,
        "schedule": every(run_every=seconds),
        "options": {"queue": str(payload.queue), "expires": seconds * _EXPIRY_SHARE, "ignore_result": True},
    }


def scheduler_of(settings: Settings) -> type[Scheduler]:
    """Return beat's scheduler, which writes a heartbeat below the settings' folder."""
    heartbeat, signs = Heartbeat.of(settings.home, "beat"), SignsOfLife(Heartbeat.alive(settings.home, "beat"))

    class HeartbeatScheduler(Scheduler):  # type: ignore[misc]  # celery is untyped
        """Keeps its entries in memory, and writes a heartbeat with every tick."""

        def tick(self, *args: Any, **kwargs: Any) -> Any:
            signs.start()
            signs.show()
            pause_seconds = super().tick(*args, **kwargs)
            touch_heartbeat(heartbeat)
            return pause_seconds

        def _ensure_connected(self) -> Any:
            # Celery's own shows no life while it waits for its broker.
            def on_error(error: Exception, _seconds: float) -> None:
                log.warning(Event.BEAT_BROKER_AWAY, extra={"error": type(error).__name__})

            most = self.app.conf.broker_connection_max_retries
            return self.connection.ensure_connection(on_error, most, callback=signs.show, **RECONNECTING)

        def adjust(self, n: Any, drift: float = 0.0) -> Any:
            # Celery's own ends each pause 10 ms early, and then looks again and again until an entry is due.
            return super().adjust(n, drift)

    return HeartbeatScheduler


def main() -> int:
    """Run beat until it is told to stop; return its exit code."""
    try:
        settings = Settings.load(os.environ)
        set_up_logs(settings)
        tracing.start(settings.traces, service="beat")
        effective_policy(settings.policy_path)  # beat refuses an invalid one like every part beside it
        app = broker_app(settings)
    except Exception as error:  # noqa: BLE001  # a defect is raised again
        return report_error(error)
    app.conf.beat_schedule = schedule(settings)
    end_within()
    app.Beat(
        scheduler=scheduler_of(settings),
        loglevel=logging.getLogger().level,
        quiet=True,
        redirect_stdouts=False,
        logfile=None,
    ).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
