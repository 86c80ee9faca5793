"""The contract of a stage executor: job, outcome, and how a running stage is read, and stopped when it must be."""

import re
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from memcore.finetune.markers import LogLine, MarkerParser, RunnerEvent, StageComplete
from memcore.finetune.runner_config import RunnerConfig

#: Seconds that a stage may take which is asked to stop, before it is killed; and between two looks at its time.
GRACE = 10.0
POLL = 0.2

#: Most bytes that are read of an output at once.
CHUNK = 65_536

#: Pieces of a runner's outputs, each with the output's name: ``output`` or ``errors``.
Chunks = list[tuple[str, bytes]]


class StageEnd(StrEnum):
    """How a stage ended."""

    COMPLETE = "complete"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageOutcome:
    """The outcome of a stage."""

    end: StageEnd
    #: Why it is not complete, in one sentence.
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StageJob:
    """A stage to carry out, and who follows it.

    Attributes:
        born: takes the running thing's name (``process:<group>:<start>``, ``container:<id>``) before any event.
        on_event: takes each marker and line; what it raises ends the stage.
        cancelled: whether to end the stage; asked several times a second, and may raise too.
    """

    run_id: str
    config: RunnerConfig
    timeout_seconds: float
    born: Callable[[str], None]
    on_event: Callable[[RunnerEvent], None]
    cancelled: Callable[[], bool]


class StageExecutor(Protocol):
    """Carries out stages, one at a time."""

    def run(self, job: StageJob) -> StageOutcome:
        """Carry out a stage to its end, and leave nothing of it running; complete only when the runner has said so."""
        ...


_ERROR = re.compile(r"ERROR: (.+)")

#: Longest reason, in characters.
MAX_REASON_CHARS = 500


class RunnerOutput:
    """Reads a runner's outputs: the markers of its job's stage, and the last ``ERROR: `` line: why it failed."""

    def __init__(self, job: StageJob) -> None:
        self._job = job
        self._complete = StageComplete(job.config.stage)
        self._output, self._errors = MarkerParser(), MarkerParser()
        self._is_complete = False
        self._reason: str | None = None

    def follow(
        self, read: Callable[[], Chunks | None], stop: Callable[[signal.Signals], None], *, grace: float
    ) -> StageOutcome | None:
        """Read until the runner has ended; a cancelled or late one is asked to stop, and killed after the grace.

        ``read`` waits for at most POLL seconds, and returns None when the runner has ended. Returns the outcome of a
        stage that was stopped; None of one that ended by itself.
        """
        stage, deadline = self._job.config.stage, time.monotonic() + self._job.timeout_seconds
        stopped: StageOutcome | None = None
        while (chunks := read()) is not None:
            self.take(chunks)
            is_late = time.monotonic() > deadline
            if stopped is not None:
                if is_late:
                    stop(signal.SIGKILL)
                continue
            if self._job.cancelled():
                stopped = StageOutcome(end=StageEnd.CANCELLED, reason=f"{stage} was cancelled")
            elif is_late:
                reason = f"{stage} took longer than {self._job.timeout_seconds:g} seconds"
                stopped = StageOutcome(end=StageEnd.TIMED_OUT, reason=reason)
            if stopped is not None:
                stop(signal.SIGTERM)
                deadline = time.monotonic() + grace
        return stopped

    def take(self, chunks: Chunks) -> None:
        """Take pieces of its outputs."""
        for name, chunk in chunks:
            if name == "errors":
                self._look_for_error(self._errors.feed(chunk))
            else:
                self._report(self._output.feed(chunk))

    def end(self) -> None:
        """Take what is left when nothing more comes."""
        self._report(self._output.end())
        self._look_for_error(self._errors.end())

    def outcome(self, exit_code: int) -> StageOutcome:
        """Return the outcome of a runner that has ended by itself; a code below 0 is the signal that ended it."""
        stage = self._job.config.stage
        if self._is_complete and exit_code == 0:
            return StageOutcome(end=StageEnd.COMPLETE)
        if self._reason is not None:
            reason = self._reason
        elif exit_code < 0:
            reason = f"{stage} was ended by signal {-exit_code}"
        elif exit_code == 0:
            reason = f"{stage} ended without saying that it is complete"
        else:
            reason = f"{stage} ended with code {exit_code} and gave no reason"
        return StageOutcome(end=StageEnd.FAILED, reason=reason)

    def _report(self, every: Iterable[RunnerEvent]) -> None:
        for runner_event in every:
            self._is_complete = self._is_complete or runner_event == self._complete
            self._job.on_event(runner_event)

    def _look_for_error(self, every: Iterable[RunnerEvent]) -> None:
        for runner_event in every:
            # Progress bars that are redrawn on one line are parts of it.
            line = runner_event.text.rpartition("\r")[2] if isinstance(runner_event, LogLine) else ""
            found = _ERROR.fullmatch(line)
            if found is not None:
                self._reason = found[1][:MAX_REASON_CHARS]
