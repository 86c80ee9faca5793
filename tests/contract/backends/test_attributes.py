"""Attributes, keys and namespaces: kept as given, and filtered by in the store."""

from dataclasses import replace
from typing import Any

import pytest
from support.memories import new_agent, record

from memcore.backends.factory import WorkerBackend
from memcore.models.memory import MemoryQuery
from memcore.records import MemoryRecord, Where

GIVEN: dict[str, dict[str, Any]] = {
    "one": {"city": "Berlin", "floor": 3, "open": True, "at": {"room_no": "a-1"}, "tags_of": ["x", "y"]},
    "two": {"city": "Berlin", "floor": 4.5, "open": False, "none": None},
    "three": {"city": "Lisbon", "floor": 1, "tags_of": ["y"]},
    "four": {},
}


def made(agent: str) -> list[MemoryRecord]:
    return [
        replace(
            record(agent, text, namespace=f"n-{text}"),
            extra={"attributes": attributes, "key": f"k-{text}"} if attributes else {},
        )
        for text, attributes in GIVEN.items()
    ]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, {"one", "two", "three", "four"}),
        ({"city": "Berlin"}, {"one", "two"}),
        ({"city": "Berlin", "open": True}, {"one"}),
        ({"floor": 3}, {"one"}),
        ({"floor": 3.0}, {"one"}),
        ({"floor": 4.5}, {"two"}),
        ({"open": False}, {"two"}),
        ({"open": 1}, set()),
        ({"at.room_no": "a-1"}, {"one"}),
        ({"at.room_no": "a-2"}, set()),
        ({"tags_of": "y"}, {"one", "three"}),
        ({"nothing": "x"}, set()),
    ],
)
async def test_attributes_narrow_scans_searches_and_counts(
    backend: WorkerBackend, wanted: dict[str, Any], expected: set[str]
) -> None:
    agent = new_agent()
    await backend.store_many([*made(agent), *made(new_agent())])
    where = Where(agent_id=agent, attributes=wanted)
    page = await backend.scan(where)
    assert {each.entry.content for each in page.records} == expected
    assert await backend.count_where(where) == len(expected)
    found = await backend.retrieve(agent, MemoryQuery(attributes=wanted))
    assert {each.content for each in found} == expected


async def test_they_come_back_as_they_were_given(backend: WorkerBackend) -> None:
    agent = new_agent()
    await backend.store_many(made(agent))
    for each in (await backend.scan(Where(agent_id=agent))).records:
        assert dict(each.entry.attributes) == GIVEN[each.entry.content]
        assert each.entry.key == (f"k-{each.entry.content}" if GIVEN[each.entry.content] else None)
    for entry in await backend.retrieve(agent, MemoryQuery(text="one")):
        assert dict(entry.attributes) == GIVEN[entry.content]


async def test_keys_narrow_and_none_of_them_is_nothing(backend: WorkerBackend) -> None:
    agent = new_agent()
    await backend.store_many(made(agent))
    found = await backend.scan(Where(agent_id=agent, keys=frozenset({"k-one", "k-three", "k-five"})))
    assert {each.entry.content for each in found.records} == {"one", "three"}
    assert (await backend.scan(Where(agent_id=agent, keys=frozenset()))).records == ()


async def test_namespaces_are_listed(backend: WorkerBackend) -> None:
    agent = new_agent()
    await backend.store_many(made(agent))
    assert await backend.scopes(Where(agent_id=agent), "namespace") == {"n-one", "n-two", "n-three", "n-four"}
    assert await backend.scopes(Where(agent_id=new_agent()), "namespace") == frozenset()
