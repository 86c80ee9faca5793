"""What a stage runner says on its standard output: markers among lines of any kind, however the stream is cut."""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass

from memcore.finetune.stage import STAGES, FineTuneStage

#: Longest line that is read, in characters; what stands beyond it on the same line is dropped.
MAX_LINE_CHARS = 8_192

_MARKER = re.compile(r"(STAGE_START|STAGE_COMPLETE|PROGRESS):(\S+)")

_STAGES = {str(stage): stage for stage in STAGES}


@dataclass(frozen=True, slots=True)
class StageStart:
    """The runner has checked its configuration and begins."""

    stage: FineTuneStage


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
    """A line that is no marker; ``is_cut`` when it was longer than a line may be."""

    text: str
    is_cut: bool = False


Marker = StageStart | StageComplete | Progress
Said = Marker | LogLine


class MarkerParser:
    """Read a runner's output as it comes, cut at any byte; bytes that are no UTF-8 become replacement marks.

    Memory is bounded: a line of any length takes MAX_LINE_CHARS.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._line: list[str] = []
        self._length = 0

    def feed(self, chunk: bytes) -> Iterator[Said]:
        """Yield what the chunk completes; the rest waits for the next one."""
        return self._read(self._decoder.decode(chunk))

    def end(self) -> Iterator[Said]:
        """Yield what is left when the stream has ended; a marker without its line's end may be half of one."""
        yield from self._read(self._decoder.decode(b"", final=True))
        if self._length:
            yield self._taken_as_log()

    def _read(self, text: str) -> Iterator[Said]:
        *ended, rest = text.split("\n")
        for part in ended:
            self._keep(part)
            yield self._taken()
        self._keep(rest)

    def _keep(self, part: str) -> None:
        room = MAX_LINE_CHARS - min(self._length, MAX_LINE_CHARS)
        if room and part:
            self._line.append(part[:room])
        self._length += len(part)

    def _taken(self) -> Said:
        is_cut = self._length > MAX_LINE_CHARS
        said = self._taken_as_log()
        return said if is_cut else _marker_of(said.text) or said

    def _taken_as_log(self) -> LogLine:
        line = LogLine("".join(self._line).rstrip("\r"), is_cut=self._length > MAX_LINE_CHARS)
        self._line.clear()
        self._length = 0
        return line


def _marker_of(line: str) -> Marker | None:
    found = _MARKER.fullmatch(line)
    if found is None:
        return None
    name, value = found.groups()
    if name == "PROGRESS":
        return _progress_of(value)
    stage = _STAGES.get(value)
    if stage is None:
        return None
    return StageStart(stage) if name == "STAGE_START" else StageComplete(stage)


def _progress_of(value: str) -> Progress | None:
    try:
        fraction = float(value)
    except ValueError:
        return None
    # Not a number is in no range.
    return Progress(fraction) if 0.0 <= fraction <= 1.0 else None
