"""A fine-tune run: what it is to do, how far it has come, and who carries it on."""

from datetime import timedelta
from typing import Any, Self

from pydantic import Field, model_validator

from memcore.clock import BoundedTime
from memcore.finetune_models import STAGES, FineTuneStage
from memcore.frozen import Frozen

#: Files by their place in the run's folder, with their hashes.
Files = dict[str, str]


class FineTuneRun(Frozen):
    """A run's row.

    Attributes:
        plan: what it is to do (memcore.finetune.plan) as JSON.
        stage: what is next, or in work; of a run that has ended, how.
        progress: of the stage in work, 0 to 1; None while nobody has told any.
        error: why it failed, or was cancelled, in one sentence; None otherwise.
        finished: of each stage that is done, its files.
        attempt: how often a stage of it was taken in hand; no two have the same number.
        tries: how often that was since the last stage was done, or a person resumed it.
        token: of the worker that has it in hand.
        lease_until: when another may take it, unless that one renews.
        holder: what names the running stage, such as ``process:<group>:<start>``; kept until it is known to be gone.
        host: the machine that it runs on.
        cancel_requested_at: when a person asked to end it.
        rung_at: when its message was last sent.
        completed_at: when it ended; None exactly while it has not.
    """

    run_id: str
    plan: dict[str, Any]
    stage: FineTuneStage
    progress: float | None = Field(default=None, ge=0.0, le=1.0)
    error: str | None = None
    finished: dict[FineTuneStage, Files] = Field(default_factory=dict)
    attempt: int = 0
    tries: int = 0
    token: str | None = None
    lease_until: BoundedTime | None = None
    holder: str | None = None
    host: str | None = None
    cancel_requested_at: BoundedTime | None = None
    rung_at: BoundedTime
    started_at: BoundedTime
    updated_at: BoundedTime
    completed_at: BoundedTime | None = None

    @model_validator(mode="after")
    def _state_holds_together(self) -> Self:
        if not self.stage.is_end and self.stage not in STAGES:
            raise ValueError(f"stage: {self.stage} is none of a run")
        if self.stage is FineTuneStage.FAILED and self.error is None:
            raise ValueError("error: a failed run says why")
        if self.stage not in {FineTuneStage.FAILED, FineTuneStage.CANCELLED} and self.error is not None:
            raise ValueError("error: only a run that failed or was cancelled has one")
        if self.stage.is_end is (self.completed_at is None):
            raise ValueError("completed_at: stands exactly where the run has ended")
        return self

    @property
    def stages_completed(self) -> tuple[FineTuneStage, ...]:
        """The stages that are done, in order."""
        return tuple(stage for stage in STAGES if stage in self.finished)

    @property
    def next_stage(self) -> FineTuneStage:
        """The first stage that is not done; the last one where all are."""
        return next((stage for stage in STAGES if stage not in self.finished), STAGES[-1])

    @property
    def duration(self) -> timedelta | None:
        """How long it took; None until it has ended."""
        return None if self.completed_at is None else self.completed_at - self.started_at

    @property
    def fraction(self) -> float:
        """How much of the whole is done, 0 to 1, each stage counted alike."""
        if self.stage is FineTuneStage.COMPLETE:
            return 1.0
        return (len(self.finished) + (self.progress or 0.0)) / len(STAGES)
