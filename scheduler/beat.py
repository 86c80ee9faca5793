"""The static schedule: a few entries, none of them an agent's."""

from typing import Any

from celery.schedules import schedule as every

from memcore.config.settings import Settings
from memcore.jobs.names import TaskName
from memcore.jobs.queues import Queue

#: A control job that waited longer than this share of its interval is dropped: the next one does its work.
_EXPIRY_SHARE = 1.5


def schedule(settings: Settings) -> dict[str, dict[str, Any]]:
    """Return beat's entries: a tick and a sweep, each with an expiry, so that a stopped worker finds no backlog."""
    return {
        str(name): {
            "task": str(name),
            "schedule": every(run_every=seconds),
            "options": {"queue": str(Queue.CONTROL), "expires": seconds * _EXPIRY_SHARE, "ignore_result": True},
        }
        for name, seconds in (
            (TaskName.TICK, settings.tick_seconds),
            (TaskName.SWEEP, settings.sweep_seconds),
        )
    }
