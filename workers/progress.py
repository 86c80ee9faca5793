"""Progress of long jobs, stored as the state of their Celery tasks; clients read it by job id."""

import logging
import time
from collections.abc import Callable
from functools import cached_property
from typing import Any

from celery import Celery
from celery.exceptions import BackendError, CeleryError
from kombu.exceptions import KombuError
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from memcore.client.publisher import PROGRESS
from memcore.config.settings import Settings
from memcore.jobs import ProgressCallback, no_progress
from memcore.telemetry.events import Event
from workers.broker import ANSWER_SECONDS, results_within

#: Least time between two progress reports of one job, in seconds.
PAUSE_SECONDS = 1.0

#: How long no progress is written after the result store failed, in seconds.
AWAY_SECONDS = 60.0

#: No wider: the signal that a job's time is over is an error too, and must get through.
AWAY = (OSError, BackendError, CeleryError, KombuError, RedisError, SQLAlchemyError)

_log = logging.getLogger("memtend.progress")


class TaskProgress:
    """Writes the progress of this process's jobs to the result store; while that is down, jobs go on without it."""

    def __init__(self, app: Celery, settings: Settings, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._app = app
        self._settings = settings
        self._clock = clock

    def of_this_job(self) -> ProgressCallback:
        """Return the progress callback of the job that this thread runs; other threads may call it."""
        task = self._app.current_worker_task
        if task is None or task.request.ignore_result:
            return no_progress
        job_id, quiet_until = str(task.request.id), self._clock()

        def on_progress(stage: str, fraction: float | None) -> None:
            nonlocal quiet_until
            if self._clock() < quiet_until:
                return
            try:
                self._backend.store_result(job_id, {"stage": str(stage), "fraction": fraction}, PROGRESS)
                quiet_until = self._clock() + PAUSE_SECONDS
            except AWAY as error:
                _log.warning(Event.PROGRESS_UNTOLD, extra={"job_id": job_id, "error": type(error).__name__})
                quiet_until = self._clock() + AWAY_SECONDS

        return on_progress

    @cached_property
    def _backend(self) -> Any:
        return results_within(self._settings, seconds=ANSWER_SECONDS)
