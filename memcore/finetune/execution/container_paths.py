"""A stage's files as its container sees them: what it reads is read-only, and one folder is its own."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from memcore.errors import MemoryInputError
from memcore.finetune.execution.protocol import StageJob
from memcore.finetune.runner_config import RunnerConfig, checked_config

#: Where the documents lie.
DATA = "/data"

#: Where the folder of each run lies.
CHECKPOINTS = "/checkpoints"

#: Where all else lies that the stage reads.
INPUTS = "/inputs"

#: What a stage may be told to read.
_READ = (
    "source_dir",
    "passages_path",
    "training_data_path",
    "validation_data_path",
    "checkpoint_path",
    "base_model",
)

#: What may stand in the path of a container.
_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind:
    """A file or folder of this machine in the container.

    Attributes:
        source: here, without links.
        target: there.
        is_writable: whether the stage may write in it.
    """

    source: Path
    target: str
    is_writable: bool = False

    def inside(self, path: Path) -> str:
        """Return where a path at or below the source lies in the container."""
        below = path.relative_to(self.source).as_posix()
        return self.target if below == "." else f"{self.target}/{below}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerPaths:
    """What a container is told, and what it sees.

    Attributes:
        config: with the paths of the container.
        binds: what lies behind them.
    """

    config: RunnerConfig
    binds: tuple[Bind, ...]

    @classmethod
    def of(cls, job: StageJob) -> "ContainerPaths":
        """Translate a job's paths; the folder of its output is made if it is missing.

        Documents go to ``/data`` and the output to ``/checkpoints/<run>``; what lies in that output is found there, and
        all else that is read gets a place of its own. A base model that is no folder here is a name there.

        Raises:
            MemoryInputError: run_id: it cannot stand in a path; or the stage is told of something that is not there.
        """
        if not _RUN.fullmatch(job.run_id):
            raise MemoryInputError("run_id", "must be letters, digits, dots, dashes and underscores, 128 at most")
        told = job.config.model_dump(mode="json")
        binds = list(_output(told.get("output_dir"), job.run_id))
        for field in _READ:
            path = told.get(field)
            if path is None or (field == "base_model" and not Path(path).is_dir()):
                continue
            source = Path(path).resolve()
            if not source.exists():
                raise MemoryInputError(field, "names nothing that is there")
            bind = _bind_of(field, source, binds)
            if bind not in binds:
                binds.append(bind)
            told[field] = bind.inside(source)
        if binds and binds[0].is_writable:
            told["output_dir"] = binds[0].target
        return cls(config=checked_config(told), binds=tuple(binds))


def _output(output_dir: str | None, run_id: str) -> Iterator[Bind]:
    if output_dir is not None:
        folder = Path(output_dir).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        yield Bind(source=folder, target=f"{CHECKPOINTS}/{run_id}", is_writable=True)


def _bind_of(field: str, source: Path, binds: list[Bind]) -> Bind:
    if field == "source_dir":
        # Also where it lies in the output: no stage changes documents.
        return Bind(source=source, target=DATA)
    around = (bind for bind in binds if source.is_relative_to(bind.source))
    return next(around, Bind(source=source, target=f"{INPUTS}/{field}/{source.name}"))
