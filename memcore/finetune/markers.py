"""Markers on a stage runner's output, their parser, the sender of progress, and the log events of fine-tuning."""

import codecs
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from threading import Event

from memcore.errors import FineTuneCancelledError
from memcore.models.finetune import STAGES, FineTuneStage

#: Longest line that is read, in characters; what stands beyond it on the same line is dropped.
MAX_LINE_CHARS = 8_192

_MARKER = re.compile(r"(STAGE_COMPLETE|PROGRESS):(\S+)")
_STAGES = {str(stage): stage for stage in STAGES}


@dataclass(frozen=True, slots=True)
class StageComplete:
    """The stage has left its files."""

    stage: FineTuneStage


@dataclass(frozen=True, slots=True)
class Progress:
    """How much of the stage is done, 0 to 1."""

    fraction: float


@dataclass(frozen=True, slots=True)
class LogLine:
    """Any other line, and that a stage starts, after which nobody asks."""

    text: str


RunnerEvent = StageComplete | Progress | LogLine


class MarkerParser:
    """Parses a runner's output as it comes, cut at any byte; bytes that are no UTF-8 become replacement marks.

    Memory is bounded: a line of any length takes MAX_LINE_CHARS.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._line: list[str] = []
        self._length = 0

    def feed(self, chunk: bytes) -> Iterator[RunnerEvent]:
        """Yield what the chunk completes; the rest waits for the next one."""
        return self._read(self._decoder.decode(chunk))

    def end(self) -> Iterator[RunnerEvent]:
        """Yield what is left when the stream has ended; a marker without its line's end may be half of one."""
        yield from self._read(self._decoder.decode(b"", final=True))
        if self._length:
            yield self._taken_as_log()

    def _read(self, text: str) -> Iterator[RunnerEvent]:
        *ended, rest = text.split("\n")
        for part in ended:
            self._keep(part)
            yield self._taken()
        self._keep(rest)

    def _keep(self, part: str) -> None:
        space = MAX_LINE_CHARS - min(self._length, MAX_LINE_CHARS)
        if space and part:
            self._line.append(part[:space])
        self._length += len(part)

    def _taken(self) -> RunnerEvent:
        is_cut = self._length > MAX_LINE_CHARS
        runner_event = self._taken_as_log()
        return runner_event if is_cut else _marker_of(runner_event.text) or runner_event

    def _taken_as_log(self) -> LogLine:
        line = LogLine("".join(self._line).rstrip("\r"))
        self._line.clear()
        self._length = 0
        return line


def _marker_of(line: str) -> StageComplete | Progress | None:
    found = _MARKER.fullmatch(line)
    if found is None:
        return None
    name, value = found.groups()
    try:
        if name != "PROGRESS":
            return StageComplete(_STAGES[value])
        # Not a number is in no range.
        return Progress(fraction) if 0.0 <= (fraction := float(value)) <= 1.0 else None
    except (KeyError, ValueError):
        return None


#: Least step of progress that is reported.
_STEP = 0.01


class StageProgress:
    """Reports how much of a stage is done, 0 to 1, and stops a cancelled one; a signal's handler may cancel."""

    def __init__(self, on_progress: Callable[[float], None] = lambda _: None, cancelled: Event | None = None) -> None:
        self._on_progress = on_progress
        self._cancelled = cancelled or Event()
        self._last = -1.0

    def done(self, fraction: float) -> None:
        """Report how much is done, but no small steps or steps back. Raises FineTuneCancelledError."""
        self.check()
        if fraction >= self._last + _STEP or (fraction >= 1.0 > self._last):
            self._last = fraction
            self._on_progress(min(fraction, 1.0))

    def check(self) -> None:
        """Raise FineTuneCancelledError when the stage was cancelled."""
        if self._cancelled.is_set():
            raise FineTuneCancelledError("a person cancelled the run")

    @property
    def is_cancelled(self) -> bool:
        """Whether the stage was cancelled, for code that may not raise."""
        return self._cancelled.is_set()
