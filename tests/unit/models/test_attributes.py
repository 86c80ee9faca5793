"""Attributes and the filters that ask for them: what no store could hold is refused before it is sent."""

from typing import Any

import pytest
from pydantic import ValidationError

from memcore.models.memory import MemoryCategory, MemoryQuery, MemoryStoreRequest


@pytest.mark.parametrize(
    "wanted",
    [
        {"a": "calm", "a.b-c.d_e": 1, "flag": True, "share": 0.5},
        {"a": -(1 << 63), "b": (1 << 63) - 1},
    ],
)
def test_a_filter_names_attributes_by_their_paths(wanted: dict[str, Any]) -> None:
    assert dict(MemoryQuery(attributes=wanted).attributes) == wanted


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        ({"a": 1 << 63}, "at most 64 bits"),
        ({"a": -(1 << 63) - 1}, "at most 64 bits"),
        ({"a": 10**400}, "at most 64 bits"),
        ({"": 1}, "by paths"),
        ({"a..b": 1}, "by paths"),
        ({".".join("a" * 9): 1}, "at most 8 parts"),
        ({"a": None}, "valid"),
        ({"a": float("nan")}, "finite"),
        ({"a": "\ud800"}, "Unicode"),
    ],
)
def test_a_filter_that_no_store_could_answer_is_refused(wanted: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        MemoryQuery(attributes=wanted)


def _nested(levels: int) -> dict[str, Any]:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return {"a": value}


@pytest.mark.parametrize(
    "given",
    [
        _nested(700),
        {"a": "\0"},
        {"a": 1 << 64},
        {"a": {"b": [-(1 << 63) - 1]}},
        {"a": ["\ud800"]},
        {"a b": 1},
        {"a": "x" * 8_192},
    ],
)
def test_attributes_that_no_store_could_hold_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content="tea", attributes=given)
