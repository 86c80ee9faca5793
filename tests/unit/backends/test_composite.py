"""What only a backend of several backends does: routes, the failure of one, pages over all."""

import builtins
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.full_scan import order, scanned
from support.memories import DAWN, StoppedClock, record
from support.thorough import examples

from memcore.backends.composite import CompositeBackend
from memcore.backends.inmemory import InMemoryBackend
from memcore.errors import MemoryConfigError, MemoryConnectionError, MemoryInputError, MemoryRetrievalError
from memcore.models.memory import MemoryCategory, MemoryEntry, MemoryMetadata, MemoryQuery, MemoryStoreRequest
from memcore.records import MemoryRecord, Where
from memcore.telemetry.events import Event


class Child(InMemoryBackend):
    """A backend that can be cut off, and that scores what it finds."""

    def __init__(self, *, score: float | None = None, max_memories: int = 100) -> None:
        super().__init__(company="c", max_memories=max_memories, clock=StoppedClock())
        self.error: Exception | None = None
        self.score = score

    async def connect(self) -> None:
        if self.error is not None:
            raise self.error
        await super().connect()

    async def retrieve(self, agent_id: str, query: MemoryQuery) -> tuple[MemoryEntry, ...]:
        found = await super().retrieve(agent_id, query)
        return tuple(entry.model_copy(update={"relevance_score": self.score}) for entry in found)

    def _of(self, agent_id: str) -> dict[str, MemoryRecord]:
        if self.error is not None:
            raise self.error
        return super()._of(agent_id)


CUT = MemoryRetrievalError("the store does not answer")


async def composite(left: Child, right: Child, **routes: str) -> CompositeBackend:
    """A connected composite; the namespace "r" is the right child's, all others are the left's."""
    made = CompositeBackend(
        {"left": left, "right": right}, routes=routes or {"r": "right"}, default="left", company="c",
        clock=StoppedClock(),
    )  # fmt: skip
    await made.connect()
    return made


@pytest.mark.parametrize(("routes", "default", "key"), [({"r": "rihgt"}, "left", "routes.r"), ({}, "lfet", "default")])
def test_a_route_to_nowhere_is_refused_by_its_key(routes: dict[str, str], default: str, key: str) -> None:
    with pytest.raises(MemoryConfigError, match=rf"memory\.composite\.{key}: .* choose one of left, right"):
        CompositeBackend({"left": Child(), "right": Child()}, routes=routes, default=default, company="c")


async def test_each_memory_lies_where_its_namespace_is_routed_and_nowhere_else() -> None:
    left, right = Child(), Child()
    backend = await composite(left, right)
    here = await backend.store("a", MemoryStoreRequest(category=MemoryCategory.SOCIAL, content="x", namespace="r"))
    there = await backend.store("a", MemoryStoreRequest(category=MemoryCategory.SOCIAL, content="x"))

    assert ([e.id for e in await right.retrieve("a", MemoryQuery())], await right.count("a")) == ([here], 1)
    assert ([e.id for e in await left.retrieve("a", MemoryQuery())], await left.count("a")) == ([there], 1)
    assert await backend.count("a") == 2


async def test_the_answers_are_merged_by_relevance_and_those_without_one_come_last() -> None:
    left, right = Child(), Child(score=0.4)
    backend = await composite(left, right)
    plain, scored = record("a", created_at=DAWN + timedelta(days=1)), record("a", namespace="r")
    await backend.store_many([plain, scored])

    assert [entry.id for entry in await backend.retrieve("a", MemoryQuery())] == [scored.entry.id, plain.entry.id]
    assert [entry.id for entry in await backend.retrieve("a", MemoryQuery(limit=1))] == [scored.entry.id]


async def test_a_query_is_answered_without_a_child_that_fails_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    left, right = Child(), Child()
    backend = await composite(left, right)
    kept = record("a", "what the left one holds")
    await backend.store_many([kept, record("a", "what is out of reach", namespace="r")])
    right.error = CUT

    with caplog.at_level(logging.WARNING):
        found = await backend.retrieve("a", MemoryQuery(text="what"))
    assert [entry.id for entry in found] == [kept.entry.id]
    (event,) = caplog.records
    assert event.getMessage() == Event.MEMORY_COMPOSITE_FANOUT_PARTIAL
    assert (event.__dict__["agent_id"], event.__dict__["failed"]) == ("a", {"right": "MemoryRetrievalError"})
    assert "what" not in str(event.__dict__)

    # A query that the other child could not answer anyway is not poorer without it.
    caplog.clear()
    assert await backend.retrieve("a", MemoryQuery(namespaces=frozenset({"l"}))) == ()
    assert not caplog.records


async def test_a_query_fails_when_all_fail_that_could_answer() -> None:
    left, right = Child(), Child()
    backend = await composite(left, right)
    left.error = right.error = CUT
    with pytest.raises(MemoryRetrievalError, match=r"no answer from left \(MemoryRetrievalError\), right"):
        await backend.retrieve("a", MemoryQuery())

    left.error = None
    with pytest.raises(MemoryRetrievalError, match="no answer from right"):
        await backend.retrieve("a", MemoryQuery(namespaces=frozenset({"r"})))


@pytest.mark.parametrize("error", [builtins.MemoryError(), RecursionError()])
async def test_the_end_of_memory_is_nobodys_partial_answer(error: Exception) -> None:
    left, right = Child(), Child()
    backend = await composite(left, right)
    right.error = error
    with pytest.raises(type(error)):
        await backend.retrieve("a", MemoryQuery())


ONE = record("a")

#: Calls whose answer would be wrong without one of the children.
WHOLE: dict[str, Callable[[CompositeBackend], Awaitable[object]]] = {
    "count": lambda backend: backend.count("a"),
    "count_where": lambda backend: backend.count_where(Where(agent_id="a")),
    "delete": lambda backend: backend.delete("a", ONE.entry.id),
    "delete_many": lambda backend: backend.delete_many("a", [ONE.entry.id]),
    "delete_where": lambda backend: backend.delete_where(Where(agent_id="a")),
    "get": lambda backend: backend.get("a", ONE.entry.id),
    "get_many": lambda backend: backend.get_many("a", [ONE.entry.id]),
    "scopes": lambda backend: backend.scopes(Where(agent_id="a"), "session_id"),
    "scan": lambda backend: backend.scan(Where(agent_id="a")),
    "set_metadata_many": lambda backend: backend.set_metadata_many("a", [ONE.entry.id], MemoryMetadata()),
    "claim": lambda backend: backend.claim(Where(agent_id="a"), "t"),
    "unclaim": lambda backend: backend.unclaim("a"),
    "store_many": lambda backend: backend.store_many([record("a")]),
}


@pytest.mark.parametrize("name", WHOLE)
async def test_no_count_page_or_removal_leaves_a_child_out(name: str) -> None:
    right = Child()
    backend = await composite(Child(), right)
    right.error = CUT
    with pytest.raises(MemoryRetrievalError, match="does not answer"):
        await WHOLE[name](backend)


async def test_a_memory_is_found_by_its_id_though_the_other_child_fails() -> None:
    right = Child()
    backend = await composite(Child(), right)
    await backend.store_many([ONE])
    right.error = CUT
    assert await backend.get("a", ONE.entry.id) is not None


async def test_when_one_child_cannot_be_connected_none_is() -> None:
    left, right = Child(), Child()
    backend = CompositeBackend({"left": left, "right": right}, routes={}, default="left", company="c")
    right.error = MemoryConnectionError("no")
    with pytest.raises(MemoryConnectionError, match="no"):
        await backend.connect()
    assert not left.is_connected

    right.error = None
    await backend.connect()
    assert backend.is_connected
    await right.disconnect()
    assert (backend.is_connected, await backend.health_check()) == (False, False)


async def test_the_smallest_cap_is_the_cap() -> None:
    backend = await composite(Child(max_memories=7), Child(max_memories=9))
    assert backend.max_memories_per_agent == 7
    assert (backend.supports_graph, backend.supports_vector_search, backend.supports_temporal) == (False, False, True)


async def test_a_memory_from_before_a_change_of_the_routes_stays_one_memory() -> None:
    left, right = Child(), Child()
    backend = await composite(left, right)
    old, new = record("a", namespace="r"), record("a", namespace="r")
    await backend.store_many([old])

    changed = await composite(left, right, other="right")
    await changed.store_many([old, new])

    assert (await left.count("a"), await right.count("a"), await changed.count("a")) == (1, 1, 2)
    assert await changed.delete("a", old.entry.id)
    assert await right.count("a") == 0


async def test_marks_are_counted_in_every_child() -> None:
    backend = await composite(Child(), Child())
    await backend.store_many([record("a"), record("a", namespace="r"), record("a", namespace="r")])

    assert await backend.claim(Where(agent_id="a", namespaces=frozenset({"r"})), "t") == 2
    assert await backend.claim(Where(agent_id="a", namespaces=frozenset({"l", "default"})), "t") == 3
    assert await backend.delete_where(Where(agent_id="a", token="t")) == 3


@settings(max_examples=examples(25))
@given(
    places=st.lists(st.tuples(st.sampled_from("lmr"), st.integers(0, 3)), max_size=30),
    limit=st.integers(1, 9),
    removed=st.sets(st.integers(0, 29)),
)
async def test_pages_over_three_children_are_those_of_one_list(
    places: list[tuple[str, int]], limit: int, removed: set[int]
) -> None:
    backend = CompositeBackend(
        {name: Child() for name in "lmr"}, routes={name: name for name in "mr"}, default="l", company="c"
    )
    await backend.connect()
    made = [record("a", namespace=place, created_at=DAWN + timedelta(seconds=n)) for place, n in places]
    await backend.store_many(made)
    everything = Where(agent_id="a")
    assert [one.entry.id for one in await scanned(backend, everything, limit=limit)] == order(made)

    # A page's memories may be gone before the next page is asked for, and so may others.
    first = await backend.scan(everything, limit=limit)
    gone = {made[n].entry.id for n in removed if n < len(made)} | {one.entry.id for one in first.records}
    await backend.delete_many("a", sorted(gone))
    seen: list[str] = []
    cursor = first.cursor
    while cursor is not None:
        page = await backend.scan(everything, cursor=cursor, limit=limit)
        seen += [one.entry.id for one in page.records]
        cursor = page.cursor
    assert seen == [memory_id for memory_id in order(made) if memory_id not in gone]


@pytest.mark.parametrize("cursor", ["", "x y", "2026-03-01T08:30:15", "2026-03-01T08:30:15 id", "2026-03-01T08:30:15Z"])
async def test_a_cursor_of_another_make_is_refused(cursor: str) -> None:
    backend = await composite(Child(), Child())
    with pytest.raises(MemoryInputError, match="cursor"):
        await backend.scan(Where(agent_id="a"), cursor=cursor)
