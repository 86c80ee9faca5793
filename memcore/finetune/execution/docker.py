"""Runs a stage in a locked-down container: it sees its own files alone, may only compute, and is always removed."""

import contextlib
import logging
import os
import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memcore.config.finetune import FineTuneExecutionConfig
from memcore.errors import FineTuneDependencyError, FineTuneStageError, MemoryInputError
from memcore.finetune.documents import write_text
from memcore.finetune.execution.docker_engine import Frames, docker_engine, docker_errors, docker_library
from memcore.finetune.execution.protocol import GRACE, POLL, RunnerOutput, StageEnd, StageJob, StageOutcome
from memcore.finetune.runner_config import DEFAULT_CONFIG, RunnerConfig, checked_config
from memcore.telemetry.events import Event

#: Where the container sees the documents, the folder of each run, and all else that the stage reads.
DATA = "/data"
CHECKPOINTS = "/checkpoints"
INPUTS = "/inputs"

#: The fields that name a stage's inputs.
_READ = ("source_dir", "passages_path", "training_data_path", "validation_data_path", "checkpoint_path", "base_model")

#: Characters allowed in a path of a container.
_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind:
    """A file or folder of this machine (``source``, without links), mounted in the container as ``target``."""

    source: Path
    target: str
    is_writable: bool = False

    def inside(self, path: Path) -> str:
        """Return the container's path of a path at or below the source."""
        below = path.relative_to(self.source).as_posix()
        return self.target if below == "." else f"{self.target}/{below}"


def inside_container(run_id: str, config: RunnerConfig) -> tuple[RunnerConfig, tuple[Bind, ...]]:
    """Return a configuration with the container's paths, and the mounts behind them.

    Documents go to ``/data`` and the output, made if missing, to ``/checkpoints/<run>``; files in that output are found
    there, and every other input gets a place of its own. A base model that is no folder here is a name there.
    Raises MemoryInputError: the run's id cannot stand in a path, or an input is missing.
    """
    if not _RUN.fullmatch(run_id):
        raise MemoryInputError("run_id", "must be letters, digits, dots, dashes and underscores, 128 at most")
    fields = config.model_dump(mode="json")
    binds: list[Bind] = []
    if "output_dir" in fields:
        folder = Path(fields["output_dir"]).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        binds.append(Bind(source=folder, target=f"{CHECKPOINTS}/{run_id}", is_writable=True))
        fields["output_dir"] = binds[0].target
    for field in _READ:
        path = fields.get(field)
        if path is None or (field == "base_model" and not Path(path).is_dir()):
            continue
        source = Path(path).resolve()
        if not source.exists():
            raise MemoryInputError(field, "names nothing that is there")
        if field == "source_dir":
            # Also where it lies in the output: no stage changes documents.
            bind = Bind(source=source, target=DATA)
        else:
            around = (bind for bind in binds if source.is_relative_to(bind.source))
            bind = next(around, Bind(source=source, target=f"{INPUTS}/{field}/{source.name}"))
        if bind not in binds:
            binds.append(bind)
        fields[field] = bind.inside(source)
    return checked_config(fields), tuple(binds)


#: The label of our containers that says what for.
COMPONENT = "memtend.component"
FINE_TUNE = "fine-tune"

#: Most processes and threads of a stage, and its scratch space, in memory.
PIDS = 256
TMPFS = {"/tmp": "rw,nosuid,nodev,size=1g,mode=1777"}  # noqa: S108  # the container's own

#: How long the engine may take to say how an ended container ended, in seconds.
_ENDED = 10

#: Exit codes from here on say which signal ended the runner.
_SIGNALLED = 128

_log = logging.getLogger(__name__)


class DockerExecutor:
    """Runs stages in containers of an image that the engine must have; its entry point is the stage runner.

    The engine must be able to mount the scratch folder.
    """

    def __init__(self, scratch: Path, config: FineTuneExecutionConfig, *, grace: float = GRACE) -> None:
        self._scratch = scratch
        self._config = config
        self._grace = grace

    def run(self, job: StageJob) -> StageOutcome:
        """Carry out a stage."""
        try:
            translated, binds = inside_container(job.run_id, job.config)
            self._scratch.mkdir(parents=True, exist_ok=True)
            config = self._scratch.resolve() / f"{job.config.stage}.container.json"
            write_text(config, translated.model_dump_json())
        except MemoryInputError as error:
            return _failed(job, str(error))
        except OSError as error:
            return _failed(job, error.strerror or type(error).__name__)
        try:
            with docker_engine() as engine:
                return self._ran(engine, job, self._options(job, binds, config))
        except (FineTuneDependencyError, FineTuneStageError) as error:
            return _failed(job, str(error))

    def _ran(self, engine: Any, job: StageJob, options: Mapping[str, Any]) -> StageOutcome:
        _remove_former(engine, job)
        output = RunnerOutput(job)
        try:
            container = engine.containers.create(self._config.image, **options)
        except docker_library().errors.ImageNotFound:
            image = self._config.image
            raise FineTuneStageError(f"the engine has no image {image}: docker pull it, or build it") from None
        try:
            job.born(f"container:{container.id}")
            # Before it runs, so that no output is missed.
            socket = container.attach_socket(params={"stdout": 1, "stderr": 1, "stream": 1})
            with contextlib.closing(Frames(socket)) as frames:
                container.start()
                stopped = output.follow(
                    lambda: None if frames.is_over else frames.read(POLL),
                    lambda number: _signal(container, number),
                    grace=self._grace,
                )
            output.end()
            return self._ended(container, job, output) if stopped is None else stopped
        finally:
            try:
                _remove(container)
            except docker_errors() as error:
                # This does not change the stage's outcome.
                _log.warning(Event.FINE_TUNE_CONTAINER_LEFT, extra={"id": container.id, "error": type(error).__name__})

    def _ended(self, container: Any, job: StageJob, output: RunnerOutput) -> StageOutcome:
        # Its outputs ended with it; otherwise the engine has lost it, and takes too long to answer.
        code = int(container.wait(timeout=_ENDED)["StatusCode"])
        container.reload()
        if container.attrs["State"].get("OOMKilled"):
            reason = f"{job.config.stage} took more memory than memory_limit allows, {self._config.memory_limit}"
            return StageOutcome(end=StageEnd.FAILED, reason=reason)
        return output.outcome(_SIGNALLED - code if code > _SIGNALLED else code)

    def _options(self, job: StageJob, binds: Sequence[Bind], config: Path) -> dict[str, Any]:
        types = docker_library().types
        mounts = [(str(bind.source), bind.target, not bind.is_writable) for bind in binds]
        mounts.append((str(config), str(DEFAULT_CONFIG), True))
        gpus = [types.DeviceRequest(count=-1, capabilities=[["gpu"]])] if self._config.gpu_enabled else None
        return {
            # So its files belong to the user of this process.
            "user": f"{os.getuid()}:{os.getgid()}",
            "mounts": [types.Mount(target, source, type="bind", read_only=only) for source, target, only in mounts],
            "environment": {"HOME": "/tmp"},  # noqa: S108  # the container's own
            "labels": _labels(job),
            "mem_limit": self._config.memory_limit,
            "memswap_limit": self._config.memory_limit,
            "device_requests": gpus,
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges:true"],
            "read_only": True,
            "tmpfs": TMPFS,
            "pids_limit": PIDS,
            "network_mode": "none",
            # The init process passes signals on to the runner, and reaps its orphans.
            "init": True,
            # The output is read as it comes; it is stored nowhere, so that it fills no disk.
            "log_config": types.LogConfig(type="none"),
        }


def end_container(name: str) -> bool:
    """Remove the container of that name, running or not; return whether there was one of ours."""
    kind, _, found = name.partition(":")
    if kind != "container" or not found:
        return False
    with docker_engine() as engine:
        try:
            container = engine.containers.get(found)
        except docker_library().errors.NotFound:
            return False
        if container.labels.get(COMPONENT) != FINE_TUNE:
            return False
        _remove(container)
    return True


def _failed(job: StageJob, reason: str) -> StageOutcome:
    return StageOutcome(end=StageEnd.FAILED, reason=f"{job.config.stage}: {reason}")


def _labels(job: StageJob) -> dict[str, str]:
    about = {"memtend.run_id": job.run_id, "memtend.stage": str(job.config.stage)}
    return {"memtend.managed": "true", COMPONENT: FINE_TUNE, **about}


def _remove_former(engine: Any, job: StageJob) -> None:
    """Remove what an executor left when it died between making a container and naming it."""
    labels = [f"{name}={value}" for name, value in _labels(job).items()]
    for container in engine.containers.list(all=True, filters={"label": labels}, ignore_removed=True):
        _remove(container)


def _remove(container: Any) -> None:
    with contextlib.suppress(docker_library().errors.NotFound):
        container.remove(force=True, v=True)


def _signal(container: Any, number: signal.Signals) -> None:
    errors = docker_library().errors
    try:
        container.kill(signal=number.name)
    except errors.NotFound:
        return
    except errors.APIError as error:
        # It has ended meanwhile.
        if error.status_code != 409:  # noqa: PLR2004  # conflict
            raise
