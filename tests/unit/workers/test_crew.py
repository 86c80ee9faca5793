"""What the crew of a process hands on to the services behind it."""

from typing import Any

import pytest

from memcore.event_loop import LoopThread
from memcore.jobs.outcomes import Tell
from workers import context as manning
from workers.context import WorkerCrew


class Service:
    """A service that tells its own name."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def run(self, *_: object, tell: Tell) -> str:
        tell(self.name, 0.5)
        return self.name


class Stages:
    """The service of fine-tune runs, which needs no loop."""

    def run(self, _run_id: str, *, tell: Tell) -> str:
        tell("stage", 0.5)
        return "stage"


def test_long_jobs_are_given_somebody_to_tell_how_far_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, float | None]] = []
    crew: Any = object.__new__(WorkerCrew)
    crew._telling = lambda: lambda stage, fraction: told.append((stage, fraction))
    crew._loop, crew._mirror = LoopThread("test"), object()
    crew._finetune, crew._cycles = Stages(), Service("cycle")
    crew.ledger = crew.company = crew.clock = None
    monkeypatch.setattr(manning, "ReindexService", lambda *_, **__: Service("reindex"))
    assert [crew.finetune("r"), crew.evolve("c"), crew.reindex()] == ["stage", "cycle", "reindex"]
    assert told == [("stage", 0.5), ("cycle", 0.5), ("reindex", 0.5)]
    crew._loop.close()
