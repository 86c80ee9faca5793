import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memcore.finetune.execution.docker_engine import FrameParser

PIECES = st.lists(st.tuples(st.sampled_from(["output", "errors"]), st.binary(max_size=50)), max_size=8)


def framed(pieces: list[tuple[str, bytes]]) -> bytes:
    numbers = {"output": 1, "errors": 2, "input": 0}
    return b"".join(struct.pack(">BxxxL", numbers[name], len(piece)) + piece for name, piece in pieces)


def joined(pieces: list[tuple[str, bytes]]) -> dict[str, bytes]:
    return {name: b"".join(piece for of, piece in pieces if of == name) for name in ("output", "errors")}


@given(pieces=PIECES, size=st.integers(1, 20))
def test_wherever_the_stream_is_cut_each_output_is_whole(pieces: list[tuple[str, bytes]], size: int) -> None:
    stream = framed(pieces)
    parser = FrameParser()
    found = [piece for start in range(0, len(stream), size) for piece in parser.feed(stream[start : start + size])]
    assert joined(found) == joined(pieces)


def test_other_streams_are_passed_over() -> None:
    assert FrameParser().feed(framed([("input", b"typed"), ("output", b"said")])) == [("output", b"said")]


@pytest.mark.parametrize("length", [0, 1, 7])
def test_half_of_a_header_is_nothing_yet(length: int) -> None:
    parser = FrameParser()
    stream = framed([("errors", b"late")])
    assert parser.feed(stream[:length]) == []
    assert parser.feed(stream[length:]) == [("errors", b"late")]


def test_a_long_frame_is_passed_on_as_it_comes() -> None:
    parser = FrameParser()
    head = framed([("output", b"x" * 10_000)])[:1_008]
    assert parser.feed(head) == [("output", b"x" * 1_000)]
    assert parser.feed(b"y" * 9_000) == [("output", b"y" * 9_000)]
