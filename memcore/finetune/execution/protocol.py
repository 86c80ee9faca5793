"""The contract of a stage executor: job, outcome, stop conditions, and the readers of a runner's output."""

import os
import re
import selectors
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import IO, TYPE_CHECKING, Protocol, Self

from memcore.finetune.markers import LogLine, MarkerParser, RunnerEvent, StageComplete
from memcore.finetune.runner_config import RunnerConfig
from memcore.models.finetune import FineTuneStage

if TYPE_CHECKING:
    import subprocess

#: The last lines of the standard error that are kept, to find the reason in.
KEPT_LINES = 50

#: How long a stage that is asked to stop may take, in seconds, before it is killed.
GRACE = 10.0

#: Interval of the checks of cancellation and time, in seconds.
POLL = 0.2


class StageEnd(StrEnum):
    """How a stage ended."""

    COMPLETE = "complete"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageOutcome:
    """The outcome of a stage.

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
    """A stage to carry out.

    Attributes:
        run_id: the run; it names containers.
        config: the runner's configuration.
        timeout_seconds: after this it is stopped.
        labels: of a container, beside its own.
    """

    run_id: str
    config: RunnerConfig
    timeout_seconds: float
    labels: Mapping[str, str] | None = None


class StageExecutor(Protocol):
    """Carries out stages, one at a time."""

    def run(
        self,
        job: StageJob,
        *,
        on_event: Callable[[RunnerEvent], None],
        cancelled: Callable[[], bool],
        born: Callable[[str], None],
    ) -> StageOutcome:
        """Carry out a stage to its end, and leave nothing of it running.

        Args:
            job: the stage.
            on_event: takes each marker and line as it comes; what it raises ends the stage, as a cancellation does.
            cancelled: asked several times a second; True stops the stage.
            born: takes the name of the running thing (``process:<group>:<start>``, ``container:<id>``), once, before
                any event.

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
    """Return why a running stage must stop; None while it may go on.

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


_ERROR = re.compile(r"ERROR: (.+)")

#: Longest reason, in characters.
MAX_REASON_CHARS = 500


class StderrErrors:
    """Finds the last ``ERROR: `` line; progress bars that are redrawn on one line are parts of lines like any other."""

    def __init__(self) -> None:
        self._parser = MarkerParser()
        self._reason: str | None = None

    def feed(self, chunk: bytes) -> None:
        """Take what came."""
        for runner_event in self._parser.feed(chunk):
            if isinstance(runner_event, LogLine):
                self._check_once(runner_event.text)

    @property
    def reason(self) -> str | None:
        """The reason, in one sentence; None while none was given."""
        for runner_event in self._parser.end():
            if isinstance(runner_event, LogLine):
                self._check_once(runner_event.text)
        return self._reason

    def _check_once(self, line: str) -> None:
        found = _ERROR.fullmatch(line.rpartition("\r")[2])
        if found is not None:
            self._reason = found[1][:MAX_REASON_CHARS]


class RunnerOutputReader:
    """Reads a runner's output.

    Args:
        stage: its stage; a marker of another stage does not count.
        on_event: takes each marker and line.
    """

    def __init__(self, stage: FineTuneStage, on_event: Callable[[RunnerEvent], None]) -> None:
        self._complete = StageComplete(stage)
        self._on_event = on_event
        self._output = MarkerParser()
        self._errors = StderrErrors()
        self.is_complete = False

    def take(self, chunks: Iterable[tuple[str, bytes]]) -> None:
        """Take pieces of its outputs, each with the output's name: ``output`` or ``errors``."""
        for name, chunk in chunks:
            if name == "errors":
                self._errors.feed(chunk)
            else:
                self._report(self._output.feed(chunk))

    def end(self) -> None:
        """Take what is left when nothing more comes."""
        self._report(self._output.end())

    @property
    def reason(self) -> str | None:
        """Why the stage is not complete, as the runner gave it; None when it gave no reason."""
        return self._errors.reason

    def _report(self, every: Iterable[RunnerEvent]) -> None:
        for runner_event in every:
            self.is_complete = self.is_complete or runner_event == self._complete
            self._on_event(runner_event)


_CHUNK = 65_536


class Streams:
    """Reads a process's outputs; use it as a context manager.

    Args:
        process: with pipes as its outputs.
    """

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._selector = selectors.DefaultSelector()
        for stream, name in ((process.stdout, "output"), (process.stderr, "errors")):
            if stream is not None:
                os.set_blocking(stream.fileno(), False)
                self._selector.register(stream, selectors.EVENT_READ, name)

    def read(self, seconds: float) -> "list[tuple[str, bytes]]":
        """Return what there is, after at most so long."""
        if not self._selector.get_map():
            time.sleep(seconds)
            return []
        found: list[tuple[str, bytes]] = []
        for key, _ in self._selector.select(seconds):
            stream: IO[bytes] = key.fileobj  # type: ignore[assignment]
            chunk = os.read(stream.fileno(), _CHUNK)
            if chunk:
                found.append((key.data, chunk))
            else:
                self._selector.unregister(stream)
        return found

    def rest(self, seconds: float) -> "list[tuple[str, bytes]]":
        """Return what is left, until the outputs end or nothing comes for so long."""
        found: list[tuple[str, bytes]] = []
        while self._selector.get_map():
            chunks = self.read(seconds)
            if not chunks and self._selector.get_map():
                break
            found += chunks
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._selector.close()
