"""mem0's filters, as its documentation writes them."""

from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memcore.errors import MemoryInputError
from ops.http.mem0.filters import ANYTHING, UNNAMED, equal_metadata, from_query, parsed

RECORD: dict[str, Any] = {
    "id": "m1",
    "memory": "Lena plays the Cello",
    "user_id": "lena",
    "agent_id": "coach",
    "app_id": None,
    "run_id": "r1",
    "categories": ["semantic", "music"],
    "metadata": {"mood": "calm", "level": 3, "is_new": True, "place": {"city": "Rome"}, "a.b": 1},
    "created_at": "2026-05-01T12:00:00+00:00",
    "updated_at": "2026-05-02T12:00:00+00:00",
    "expiration_date": None,
}


@pytest.mark.parametrize(
    "filters",
    [
        {},
        {"user_id": "lena"},
        {"user_id": "lena", "agent_id": "coach"},
        {"user_id": "*"},
        {"user_id": {"in": ["lena", "mara"]}},
        {"user_id": ["lena", "mara"]},
        {"user_id": {"ne": "mara"}},
        {"app_id": {"ne": "a1"}},
        {"AND": [{"user_id": "lena"}, {"run_id": "r1"}]},
        {"OR": [{"user_id": "mara"}, {"agent_id": "coach"}]},
        {"NOT": [{"user_id": "mara"}, {"user_id": "nora"}]},
        {"NOT": {"user_id": "mara"}},
        {"AND": [{"OR": [{"user_id": "lena"}, {"user_id": "mara"}]}, {"NOT": [{"run_id": "r2"}]}]},
        {"categories": "music"},
        {"categories": {"in": ["music", "sports"]}},
        {"categories": {"contains": "mus"}},
        {"categories": {"nin": ["sports"]}},
        {"metadata": {"mood": "calm"}},
        {"metadata": {"mood": "calm", "level": 3}},
        {"metadata": {"contains": {"mood": "calm"}}},
        {"metadata.mood": "calm"},
        {"metadata.place.city": "Rome"},
        {"place.city": {"icontains": "rom"}},
        {"place.street": {"ne": "x"}},
        {"mood.deeper": {"ne": "x"}},
        {"a.b": 1, "metadata.a.b": 1},
        {"userId": "lena", "agentId": {"in": ["coach"]}, "runId": "*"},
        {"AND": [{"userId": "lena"}, {"createdAt": {"gte": "2026-05-01"}}]},
        {"appId": None},
        {"mood": "calm"},
        {"mood": {"icontains": "CAL"}},
        {"level": {"gte": 3, "lt": 4}},
        {"level": {"nin": [1, 2]}},
        {"is_new": True},
        {"nowhere": {"ne": "x"}},
        {"created_at": {"gte": "2026-05-01", "lt": "2026-05-02"}},
        {"created_at": {"gt": "2026-05-01T13:30:00+02:00", "lte": 1_777_636_800}},
        {"timestamp": {"gte": "2026-05-01T12:00:00Z"}},
        {"keywords": {"icontains": "cello"}},
        {"memory_ids": ["m1", "m2"]},
    ],
)
def test_filters_that_a_memory_meets(filters: dict[str, Any]) -> None:
    assert parsed(filters).matches(RECORD)


@pytest.mark.parametrize(
    "filters",
    [
        {"user_id": "mara"},
        {"app_id": "*"},
        {"user_id": {"ne": "lena"}},
        {"user_id": {"in": []}},
        {"AND": [{"user_id": "lena"}, {"run_id": "r2"}]},
        {"OR": [{"user_id": "mara"}, {"agent_id": "other"}]},
        {"OR": []},
        {"NOT": [{"user_id": "mara"}, {"user_id": "lena"}]},
        {"categories": "sports"},
        {"categories": {"ne": "music"}},
        {"categories": {"nin": ["music"]}},
        {"metadata": {"mood": "calm", "level": 4}},
        {"mood": {"contains": "CAL"}},
        {"level": {"gt": 3}},
        {"level": {"gt": "2"}},
        {"level": True},
        {"is_new": 1},
        {"nowhere": "x"},
        {"nowhere": {"gt": 1}},
        {"created_at": {"lt": "2026-05-01"}},
        {"expiration_date": {"gte": "2020-01-01"}},
        {"keywords": {"contains": "cello"}},
    ],
)
def test_filters_that_a_memory_does_not_meet(filters: dict[str, Any]) -> None:
    assert not parsed(filters).matches(RECORD)


@pytest.mark.parametrize(
    ("filters", "agents"),
    [
        ({"user_id": "lena"}, None),
        ({"agent_id": "a"}, {"a"}),
        ({"agent_id": ["a", "b"]}, {"a", "b"}),
        ({"agent_id": "*"}, {ANYTHING}),
        ({"agent_id": {"ne": "a"}}, {ANYTHING}),
        ({"AND": [{"agent_id": ["a", "b"]}, {"agent_id": ["b", "c"]}]}, {"b"}),
        ({"AND": [{"agent_id": "*"}, {"agent_id": "a"}]}, {"a"}),
        ({"agent_id": "a", "AND": [{"agent_id": "b"}]}, set()),
        ({"OR": [{"agent_id": "a"}, {"agent_id": "b"}]}, {"a", "b"}),
        ({"OR": [{"user_id": "lena"}, {"agent_id": "a"}]}, {"a", UNNAMED}),
        ({"NOT": [{"agent_id": "a"}]}, None),
    ],
)
def test_the_agents_that_filters_are_about(filters: dict[str, Any], agents: set[str] | None) -> None:
    assert parsed(filters).named("agent_id") == agents


def test_metadata_that_every_match_has_narrows_the_store() -> None:
    filters = {"mood": "calm", "AND": [{"metadata": {"level": 3}}], "OR": [{"place": "x"}], "level2": {"gt": 1}}
    assert equal_metadata(parsed(filters)) == {"mood": "calm", "level": 3}


#: Ten conditions inside one another.
DEEP: dict[str, Any] = reduce(lambda inner, _: {"AND": [inner]}, range(10), {"user_id": "lena"})


@pytest.mark.parametrize(
    ("filters", "field"),
    [
        ({"user_id": {"like": "l%"}}, "filters.user_id"),
        ({"user_id": {">=": "l"}}, "filters.user_id"),
        ({"user_id": 7}, "filters.user_id.eq"),
        ({"user_id": {"in": "lena"}}, "filters.user_id.in"),
        ({"AND": ["lena"]}, "filters.AND.0"),
        ({"created_at": {"gte": "yesterday"}}, "filters.created_at.gte"),
        ({"metadata": "calm"}, "filters.metadata.eq"),
        (DEEP, "filters"),
        ({"OR": [{"user_id": "u"}] * 129}, "filters"),
        ({"mood": "\ud800"}, "filters"),
        ({"metadata": {"\ud800": 1}}, "filters"),
        ({"mood": b"calm"}, "filters"),
        ({"mood": float("nan")}, "filters"),
        ({"mood": 1, 2: 3}, "filters"),
    ],
)
def test_filters_that_say_nothing_are_refused_by_name(filters: dict[str, Any], field: str) -> None:
    with pytest.raises(MemoryInputError) as refused:
        parsed(filters)
    assert refused.value.field.startswith(field)


def test_filters_in_a_query_string_are_json_or_what_pythons_client_writes() -> None:
    assert from_query('{"user_id": "lena"}', field="filters") == {"user_id": "lena"}
    assert from_query(str({"user_id": "lena", "x": None}), field="filters") == {"user_id": "lena", "x": None}
    for text in ("", "[1]", "__import__('os')", "(" * 500, "{'a': open('x')}"):
        with pytest.raises(MemoryInputError, match="filters"):
            from_query(text, field="filters")


VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats(allow_nan=False)
NAMES = st.sampled_from(
    ["user_id", "agent_id", "categories", "metadata", "created_at", "mood", "AND", "OR", "NOT", "memory"]
)
OPERATORS = st.sampled_from(["eq", "ne", "in", "nin", "gt", "lte", "contains", "icontains", "*", "x"])
TREES = st.recursive(
    VALUES,
    lambda inner: st.dictionaries(NAMES | OPERATORS, inner, max_size=3) | st.lists(inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(NAMES, TREES, max_size=4))
def test_any_filters_are_refused_by_name_or_decide(filters: dict[str, Any]) -> None:
    try:
        condition = parsed(filters)
    except MemoryInputError:
        with pytest.raises(MemoryInputError, match=r"^filters"):
            parsed(filters)
        return
    assert condition.matches(RECORD) in {True, False}
    assert parsed({"NOT": [filters]}).matches(RECORD) is not condition.matches(RECORD)
    named = condition.named("user_id")
    if condition.matches(RECORD) and named is not None:
        assert named & {ANYTHING, UNNAMED, "lena"}
