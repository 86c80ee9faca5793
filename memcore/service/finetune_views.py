"""What is shown of fine-tune runs, checkpoints and what serves."""

from typing import Any, Self

from memcore.finetune.preflight import PreflightCheck
from memcore.finetune.sizing import Sizes
from memcore.ledger.collections import Checkpoint, CollectionPointer, CollectionUse, Verdict
from memcore.ledger.finetune_runs import FineTuneRun
from memcore.models.base import Frozen, View
from memcore.models.finetune import FineTuneStage
from memcore.models.memory import BoundedTime


class FineTuneRunView(Frozen):
    """A fine-tune run: without the machine and the lease of its worker.

    Attributes:
        progress: of the stage in work, 0 to 1; None while none is reported.
        error: why it failed, or was cancelled.
        waits_for_a_worker: whether no worker has claimed it.
        plan: what it is to do.
    """

    run_id: str
    stage: FineTuneStage
    progress: float | None
    error: str | None
    stages_completed: tuple[FineTuneStage, ...]
    waits_for_a_worker: bool
    cancel_requested_at: BoundedTime | None
    started_at: BoundedTime
    updated_at: BoundedTime
    completed_at: BoundedTime | None
    duration_seconds: float | None
    plan: dict[str, Any]

    @classmethod
    def of(cls, run: FineTuneRun) -> Self:
        """Return what is shown of a run."""
        made = {
            "error": run.reason,
            "waits_for_a_worker": not run.stage.is_end and run.token is None,
            "completed_at": run.finished_at,
            "duration_seconds": None if run.duration is None else run.duration.total_seconds(),
        }
        return cls(**{name: getattr(run, name) for name in cls.model_fields if name not in made}, **made)


class FineTuneRuns(Frozen):
    """A page of runs, newest first, and how many there are in all."""

    items: tuple[FineTuneRunView, ...]
    total: int

    @classmethod
    def of(cls, page: tuple[tuple[FineTuneRun, ...], int]) -> Self:
        """Return what is shown of a page."""
        return cls(items=tuple(map(FineTuneRunView.of, page[0])), total=page[1])


class CheckpointView(Frozen):
    """A checkpoint: without its place on a disk.

    Attributes:
        verdict: what the gate says of it.
        reason: why.
        report: the gate's figures, without texts.
        use: whether it serves, is being filled, or is kept for going back.
    """

    checkpoint_id: str
    run_id: str
    kind: str
    base_model: str
    dims: int
    sha256: str
    size_bytes: int
    doc_count: int
    report: dict[str, Any]
    verdict: Verdict
    reason: str
    created_at: BoundedTime
    use: CollectionUse | None

    @classmethod
    def of(cls, checkpoint: Checkpoint, pointer: CollectionPointer | None = None) -> Self:
        """Return what is shown of a checkpoint."""
        shown = {name: getattr(checkpoint, name) for name in cls.model_fields if name != "use"}
        return cls(**shown, use=None if pointer is None else pointer.use_of(checkpoint))


class Checkpoints(Frozen):
    """A page of checkpoints, newest first, and how many there are in all."""

    items: tuple[CheckpointView, ...]
    total: int


class ServingView(Frozen):
    """What serves a company, and what is being filled or kept.

    Attributes:
        current: the collection that is searched; ``current_checkpoint_id`` is of the checkpoint that filled it.
        target: the collection that is being filled to become the current one.
        previous: the collection that is kept for going back.
        phase: how far the switch is; None where none is under way.
    """

    version: int
    current: str
    current_checkpoint_id: str | None
    target: str | None
    target_checkpoint_id: str | None
    previous: str | None
    phase: str | None

    @classmethod
    def of(cls, pointer: CollectionPointer) -> Self:
        """Return what is shown of a pointer."""
        target, previous = pointer.target, pointer.previous
        return cls(
            version=pointer.version,
            current=pointer.current.name,
            current_checkpoint_id=pointer.current.checkpoint_id,
            target=None if target is None else target.name,
            target_checkpoint_id=None if target is None else target.checkpoint_id,
            previous=None if previous is None else previous.name,
            phase=None if pointer.phase is None else str(pointer.phase),
        )


class PreflightView(View):
    """All checks of a plan, and what a measured step promises.

    Attributes:
        can_proceed: whether no check failed.
    """

    checks: tuple[PreflightCheck, ...]
    recommended_batch_size: int | None
    estimates: tuple[Sizes, ...]
    can_proceed: bool
