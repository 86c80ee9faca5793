"""What carries out one stage, wherever it runs."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from memcore.finetune.markers import Said
from memcore.finetune.runner_config import RunnerConfig

#: The last lines of the standard error that are kept, to find the reason in.
KEPT_LINES = 50

#: How long a stage that is asked to stop may take, in seconds, before it is killed.
GRACE = 10.0

#: How often cancellation and time are looked at, in seconds.
POLL = 0.2


class StageEnd(StrEnum):
    """How a stage ended."""

    COMPLETE = "complete"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageOutcome:
    """What became of a stage.

    Attributes:
        end: how it ended.
        reason: why it is not complete, in one sentence; None when it is.
        exit_code: of the runner; below 0 the number of the signal that ended it; None where it never ran.
    """

    end: StageEnd
    reason: str | None = None
    exit_code: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StageJob:
    """What is to be carried out.

    Attributes:
        run_id: whose stage; it names containers.
        config: what the runner is told.
        timeout_seconds: after this it is stopped.
        labels: of a container, beside its own.
    """

    run_id: str
    config: RunnerConfig
    timeout_seconds: float
    labels: Mapping[str, str] | None = None


class StageExecutor(Protocol):
    """Carry out stages, one at a time."""

    def run(
        self, job: StageJob, *, told: Callable[[Said], None], cancelled: Callable[[], bool], born: Callable[[str], None]
    ) -> StageOutcome:
        """Carry out a stage to its end, and leave nothing of it running.

        Args:
            job: the stage.
            told: takes each marker and line as it comes; what it raises ends the stage, as a cancellation does.
            cancelled: asked several times a second; True stops the stage.
            born: takes what names the running thing (``process:<group>:<start>``, ``container:<id>``), once, before
                anything is told.

        Returns:
            How it ended: complete only when the runner has said so and ended with 0.
        """
        ...


def outcome_of(*, is_complete: bool, exit_code: int, error: str | None, stage: str) -> StageOutcome:
    """Return the outcome of a runner that has ended by itself."""
    if is_complete and exit_code == 0:
        return StageOutcome(end=StageEnd.COMPLETE, exit_code=exit_code)
    if error is not None:
        reason = error
    elif exit_code < 0:
        reason = f"{stage} was ended by signal {-exit_code}"
    elif exit_code == 0:
        reason = f"{stage} ended without saying that it is complete"
    else:
        reason = f"{stage} ended with code {exit_code} and gave no reason"
    return StageOutcome(end=StageEnd.FAILED, reason=reason, exit_code=exit_code)


def stop_of(stage: str, *, cancelled: Callable[[], bool], deadline: float, seconds: float) -> StageOutcome | None:
    """Return why a running stage is to be stopped; None lets it go on.

    Args:
        stage: its name.
        cancelled: whether somebody has cancelled it.
        deadline: of ``time.monotonic``, after which it takes too long.
        seconds: that it had.
    """
    if cancelled():
        return StageOutcome(end=StageEnd.CANCELLED, reason=f"{stage} was cancelled")
    if time.monotonic() > deadline:
        return StageOutcome(end=StageEnd.TIMED_OUT, reason=f"{stage} took longer than {seconds:g} seconds")
    return None
