"""MemtendStore beside LangGraph's own store: the same operations on both, the same results."""

import asyncio
import string
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any, TypedDict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.graph import START, StateGraph
from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchItem,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore
from support.fake_memory import AnyMemory, FakeClock, FakeMemory, LocalMemory
from support.present import present
from support.running_stack import wait_until

from memcore.adapters.langgraph import AsyncMemtendStore, MemoryFilterError, MemtendStore
from memcore.adapters.values import new_id
from memcore.errors import MemoryConnectionError, MemoryInputError

AGENT = "oncall"
USERS = ("users", "ada")


class TidyStore(InMemoryStore):
    """LangGraph's store, but a namespace without items is not listed, as in its stores on databases."""

    def _handle_list_namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        for namespace in [each for each, items in self._data.items() if not items]:
            del self._data[namespace]
        return super()._handle_list_namespaces(op)


def store_of(memory: AnyMemory, **how: Any) -> MemtendStore:
    return MemtendStore(memory, agent_id=AGENT, clock=memory.clock, **how)


@pytest.fixture
def store(memory: AnyMemory) -> MemtendStore:
    return store_of(memory)


def plain(found: Any) -> Any:
    """Return what both stores must agree on: not the times, and scores not at all."""
    if isinstance(found, Item):
        return (found.namespace, found.key, found.value)
    return [plain(each) if isinstance(each, SearchItem) else each for each in found] if found is not None else None


def unordered(found: Any) -> Any:
    return sorted(map(repr, plain(found)))


def test_what_is_put_can_be_got_at_once(store: MemtendStore) -> None:
    store.put(USERS, "prefs", {"theme": "dark"})
    item = present(store.get(USERS, "prefs"))
    assert plain(item) == (USERS, "prefs", {"theme": "dark"})
    assert item.created_at <= item.updated_at
    assert item.created_at.tzinfo is not None


def test_the_time_of_an_item_is_that_of_the_last_put(store: MemtendStore) -> None:
    times = []
    for _ in range(2):
        store.put(USERS, "k", {"a": 1})
        item = present(store.get(USERS, "k"))
        times.append(item.updated_at)
    assert times[0] < times[1]


def test_a_value_comes_back_after_another_and_after_a_delete(store: MemtendStore) -> None:
    for value in ({"at": "a"}, {"at": "b"}, {"at": "a"}):
        store.put(USERS, "place", value)
        assert plain(store.get(USERS, "place"))[2] == value
    store.delete(USERS, "place")
    assert store.get(USERS, "place") is None
    store.put(USERS, "place", {"at": "a"})
    assert plain(store.get(USERS, "place"))[2] == {"at": "a"}


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"": ""},
        {"nul": "a\0b", "half": "\ud800"},
        {"n": [0, -1, 2**53 + 1, 10**30, 0.1, 1 / 3, -0.0, 1e-300, True, None]},
        {"deep": {"er": [{"a": [[[{}]]]}]}},
        {"text": "é漢🙂" * 100},
        {"large": "x" * 9_000},
        {"large": "漢" * 9_000},
        {"value": 1, "value_from": 2, "version": 3, "store": "x"},
    ],
    ids=lambda value: ",".join(value) or "empty",
)
def test_any_json_comes_back_exactly(store: MemtendStore, value: dict[str, Any]) -> None:
    store.put(USERS, "value", value)
    found = present(store.get(USERS, "value"))
    assert repr(found.value) == repr(value)
    assert [repr(each.value) for each in store.search(USERS)] == [repr(value)]


@pytest.mark.parametrize(
    "key", ["", " ", "a b", " a ", "a\nb", "%", "%25", "a.b", "é", "\u202e", "a/b", "K", "k", "\ud800"]
)
def test_any_key_and_label_comes_back_exactly(store: MemtendStore, key: str) -> None:
    store.put(USERS, key, {"key": key})
    store.put(("users", (key or "x").replace(".", ",")), "k", {"key": key})
    assert plain(store.get(USERS, key)) == (USERS, key, {"key": key})
    assert (USERS, key) in [(each.namespace, each.key) for each in store.search(("users",))]
    assert ("users", (key or "x").replace(".", ",")) in store.list_namespaces()


@pytest.mark.parametrize(
    ("namespace", "key", "value", "field"),
    [
        (("n" * 250,), "k", {}, "namespace"),
        (("n",), "k" * 257, {}, "key"),
        (("n",), "k", {"large": "x" * 60_000}, "value"),
        (("n",), "k", {"nan": float("nan")}, "value"),
        (("n",), "k", {"set": {1}}, "value"),
    ],
)
def test_what_has_no_place_is_refused_and_nothing_is_written(
    store: MemtendStore, memory: AnyMemory, namespace: tuple[str, ...], key: str, value: dict[str, Any], field: str
) -> None:
    with pytest.raises(MemoryInputError) as raised:
        store.batch([PutOp(("other",), "k", {}), PutOp(namespace, key, value)])
    assert raised.value.field == field
    assert memory.entries == []


@pytest.mark.parametrize("namespace", [(), ("a.b",), ("",), ("langgraph", "x"), ("a\0",)])
def test_the_namespaces_that_langgraph_refuses_are_refused(store: MemtendStore, namespace: tuple[str, ...]) -> None:
    with pytest.raises(InvalidNamespaceError):
        store.put(namespace, "k", {})
    if namespace and namespace[0] != "langgraph":
        with pytest.raises(InvalidNamespaceError):
            store.batch([PutOp(namespace, "k", {})])


ITEMS: list[tuple[tuple[str, ...], str, dict[str, Any]]] = [
    (("docs", "a"), "1", {"type": "report", "score": 4.5, "tags": ["x", "y"], "by": {"name": "ada", "age": 36}}),
    (("docs", "a"), "2", {"type": "note", "score": 2, "open": True}),
    (("docs", "b"), "1", {"type": "report", "score": 9, "large": "z" * 9_000}),
    (("docs", "b", "c"), "3", {"type": "report", "score": "7", "by": {"name": "bob"}}),
    (("docs",), "4", {"type": None, "score": -1, "at": "2026-01-02"}),
    (("other",), "5", {"type": "report", "score": 5, "a.b": "dotted"}),
]


Both = tuple[MemtendStore, TidyStore]


def filled(memory: AnyMemory) -> Both:
    pair = store_of(memory), TidyStore()
    for each in pair:
        each.batch([PutOp(*item) for item in ITEMS])
    return pair


@pytest.fixture
def both(fake: FakeMemory) -> Both:
    return filled(fake)


FILTERS: list[dict[str, Any] | None] = [
    None,
    {},
    {"type": "report"},
    {"type": {"$eq": "report"}},
    {"type": {"$ne": "report"}},
    {"type": None},
    {"score": {"$gt": 4}},
    {"score": {"$gte": 4.5}},
    {"score": {"$lt": 5}},
    {"score": {"$lte": 5, "$gt": -1}},
    {"score": 9, "type": "report"},
    {"score": 9.0},
    {"open": True},
    {"open": 1},
    {"tags": ["x", "y"]},
    {"tags": ["x"]},
    {"by": {"name": "ada"}},
    {"by": {"age": {"$ne": 36}}},
    {"a.b": "dotted"},
    {"missing": {"$ne": 1}},
    {"missing": "x"},
]


PREFIXES: list[tuple[str, ...]] = [(), ("docs",), ("docs", "b"), ("nothing",), ("doc",)]


@pytest.mark.parametrize("wanted", FILTERS, ids=str)
@pytest.mark.parametrize("prefix", PREFIXES, ids=str)
def test_a_search_finds_what_langgraphs_store_finds(
    both: Both, prefix: tuple[str, ...], wanted: dict[str, Any] | None
) -> None:
    ours, theirs = both
    assert unordered(ours.search(prefix, filter=wanted)) == unordered(theirs.search(prefix, filter=wanted))


def test_searches_of_the_real_memory_find_the_same(local: LocalMemory) -> None:
    ours, theirs = filled(local)
    for prefix in PREFIXES:
        for wanted in FILTERS:
            found = unordered(ours.search(prefix, filter=wanted))
            assert found == unordered(theirs.search(prefix, filter=wanted)), (prefix, wanted)


@pytest.mark.parametrize(
    ("wanted", "keys"),
    [
        ({"at": {"$gt": "2026-01-01"}}, ["4"]),
        ({"at": {"$lt": "2026-01-01"}}, []),
        ({"type": {"$gte": 1}}, []),
        ({"tags": {"$lt": 1}}, []),
        ({"open": {"$gt": "nan"}}, []),
    ],
)
def test_what_has_no_order_does_not_match(both: Both, wanted: dict[str, Any], keys: list[str]) -> None:
    ours, _ = both
    assert [each.key for each in ours.search((), filter=wanted)] == keys


def test_an_unknown_operator_is_refused(both: Both) -> None:
    ours, theirs = both
    for each in (ours, theirs):
        with pytest.raises(ValueError, match=r"\$in"):
            each.search((), filter={"type": {"$in": ["a"]}})


@pytest.mark.parametrize("wanted", [None, {"type": "report"}, {"score": {"$gt": 2}}], ids=str)
def test_pages_cover_all_once(both: Both, wanted: dict[str, Any] | None) -> None:
    ours, theirs = both
    pages = [ours.search((), filter=wanted, limit=2, offset=offset) for offset in range(0, 8, 2)]
    assert all(len(page) <= 2 for page in pages)
    assert unordered([item for page in pages for item in page]) == unordered(theirs.search((), filter=wanted))


def test_the_oldest_come_first(both: Both) -> None:
    ours, _ = both
    assert [each.key for each in ours.search(())] == [key for _, key, _ in ITEMS]


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"prefix": ("docs",)},
        {"suffix": ("b",)},
        {"prefix": ("docs", "*"), "suffix": ("c",)},
        {"prefix": ("*", "a")},
        {"suffix": ("*", "*", "*")},
        {"max_depth": 1},
        {"max_depth": 2, "prefix": ("docs",)},
        {"limit": 2},
        {"limit": 2, "offset": 2},
        {"offset": 9},
    ],
    ids=str,
)
def test_namespaces_are_listed_as_in_langgraphs_store(both: Both, how: dict[str, Any]) -> None:
    ours, theirs = both
    assert ours.list_namespaces(**how) == theirs.list_namespaces(**how)


def test_other_memories_and_other_roots_are_not_seen(store: MemtendStore, memory: AnyMemory) -> None:
    other = store_of(memory, root="second")
    other.put(USERS, "k", {"is": "other"})
    memory.put(AGENT, "A memory of the agent's own.")
    foreign = {"value": {"is": "another client's"}}
    memory.put(AGENT, "Another client wrote here.", namespace="langgraph.users.ada", key="k", attributes=foreign)
    assert store.get(USERS, "k") is None
    assert store.search(()) == []
    store.delete(USERS, "k")
    assert plain(other.get(USERS, "k"))[2] == {"is": "other"}
    assert len(memory.entries) == 3


def test_a_search_by_text_ranks_by_the_indexed_fields(fake: FakeMemory) -> None:
    store = store_of(fake, fields=("text", "notes[*].body"))
    store.put(USERS, "1", {"text": "likes tea", "secret": "coffee"})
    store.put(USERS, "2", {"text": "x", "notes": [{"body": "drinks coffee"}, {"body": "at noon"}]})
    store.put(USERS, "3", {"text": "coffee"}, index=False)
    store.put(USERS, "4", {"other": "coffee"}, index=["other"])
    store.put(("users", "bob"), "5", {"text": "coffee coffee"})
    found = store.search(USERS, query="coffee")
    assert [each.key for each in found][:2] == ["4", "2"]
    assert {each.key for each in found} == {"1", "2", "4"}
    assert found[0].score is not None
    assert found[0].score > (found[2].score or 0.0)
    assert [each.key for each in store.search((), query="coffee", filter={"text": "x"})] == ["2"]
    assert [each.key for each in store.search(USERS, query="coffee", limit=1, offset=1)] == ["2"]
    assert len(store.search(USERS)) == 4


def test_a_search_by_text_looks_on_until_enough_match(memory: AnyMemory) -> None:
    store = store_of(memory)
    store.batch([PutOp(USERS, str(n), {"text": "coffee", "n": n}) for n in range(120)])
    found = store.search(USERS, query="coffee", filter={"n": {"$gte": 118}}, limit=2)
    assert {each.value["n"] for each in found} == {118, 119}


def test_an_item_goes_when_its_ttl_is_over(store: MemtendStore, clock: FakeClock) -> None:
    store.put(USERS, "k", {"a": 1}, ttl=10)
    clock.move(minutes=10)
    assert store.get(USERS, "k", refresh_ttl=False) is not None
    clock.move(minutes=1, seconds=1)
    assert store.get(USERS, "k") is None
    assert store.search(USERS) == []
    assert store.search(USERS, query="a") == []


@pytest.mark.parametrize("read", ["get", "search", "query"])
def test_a_read_lets_the_ttl_begin_again(store: MemtendStore, memory: AnyMemory, clock: FakeClock, read: str) -> None:
    store.put(USERS, "k", {"a": 1}, ttl=10)
    for _ in range(5):
        clock.move(minutes=9)
        match read:
            case "get":
                assert store.get(USERS, "k") is not None
            case "search":
                assert len(store.search(USERS)) == 1
            case _:
                assert len(store.search(USERS, query="a")) == 1
    assert memory.calls["update"] == 5
    clock.move(minutes=12)
    assert store.get(USERS, "k") is None


def test_a_put_of_the_same_value_lets_the_ttl_begin_again(store: MemtendStore, clock: FakeClock) -> None:
    for _ in range(3):
        store.put(USERS, "k", {"a": 1}, ttl=10)
        clock.move(minutes=9)
    assert store.get(USERS, "k") is not None
    store.put(USERS, "k", {"a": 1})
    clock.move(minutes=90)
    assert store.get(USERS, "k") is not None


def test_reads_close_together_write_once(store: MemtendStore, memory: AnyMemory, clock: FakeClock) -> None:
    store.put(USERS, "k", {"a": 1}, ttl=10)
    clock.move(minutes=2)
    for _ in range(20):
        assert store.get(USERS, "k") is not None
    assert memory.calls["update"] == 1


def test_the_config_of_ttls_is_followed(memory: AnyMemory, clock: FakeClock) -> None:
    store = store_of(memory, ttl={"default_ttl": 10, "refresh_on_read": False})
    store.put(USERS, "short", {})
    store.put(USERS, "long", {}, ttl=None)
    clock.move(minutes=9)
    assert store.get(USERS, "short") is not None
    clock.move(minutes=3)
    assert store.get(USERS, "short") is None
    assert store.get(USERS, "long") is not None
    store.put(USERS, "far", {}, ttl=1e300)
    assert store.get(USERS, "far") is not None
    with pytest.raises(MemoryInputError, match="ttl"):
        store.put(USERS, "none", {}, ttl=0)


def test_a_sweep_forgets_what_has_expired_and_nothing_else(
    store: MemtendStore, memory: AnyMemory, clock: FakeClock
) -> None:
    for number in range(3):
        store.put(USERS, f"short {number}", {"n": number}, ttl=10)
    store.put(USERS, "long", {"n": 4}, ttl=100)
    store.put(USERS, "ever", {"n": 5})
    store_of(memory, root="beside").put(USERS, "short", {"n": 6}, ttl=10)
    memory.put(AGENT, "no item", expires_at=clock() + timedelta(minutes=10))
    assert store.sweep_ttl() == 0
    clock.move(minutes=12)
    assert store.sweep_ttl() == 3
    assert store.sweep_ttl() == 0
    assert sorted(each.key for each in store.search(USERS)) == ["ever", "long"]
    assert store_of(memory, root="beside").sweep_ttl() == 1


def test_a_sweeper_sweeps_at_its_interval_until_it_is_stopped(memory: AnyMemory, clock: FakeClock) -> None:
    store = store_of(memory, ttl={"default_ttl": 10, "sweep_interval_minutes": 1})
    store.put(USERS, "k", {})
    clock.move(minutes=12)
    store.start_ttl_sweeper(0.0001)
    store.start_ttl_sweeper()
    wait_until(lambda: len(memory.list(AGENT, expires_by=clock()).entries) == 0 and store.sweep_ttl() == 0)
    assert store.stop_ttl_sweeper(60)
    assert store.stop_ttl_sweeper()
    store.put(USERS, "k", {})
    clock.move(minutes=12)
    assert store.sweep_ttl() == 1


class Away(FakeMemory):
    """Does not answer at first."""

    refusals = 2

    def forget(self, *given: Any, **named: Any) -> Any:
        if self.refusals:
            self.refusals -= 1
            raise MemoryConnectionError("away")
        return super().forget(*given, **named)

    def namespaces(self, agent_id: str) -> tuple[str, ...]:
        if self.refusals:
            raise MemoryConnectionError("away")
        return super().namespaces(agent_id)


def test_a_sweeper_goes_on_where_memtend_is_away_and_setup_says_so() -> None:
    memory = Away()
    store = store_of(memory, ttl={"default_ttl": 10})
    store.put(USERS, "k", {})
    memory.clock.move(minutes=12)
    with pytest.raises(MemoryConnectionError):
        store.setup()
    store.start_ttl_sweeper(0.0001)
    wait_until(lambda: not memory.kept)
    assert store.stop_ttl_sweeper(60)
    store.setup()


def test_no_sweeper_starts_without_a_config_of_ttls(store: MemtendStore) -> None:
    before = threading.active_count()
    store.start_ttl_sweeper(0.0001)
    assert threading.active_count() == before
    assert store.stop_ttl_sweeper()


def letters(texts: Sequence[str]) -> list[list[float]]:
    """Embed texts by how often each letter is in them."""
    return [[float(text.count(letter)) for letter in string.ascii_lowercase] for text in texts]


@pytest.mark.parametrize("fields", [None, ["text", "notes[*].body"]], ids=str)
@pytest.mark.parametrize("query", ["tea at noon", "coffee", "my yoke"])
def test_an_embedder_scores_as_in_langgraphs_store(fake: FakeMemory, fields: list[str] | None, query: str) -> None:
    index: IndexConfig = {"dims": 26, "embed": letters, "fields": fields}
    ours, theirs = store_of(fake, index=index), InMemoryStore(index=index)
    for each in (ours, theirs):
        each.put(USERS, "1", {"text": "likes tea", "secret": "coffee"})
        each.put(USERS, "2", {"text": "x", "notes": [{"body": "drinks coffee"}, {"body": "at noon"}]})
        each.put(USERS, "3", {"other": "cocoa", "large": "y" * 9_000}, index=["other", "large"])
        each.put(USERS, "1", {"text": "likes mate", "secret": "water"})
    pages: list[dict[str, Any]] = [{"limit": 9}, {"limit": 1, "offset": 1}, {"filter": {"text": "x"}}]
    for how in pages:
        found, wanted = ours.search((), query=query, **how), theirs.search((), query=query, **how)
        assert [each.key for each in found] == [each.key for each in wanted]
        assert [each.score for each in found] == pytest.approx([each.score for each in wanted], abs=1e-5)
    ours.put(USERS, "4", {"text": query}, index=False)
    ours.put(USERS, "5", {"text": " "}, index=["text"])
    assert {each.key for each in ours.search((), query=query)} == {"1", "2", "3"}


async def test_an_embedder_is_awaited_in_the_loop_and_embeds_each_text_once(fake: FakeMemory) -> None:
    loop, embedded = asyncio.get_running_loop(), list[str]()

    async def embed(texts: Sequence[str]) -> list[list[float]]:
        assert asyncio.get_running_loop() is loop
        embedded.extend(texts)
        return letters(texts)

    index: IndexConfig = {"dims": 26, "embed": embed, "fields": ["text"]}
    store = AsyncMemtendStore(fake, agent_id=AGENT, clock=fake.clock, index=index)
    assert store.index_config == index
    assert await store.asearch(USERS, query="tea") == []
    for text in ("tea", "coffee"):
        await store.aput(USERS, text, {"text": text})
        found = await store.asearch(USERS, query="eat")
        assert found[0].key == "tea"
        assert found[0].score == pytest.approx(1)
    assert embedded == ["eat", "tea", "eat", "coffee"]


def test_a_store_holds_4096_vectors(fake: FakeMemory) -> None:
    sizes: list[int] = []

    def embed(texts: Sequence[str]) -> list[list[float]]:
        sizes.append(len(texts))
        return letters(texts)

    store = store_of(fake, index={"dims": 26, "embed": embed, "fields": ["notes[*]"]})
    store.put(USERS, "k", {"notes": [f"{number:04}" for number in range(5_000)]})
    for _ in range(2):
        assert len(store.search(USERS, query="q")) == 1
    assert sizes == [1, 5_000, 1, 904]


@pytest.mark.parametrize("key", ["a') OR 1=1 --", 'a" = "a', "a\\", "a\0b", "`a`"])
def test_a_key_that_would_leave_a_query_is_refused(store: MemtendStore, key: str) -> None:
    store.put(USERS, "k", {"a": 1})
    for query in (None, "a"):
        with pytest.raises(MemoryFilterError, match="Invalid filter key") as raised:
            store.search(USERS, query=query, filter={"a": 1, key: 2})
        assert isinstance(raised.value, ValueError)
        assert isinstance(raised.value, MemoryInputError)


def test_a_filter_finds_a_name_between_dots_where_no_name_has_them(store: MemtendStore) -> None:
    store.put(USERS, "inner", {"by": {"first-name": "ada", "9": {"x": 1}}})
    store.put(USERS, "whole", {"by.first-name": "ada", "by": {"first-name": "bob"}})
    store.put(USERS, "none", {"by": "ada"})

    def keys(wanted: dict[str, Any]) -> list[str]:
        return sorted(each.key for each in store.search(USERS, filter=wanted))

    assert keys({"by.first-name": "ada"}) == ["inner", "whole"]
    assert keys({"by.first-name": "bob"}) == []
    assert keys({"by.9.x": {"$gte": 1}}) == ["inner"]


async def test_the_store_that_is_awaited_stands_in_for_langgraphs(memory: AnyMemory, clock: FakeClock) -> None:
    store = AsyncMemtendStore(memory, agent_id=AGENT, clock=clock, ttl={"default_ttl": 10})
    await store.setup()
    await asyncio.gather(*(store.aput(USERS, str(n), {"n": n}, ttl=None) for n in range(30)))
    assert memory.calls["store_many"] == 1
    assert len(await store.asearch(USERS, limit=100)) == 30
    for call in (
        lambda: store.put(USERS, "k", {}),
        lambda: store.get(USERS, "0"),
        lambda: store.search(USERS),
        lambda: store.batch([GetOp(USERS, "0")]),
    ):
        with pytest.raises(asyncio.InvalidStateError):
            call()
    assert plain(await asyncio.to_thread(store.get, USERS, "7")) == (USERS, "7", {"n": 7})
    await store.aput(USERS, "k", {})
    clock.move(minutes=12)
    assert await store.sweep_ttl() == 1
    await store.start_ttl_sweeper(0.0001)
    assert await store.stop_ttl_sweeper(60)


def test_a_batch_reads_what_was_there_before_and_the_last_put_counts(store: MemtendStore, memory: AnyMemory) -> None:
    store.put(USERS, "k", {"n": 0})
    memory.calls.clear()
    first, _, _, listing, _ = store.batch(
        [
            GetOp(USERS, "k"),
            PutOp(USERS, "k", {"n": 1}),
            PutOp(USERS, "k", {"n": 2}),
            ListNamespacesOp(match_conditions=(MatchCondition("prefix", ("users",)),)),
            PutOp(USERS, "new", {"n": 3}),
        ]
    )
    assert plain(first)[2] == {"n": 0}
    assert listing == [USERS]
    assert memory.calls == {"put": 2}
    assert plain(store.get(USERS, "k"))[2] == {"n": 2}
    with pytest.raises(TypeError):
        store.batch([object()])  # type: ignore[list-item]  # what a newer LangGraph might send


def test_a_large_batch_goes_over_the_queue_at_once(store: MemtendStore, memory: AnyMemory) -> None:
    store.batch([PutOp(USERS, str(n), {"n": n}) for n in range(40)])
    assert memory.calls == {"store_many": 1}
    assert sorted(each.value["n"] for each in store.search(USERS, limit=100)) == [*range(40)]


async def test_the_awaited_calls_do_the_same(store: MemtendStore) -> None:
    await store.aput(USERS, "k", {"a": 1})
    assert plain(await store.aget(USERS, "k")) == (USERS, "k", {"a": 1})
    assert [each.key for each in await store.asearch(("users",))] == ["k"]
    assert await store.alist_namespaces() == [USERS]
    await asyncio.gather(*(store.aput(USERS, str(n), {"n": n}) for n in range(8)))
    assert len(await store.asearch(USERS)) == 9
    await store.adelete(USERS, "k")
    assert await store.aget(USERS, "k") is None


NAMESPACES = st.sampled_from([("a",), ("a", "b"), ("b",), ("a", "b", "c"), ("b", "a")])
KEYS = st.sampled_from(["1", "2", "", "a/b"])
VALUES = st.dictionaries(
    st.sampled_from(["n", "t", "x y"]),
    st.one_of(
        st.integers(-3, 3),
        st.text(max_size=3),
        st.booleans(),
        st.none(),
        st.floats(allow_nan=False, allow_infinity=False),
    ),
    max_size=3,
)
WANTED = st.one_of(st.none(), VALUES, st.fixed_dictionaries({"n": st.fixed_dictionaries({"$ne": st.integers(-3, 3)})}))
OPS = st.one_of(
    st.builds(
        lambda namespace, key, value: PutOp(namespace, key, value, ttl=None),
        NAMESPACES,
        KEYS,
        st.one_of(VALUES, VALUES, st.none()),
    ),
    st.builds(lambda namespace, key: GetOp(namespace, key, refresh_ttl=True), NAMESPACES, KEYS),
    st.builds(lambda prefix, wanted: SearchOp(prefix, wanted, 100), st.one_of(NAMESPACES, st.just(())), WANTED),
    st.builds(
        lambda kind, path, depth: ListNamespacesOp((MatchCondition(kind, path),), depth),
        st.sampled_from(["prefix", "suffix"]),
        NAMESPACES,
        st.one_of(st.none(), st.integers(1, 3)),
    ),
)


BATCHES = st.lists(st.lists(OPS, max_size=4), max_size=12)


def check_same(ours: MemtendStore, batches: list[list[Any]]) -> None:
    theirs = TidyStore()
    for ops in batches:
        for op, left, right in zip(ops, ours.batch(ops), theirs.batch(ops), strict=True):
            if isinstance(op, SearchOp):
                assert unordered(left) == unordered(right), op
            elif isinstance(op, ListNamespacesOp):
                assert left == right, op
            else:
                assert plain(left) == plain(right), op


@given(BATCHES)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_operations_give_what_langgraphs_store_gives(batches: list[list[Any]]) -> None:
    check_same(store_of(FakeMemory()), batches)


@given(BATCHES)
@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
def test_any_operations_on_the_real_memory_give_the_same(local: LocalMemory, batches: list[list[Any]]) -> None:
    check_same(MemtendStore(local, agent_id=new_id(), clock=local.clock), batches)


class State(TypedDict):
    said: Annotated[list[str], lambda before, after: before + after]


def test_a_graph_remembers_across_threads_of_conversation(store: MemtendStore) -> None:
    def answer(state: State, *, store: BaseStore) -> State:
        before = store.get(USERS, "name")
        if before is None:
            store.put(USERS, "name", {"name": state["said"][-1]})
            return {"said": ["nice to meet you"]}
        return {"said": [f"hello {before.value['name']}"]}

    builder = StateGraph(State)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    graph = builder.compile(store=store)
    assert graph.invoke({"said": ["Ada"]})["said"][-1] == "nice to meet you"
    assert graph.invoke({"said": ["again"]})["said"][-1] == "hello Ada"
