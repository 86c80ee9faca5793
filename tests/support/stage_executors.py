"""The executors of stages, for tests of all of them with faulty runners."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pytest

from memcore.config.finetune import FineTuneExecutionConfig
from memcore.finetune.execution.docker import COMPONENT, FINE_TUNE, DockerExecutor
from memcore.finetune.execution.docker_engine import docker_engine
from memcore.finetune.execution.process import ProcessExecutor
from memcore.finetune.execution.protocol import StageExecutor, StageJob, StageOutcome
from memcore.finetune.markers import LogLine, RunnerEvent
from memcore.finetune.runner_config import RunnerConfig, TrainingConfig
from memcore.models.finetune import FineTuneStage
from support import docker_engine_stub as docker_engines
from support.docker_engine_stub import StubEngine, stub_engine
from support.fake_runners import BODIES, fake_image, fake_python

#: The image of the stub engine that is the real runner.
REAL = "memtend-finetune:real"


class Place(Protocol):
    """Where stages run."""

    def executor(self, runner: str, *, grace: float) -> StageExecutor: ...

    def is_clean(self, stage: "Stage") -> bool:
        """Whether nothing of an ended stage runs."""
        ...


@dataclass
class Stage:
    """One run of a runner."""

    place: Place
    folder: Path
    runner: str
    seconds: float = 60.0
    grace: float = 10.0
    config: RunnerConfig | None = None
    said: list[RunnerEvent] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def run(self, cancelled: Callable[[], bool] = lambda: False) -> StageOutcome:
        return self.place.executor(self.runner, grace=self.grace).run(self.job(cancelled))

    def job(self, cancelled: Callable[[], bool] = lambda: False) -> StageJob:
        return StageJob(
            run_id="run-1",
            config=self.config or self.training(),
            timeout_seconds=self.seconds,
            born=self.names.append,
            on_event=self.said.append,
            cancelled=cancelled,
        )

    def training(self) -> TrainingConfig:
        triples = self.folder / "triples.jsonl"
        triples.touch()
        return TrainingConfig(
            stage=FineTuneStage.TRAINING, output_dir=str(self.folder / "out"), training_data_path=str(triples)
        )

    @property
    def children(self) -> list[int]:
        """The processes that the runner has started."""
        lines = [runner_event.text for runner_event in self.said if isinstance(runner_event, LogLine)]
        return [int(line.split()[1]) for line in lines if line.startswith("CHILD ")]


@dataclass
class OnThisMachine:
    """Stages as processes."""

    folder: Path

    def executor(self, runner: str, *, grace: float) -> StageExecutor:
        if runner == REAL:
            return ProcessExecutor(self.folder / "scratch", grace=grace)
        return ProcessExecutor(self.folder / "scratch", python=fake_python(self.folder, runner), grace=grace)

    def is_clean(self, stage: Stage) -> bool:
        groups = [int(name.split(":")[1]) for name in stage.names]
        return all(is_gone(pid) for pid in (*stage.children, *groups))


@dataclass
class InStubEngine:
    """Stages as what the stub engine takes for containers."""

    folder: Path
    engine: StubEngine

    def executor(self, runner: str, *, grace: float) -> StageExecutor:
        return DockerExecutor(self.folder / "scratch", in_containers(runner), grace=grace)

    def is_clean(self, stage: Stage) -> bool:
        return not self.engine.containers and all(is_gone(pid) for pid in stage.children)


@dataclass
class InEngine:
    """Stages as containers of a real engine."""

    folder: Path

    def executor(self, runner: str, *, grace: float) -> StageExecutor:
        image = os.environ[FINE_TUNE_IMAGE] if runner == REAL else fake_image(self.folder, runner)
        return DockerExecutor(self.folder / "scratch", in_containers(image), grace=grace)

    def is_clean(self, stage: Stage) -> bool:
        with docker_engine() as engine:
            label = f"{COMPONENT}={FINE_TUNE}"
            left = {each.id for each in engine.containers.list(all=True, filters={"label": label})}
        return not left & {name.partition(":")[2] for name in stage.names}


#: Names the image of the fine-tune runner for the tests with a real engine.
FINE_TUNE_IMAGE = "MEMTEND_TEST_FINE_TUNE_IMAGE"


def in_containers(image: str, **more: object) -> FineTuneExecutionConfig:
    # A copy checks nothing: an engine is told of limits that no policy would take.
    return FineTuneExecutionConfig(backend="docker", image=image).model_copy(update=more)


@contextmanager
def stub_place(folder: Path) -> Iterator[InStubEngine]:
    images = {name: [fake_python(folder, name)] for name in BODIES}
    with stub_engine({**images, REAL: docker_engines.RUNNER}) as engine, pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", engine.host)
        yield InStubEngine(folder, engine)


def is_gone(pid: int) -> bool:
    """Whether a process has ended, or is a zombie of a parent that is not ours."""
    for _ in range(200):
        try:
            state = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False
