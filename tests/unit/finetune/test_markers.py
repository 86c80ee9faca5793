"""Markers on a stream that is cut anywhere, among lines of any kind."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from memcore.finetune.markers import (
    MAX_LINE_CHARS,
    LogLine,
    MarkerParser,
    Progress,
    RunnerEvent,
    StageComplete,
)
from memcore.models.finetune import FineTuneStage

STREAM = (
    "STAGE_START:training\n"
    "Loading weights é 漢字\n"
    "PROGRESS:0.2500\r\n"
    "PROGRESS:1.5\n"
    "PROGRESS:nan\n"
    "STAGE_COMPLETE:lunch\n"
    " STAGE_COMPLETE:training\n"
    "STAGE_COMPLETE:training\n"
).encode()

RUNNER_OUTPUT: list[RunnerEvent] = [
    LogLine("STAGE_START:training"),
    LogLine("Loading weights é 漢字"),
    Progress(0.25),
    LogLine("PROGRESS:1.5"),
    LogLine("PROGRESS:nan"),
    LogLine("STAGE_COMPLETE:lunch"),
    LogLine(" STAGE_COMPLETE:training"),
    StageComplete(FineTuneStage.TRAINING),
]


def parsed(chunks: list[bytes]) -> list[RunnerEvent]:
    parser = MarkerParser()
    return [runner_event for chunk in chunks for runner_event in parser.feed(chunk)] + list(parser.end())


@given(st.lists(st.integers(min_value=0, max_value=len(STREAM)), max_size=12))
def test_a_stream_says_the_same_wherever_it_is_cut(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    assert parsed([STREAM[a:b] for a, b in pairwise(edges)]) == RUNNER_OUTPUT


def test_a_marker_whose_line_was_cut_off_is_none() -> None:
    assert parsed([b"STAGE_COMPLETE:train"]) == [LogLine("STAGE_COMPLETE:train")]
    assert parsed([b"STAGE_COMPLETE:training"]) == [LogLine("STAGE_COMPLETE:training")]


def test_bytes_that_are_no_text_are_a_line_like_any_other() -> None:
    assert parsed([b"\xff\xfe\n", b"PROGRESS:0.5\n"]) == [LogLine("\ufffd\ufffd"), Progress(0.5)]


def test_a_line_of_ten_megabytes_takes_little_memory_and_the_next_one_counts() -> None:
    parser = MarkerParser()
    runner_event: list[RunnerEvent] = []
    for _ in range(160):
        runner_event += parser.feed(b"x" * 65_536)
    runner_event += parser.feed(b"\nPROGRESS:0.5\n")
    assert runner_event == [LogLine("x" * MAX_LINE_CHARS), Progress(0.5)]


def test_a_marker_longer_than_a_line_is_none() -> None:
    padded = b"STAGE_COMPLETE:training" + b" " * MAX_LINE_CHARS + b"\n"
    assert all(isinstance(runner_event, LogLine) for runner_event in parsed([padded]))


@given(st.binary(max_size=300))
def test_any_bytes_are_read_and_nothing_is_lost_of_short_lines(data: bytes) -> None:
    runner_event = parsed([data])
    text = data.decode("utf-8", "replace")
    assert len(runner_event) == text.count("\n") + (not text.endswith("\n") and bool(text))
