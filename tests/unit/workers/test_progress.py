"""Progress of long jobs: written seldom, and never at the job's cost."""

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from celery.exceptions import SoftTimeLimitExceeded
from redis.exceptions import ConnectionError as RedisLostError

from memcore.config.settings import Settings
from memcore.jobs import no_progress
from workers.progress import AWAY_SECONDS, PAUSE_SECONDS, TaskProgress


class Results:
    """A result store."""

    def __init__(self) -> None:
        self.kept: list[tuple[Any, ...]] = []
        self.error: Exception | None = None

    def store_result(self, *written: object) -> None:
        if self.error is not None:
            raise self.error
        self.kept.append(written)


class ProgressJob:
    """A job that reports its progress, at times that the test sets."""

    def __init__(self, home: Path, results: Results | None = None, *, ignore_result: bool = False) -> None:
        request = SimpleNamespace(id="job-1", ignore_result=ignore_result)
        app: Any = SimpleNamespace(current_worker_task=SimpleNamespace(request=request))
        settings = Settings(
            broker_url="redis://127.0.0.1:9/0", database_url="sqlite://", qdrant_url="http://127.0.0.1:9", home=home
        )
        self.seconds = 0.0
        self.progress = TaskProgress(app, settings, clock=lambda: self.seconds)
        if results is not None:
            self.progress._backend = results
        self.on_progress = self.progress.of_this_job()


def test_a_word_a_second_is_kept(tmp_path: Path) -> None:
    results = Results()
    job = ProgressJob(tmp_path, results)
    for number in range(5):
        job.on_progress("training", number / 4)
        job.seconds += PAUSE_SECONDS / 2
    assert results.kept == [
        ("job-1", {"stage": "training", "fraction": fraction}, "PROGRESS") for fraction in (0.0, 0.5, 1.0)
    ]


def test_a_result_store_that_is_away_is_told_of_once_and_left_alone_for_a_while(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    results = Results()
    results.error = RedisLostError("gone")
    job = ProgressJob(tmp_path, results)
    for _ in range(3):
        job.on_progress("training", 0.5)
        job.seconds += PAUSE_SECONDS
    assert [(record.levelno, record.message) for record in caplog.records] == [(logging.WARNING, "progress.untold")]
    results.error = None
    job.seconds += AWAY_SECONDS
    job.on_progress("training", 0.75)
    assert len(results.kept) == 1


def test_a_result_store_that_nobody_runs_harms_no_job(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ProgressJob(tmp_path).on_progress("training", 0.5)
    assert "progress.untold" in caplog.messages


def test_the_signal_that_a_jobs_time_is_over_gets_through(tmp_path: Path) -> None:
    results = Results()
    results.error = SoftTimeLimitExceeded()
    with pytest.raises(SoftTimeLimitExceeded):
        ProgressJob(tmp_path, results).on_progress("training", 0.5)


def test_a_job_whose_outcome_nobody_keeps_tells_nobody(tmp_path: Path) -> None:
    assert ProgressJob(tmp_path, ignore_result=True).on_progress is no_progress
