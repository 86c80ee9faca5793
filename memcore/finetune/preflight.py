"""Preflight: seven checks before a run is started, each with a sentence, and the batch size that the GPU holds."""

import importlib.util
import os
import shutil
from collections.abc import Callable, Mapping
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Any

from memcore.config.finetune import FineTuneExecutionConfig
from memcore.errors import FineTuneDependencyError, MemoryInputError
from memcore.finetune.documents import documents_of
from memcore.finetune.encoder import is_here, needed
from memcore.models.base import Frozen
from memcore.models.finetune import FineTunePlan

#: Texts, and free bytes, below which a run is refused, and below which there is a warning.
FEWEST_TEXTS = 10
FEW_TEXTS = 50
LEAST_SPACE = 10**9
LITTLE_SPACE = 5 * 10**9

#: GiB of a GPU's memory, and the batch that it holds.
_BATCHES = ((40.0, 128), (16.0, 64), (8.0, 32), (0.0, 16))


class PreflightStatus(StrEnum):
    """What a check says."""

    PASS = "pass"  # noqa: S105  # no password
    WARN = "warn"
    FAIL = "fail"


_PASS, _WARN, _FAIL = PreflightStatus


class PreflightCheck(Frozen):
    """What one check found, in one sentence, and what to do about it; None where nothing is to be done."""

    name: str
    status: PreflightStatus
    message: str
    detail: str | None = None


class PreflightResult(Frozen):
    """All checks, and the batch size that the machine holds; None without torch."""

    checks: tuple[PreflightCheck, ...]
    recommended_batch_size: int | None = None

    @property
    def can_proceed(self) -> bool:
        """Whether no check failed."""
        return all(check.status is not PreflightStatus.FAIL for check in self.checks)


def preflight(
    requested: FineTunePlan | Mapping[str, Any],
    *,
    runs: Path,
    memories: Callable[[int], int],
    execution: FineTuneExecutionConfig,
) -> PreflightResult:
    """Check whether a run of a plan, or of its fields as somebody wrote them, can go well on this machine.

    ``memories`` takes how many are enough, and returns how many there are.
    """
    try:
        plan = requested if isinstance(requested, FineTunePlan) else FineTunePlan.model_validate(dict(requested))
    except MemoryInputError as error:
        bounds = _check("override_bounds", _FAIL, str(error), "mend this field; nothing was started")
        return PreflightResult(checks=(bounds,))
    gib = gpu_gib()
    batch = None if gib is None else next(size for least, size in _BATCHES if gib >= least)
    checks = (
        _dependencies(execution),
        _gpu(gib),
        _documents(plan, memories),
        _disk(runs),
        _source_dir(plan),
        _output_dir(runs),
        _bounds(plan, batch, execution),
    )
    return PreflightResult(checks=checks, recommended_batch_size=batch)


def _check(name: str, status: PreflightStatus, message: str, detail: str | None = None) -> PreflightCheck:
    return PreflightCheck(name=name, status=status, message=message, detail=detail)


def _dependencies(execution: FineTuneExecutionConfig) -> PreflightCheck:
    in_container = execution.backend == "docker"
    names, extra = (("docker",), "docker") if in_container else (("torch", "sentence_transformers"), "finetune")
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        found = f"{' and '.join(missing)} cannot be imported on this machine"
        return _check("dependencies", _FAIL, found, f"pip install 'memtend[{extra}]'")
    seen = f"stages run in {execution.image}" if in_container else "torch and sentence-transformers are there"
    return _check("dependencies", _PASS, seen)


def _gpu(gib: float | None) -> PreflightCheck:
    if not gib:
        return _check("gpu", _WARN, "no GPU is seen", "the CPU trains too, and takes longer")
    return _check("gpu", _PASS, f"a GPU with {gib:.0f} GiB is seen")


def _documents(plan: FineTunePlan, memories: Callable[[int], int]) -> PreflightCheck:
    found = 0
    if plan.source_dir is not None and Path(plan.source_dir).is_dir():
        found = sum(1 for _ in islice(documents_of(Path(plan.source_dir)), FEW_TEXTS))
    if plan.uses_memories and found < FEW_TEXTS:
        found += memories(FEW_TEXTS)
    if found < FEWEST_TEXTS:
        message = f"{found} documents and memories; it takes {FEWEST_TEXTS}"
        return _check("documents", _FAIL, message, "name a folder with more of them as source_dir")
    if found < FEW_TEXTS:
        message = f"{found} documents and memories are few"
        return _check("documents", _WARN, message, "what is measured on them is uncertain")
    return _check("documents", _PASS, f"{FEW_TEXTS} documents and memories, or more")


def _disk(runs: Path) -> PreflightCheck:
    free = shutil.disk_usage(_existing(runs)).free
    message = f"{free / 10**9:.1f} GB are free"
    if free < LEAST_SPACE:
        return _check("disk", _FAIL, message, f"it takes {LEAST_SPACE / 10**9:.0f} GB in {runs}")
    if free < LITTLE_SPACE:
        return _check("disk", _WARN, message, "a large model may not find room")
    return _check("disk", _PASS, message)


def _source_dir(plan: FineTunePlan) -> PreflightCheck:
    if plan.source_dir is None:
        return _check("source_dir_exists", _PASS, "no folder is needed: the fleet's own texts are used")
    if not Path(plan.source_dir).is_dir():
        return _check("source_dir_exists", _FAIL, "source_dir: names no folder on this machine")
    return _check("source_dir_exists", _PASS, "the folder is there")


def _output_dir(runs: Path) -> PreflightCheck:
    if not os.access(_existing(runs), os.W_OK | os.X_OK):
        return _check("output_dir_writable", _FAIL, f"{runs} cannot be written to")
    return _check("output_dir_writable", _PASS, f"{runs} can be written to")


def _bounds(plan: FineTunePlan, batch: int | None, execution: FineTuneExecutionConfig) -> PreflightCheck:
    if plan.base_model is not None and plan.kind == "transformer" and not _is_found(plan.base_model, execution):
        return _check("override_bounds", _FAIL, "base_model: names no model on this machine")
    if plan.kind == "transformer" and batch is not None and plan.batch_size > batch:
        message = f"batch_size is {plan.batch_size}, and this machine holds about {batch}"
        return _check("override_bounds", _WARN, message, f"--batch-size {batch}")
    return _check("override_bounds", _PASS, "every value is within its limits")


def _is_found(base_model: str, execution: FineTuneExecutionConfig) -> bool:
    if execution.backend == "docker" and not Path(base_model).is_absolute():
        return True  # the image may carry it
    try:
        return is_here(base_model)
    except FineTuneDependencyError:
        return True  # another check says so


def _existing(path: Path) -> Path:
    return path if path.exists() or path == path.parent else _existing(path.parent)


def gpu_gib() -> float | None:
    """Return the GPU's memory, 0 without one; None without torch."""
    if importlib.util.find_spec("torch") is None:
        return None
    torch = needed("torch")
    if not torch.cuda.is_available():
        return 0.0
    return float(torch.cuda.get_device_properties(0).total_memory) / 2**30
