"""How adapters keep values and names: which values stores return exactly, and which stand in the text."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memcore.adapters.values import (
    MAX_VALUE_BYTES,
    as_json,
    clipped,
    escaped_name,
    is_plain,
    kept,
    plain_name,
    text_in,
)
from memcore.errors import MemoryInputError
from memcore.models.base import UNSEEN


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, True),
        (True, True),
        (2**53, True),
        (2**53 + 1, False),
        (-(2**53) - 1, False),
        (0.1, True),
        (1 / 3, False),
        (0.0, True),
        (-0.0, False),
        (1e21, True),
        (1e23, False),
        (1e-300, False),
        ("é漢", True),
        ("a\0", False),
        ("\ud800", False),
        ({"a\0": 1}, False),
        ([[["deep"]]], True),
        (json.loads("[" * 40 + "]" * 40), False),
    ],
)
def test_only_what_every_store_returns_exactly_is_an_attribute(value: Any, expected: bool) -> None:
    assert is_plain(value) is expected
    made = kept({"v": value}, text="text", attributes={})
    assert ("value" in made.attributes) is expected
    assert made.content.startswith("text")


def test_a_large_value_stands_behind_a_shorter_text() -> None:
    made = kept({"v": "x" * (MAX_VALUE_BYTES - 10)}, text="t" * 90_000, attributes={"own": 1})
    assert len(made.content.encode()) <= 65_536
    assert made.attributes["own"] == 1
    assert json.loads(made.content[made.attributes["value_from"] :])["v"].startswith("xxx")
    with pytest.raises(MemoryInputError, match="57345 bytes as JSON; the limit is 57344"):
        kept({"v": "x" * (MAX_VALUE_BYTES - 8)}, text="t", attributes={})


@pytest.mark.parametrize("value", [float("inf"), {1}, b"x", object()])
def test_what_is_no_json_is_refused_without_its_text(value: object) -> None:
    with pytest.raises(MemoryInputError) as raised:
        as_json({"secret": value})
    assert "secret" not in str(raised.value)


@given(st.text())
def test_any_name_comes_back_and_is_a_name_that_memtend_takes(name: str) -> None:
    escaped = escaped_name(name)
    assert plain_name(escaped) == name
    assert escaped
    assert escaped == escaped.strip()
    assert UNSEEN.search(escaped) is None


@given(st.text(), st.integers(0, 20))
def test_a_clipped_text_is_whole_characters(text: str, limit: int) -> None:
    found = clipped(text, limit)
    assert len(found.encode()) <= limit
    assert text.encode(errors="replace").decode().startswith(found)


def test_the_text_of_a_value_has_a_line_for_each_part() -> None:
    value = {"a": "x", "b": {"c": [1, {"d": True}]}, "e": None, "f": ["y", "z"]}
    assert text_in(value) == "a: x\nb.c: 1\nb.c.d: True\nf: y\nf: z"
    assert text_in(json.loads("[" * 500 + "]" * 500)) == ""
