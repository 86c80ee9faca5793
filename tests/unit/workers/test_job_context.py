"""What the worker context passes on to its services."""

from typing import Any

import pytest

from memcore.event_loop import LoopThread
from memcore.jobs import ProgressCallback
from workers import context as manning
from workers.context import WorkerContext


class Service:
    """A service that reports its own name."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def run(self, *_: object, on_progress: ProgressCallback) -> str:
        on_progress(self.name, 0.5)
        return self.name


class Stages:
    """The service of fine-tune runs, which needs no loop."""

    def run(self, _run_id: str, *, on_progress: ProgressCallback) -> str:
        on_progress("stage", 0.5)
        return "stage"


def test_long_jobs_are_given_somebody_to_tell_how_far_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    progress: list[tuple[str, float | None]] = []
    job_context: Any = object.__new__(WorkerContext)
    job_context._progress_of = lambda: lambda stage, fraction: progress.append((stage, fraction))
    job_context._loop, job_context._reindex_target = LoopThread("test"), object()
    job_context._finetune, job_context._cycles = Stages(), Service("cycle")
    job_context.ledger = job_context.company = job_context.clock = None
    monkeypatch.setattr(manning, "ReindexService", lambda *_, **__: Service("reindex"))
    assert [job_context.finetune("r"), job_context.evolve("c"), job_context.reindex()] == ["stage", "cycle", "reindex"]
    assert progress == [("stage", 0.5), ("cycle", 0.5), ("reindex", 0.5)]
    job_context._loop.close()
