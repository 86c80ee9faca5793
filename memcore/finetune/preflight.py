"""Preflight: seven checks before a run is started, each with a sentence, and what a measured step promises of it."""

import importlib.util
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Any

from memcore import errors
from memcore.config.finetune import FineTuneExecutionConfig
from memcore.errors import FineTuneDependencyError, FineTuneStageError, MemoryInputError
from memcore.finetune.checkpoint import STATIC, load_static
from memcore.finetune.dataset import PASSAGES
from memcore.finetune.documents import Triple, chunks, documents_of, passages_of
from memcore.finetune.encoder import is_here, load_model, needed
from memcore.finetune.sizing import Sizes, sizes_of
from memcore.models.base import Frozen
from memcore.models.finetune import FineTunePlan, Kind

#: Texts, and free bytes, below which a run is refused, and below which there is a warning.
FEWEST_TEXTS = 10
FEW_TEXTS = 50
LEAST_SPACE = 10**9
LITTLE_SPACE = 5 * 10**9

#: Texts that a step is measured with.
SAMPLE = 64


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
    """All checks, and what a measured step promises.

    Attributes:
        recommended_batch_size: the transformer's, or else the table's; None where no step was measured: without torch,
            with stages in containers, or where a check failed.
        estimates: of each kind, batch, pairs, seconds of training and bytes.
    """

    checks: tuple[PreflightCheck, ...]
    recommended_batch_size: int | None = None
    estimates: tuple[Sizes, ...] = ()

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
    sample: Callable[[int], Sequence[str]] = lambda _most: (),
) -> PreflightResult:
    """Check whether a run of a plan, or of its fields as somebody wrote them, can go well on this machine.

    ``memories`` takes how many are enough, and returns how many there are; ``sample`` returns at most so many texts.
    """
    try:
        plan = requested if isinstance(requested, FineTunePlan) else FineTunePlan.model_validate(dict(requested))
    except MemoryInputError as error:
        bounds = _check("override_bounds", _FAIL, str(error), "mend this field; nothing was started")
        return PreflightResult(checks=(bounds,))
    checks = (
        _dependencies(execution),
        _gpu(gpu_gib()),
        _documents(plan, memories),
        _disk(runs),
        _source_dir(plan),
        _output_dir(runs),
    )
    bounds = _bounds(plan, execution)
    is_measured = execution.backend != "docker" and all(each.status is not _FAIL for each in (*checks, bounds))
    found: tuple[Sizes, ...] = ()
    if is_measured:
        try:
            found = estimates(plan, _some_texts(plan, sample), texts=_texts(plan, memories))
        except FineTuneStageError as error:
            bounds = _check("override_bounds", _FAIL, str(error))
        except errors.MemoryError:
            # The run itself says what is wrong with a model, better than a guess here.
            found = ()
    if found:
        bounds = _sized_bounds(plan, found, execution)
    return PreflightResult(
        checks=(*checks, bounds),
        recommended_batch_size=found[-1].batch_size if found else None,
        estimates=found,
    )


def estimates(plan: FineTunePlan, some: Sequence[str], *, texts: int) -> tuple[Sizes, ...]:
    """Return what a training of each of the plan's kinds will take, by a step measured on this machine.

    Raises FineTuneStageError: the memory does not hold the least step. MemoryError: a base model cannot be loaded.
    """
    pairs = int(texts * plan.queries_per_passage * (1.0 - plan.validation_split))
    if len(some) < FEWEST_TEXTS or pairs < 2 or gpu_gib() is None:  # noqa: PLR2004  # the least that is trained on
        return ()
    passages = [chunk for text in some for chunk in chunks(text, words=plan.chunk_words)]
    rows = [
        Triple(
            query=" ".join(text.split()[:_QUERY_WORDS]), positive=text, negatives=(passages[place - 1],) * plan.top_k
        )
        for place, text in enumerate(passages)
    ]
    needed("torch").set_num_threads(plan.threads)
    return tuple(_estimate(plan, kind, rows, pairs) for kind in plan.kinds)


def _estimate(plan: FineTunePlan, kind: Kind, rows: list[Triple], pairs: int) -> Sizes:
    recipe = plan.recipe(kind)
    model = load_static() if kind == STATIC else load_model(plan.base_model)
    return sizes_of(
        model,
        # As many as there will be, for the batch: the texts of a sample come again and again.
        rows * (pairs // len(rows) + 1),
        kind=kind,
        batch_size=recipe.batch_size,
        pairs=min(pairs, recipe.max_pairs),
        temperature=plan.temperature,
        minutes=plan.minutes,
        epochs=plan.epochs,
    )


#: Words of a question, for the estimate.
_QUERY_WORDS = 10


def _some_texts(plan: FineTunePlan, sample: Callable[[int], Sequence[str]]) -> list[str]:
    found: list[str] = []
    if plan.source_dir is not None:
        every = passages_of(Path(plan.source_dir), chunk_words=plan.chunk_words)
        found += [passage.text for passage in islice(every, SAMPLE)]
    if plan.uses_memories:
        found += sample(SAMPLE)
    return found


def _texts(plan: FineTunePlan, memories: Callable[[int], int]) -> int:
    """Return about how many texts there are; documents are cut into passages, which are counted."""
    found = 0
    if plan.source_dir is not None:
        every = passages_of(Path(plan.source_dir), chunk_words=plan.chunk_words)
        found = sum(1 for _ in islice(every, PASSAGES))
    return found + (memories(PASSAGES) if plan.uses_memories else 0)


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


def _bounds(plan: FineTunePlan, execution: FineTuneExecutionConfig) -> PreflightCheck:
    if plan.base_model is not None and plan.kind != STATIC and not _is_found(plan.base_model, execution):
        return _check("override_bounds", _FAIL, "base_model: names no model on this machine")
    if plan.minutes * 60.0 > execution.timeout_seconds:
        message = f"minutes is {plan.minutes:g}, and a stage ends after {execution.timeout_seconds / 60.0:g}"
        return _check("override_bounds", _WARN, message, "raise memory.fine_tune.timeout_seconds, or lower --minutes")
    return _check("override_bounds", _PASS, "every value is within its limits")


def _sized_bounds(plan: FineTunePlan, found: Sequence[Sizes], execution: FineTuneExecutionConfig) -> PreflightCheck:
    for each in found:
        batch = plan.recipe(each.kind).batch_size
        if each.batch_size < min(batch, each.wanted):
            message = (
                f"a batch of {batch} is too large for {each.free_bytes / 2**30:.1f} GiB: {each.batch_size} are used"
            )
            return _check("override_bounds", _WARN, message, "a run does so by itself; more memory holds more")
    for each in found:
        if each.pairs < each.wanted:
            message = f"in {plan.minutes:g} minutes {each.kind} trains on {each.pairs} of {each.wanted} pairs"
            return _check("override_bounds", _WARN, message, "raise --minutes, or --threads")
    return _bounds(plan, execution)


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
