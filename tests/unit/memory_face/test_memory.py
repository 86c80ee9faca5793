"""Memory and AsyncMemory over a broker that writes down what it is given, and a backend inside the process."""

import asyncio
import inspect
import json
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.execution_traces import trace

from memcore import (
    AsyncMemory,
    AsyncMemoryClient,
    DistillReceipt,
    InMemoryBackend,
    JobReceipt,
    Memory,
    MemoryClient,
    MemoryConfigError,
    MemoryConnectionError,
    MemoryEntry,
    MemoryInputError,
    MemoryStoreRequest,
    Policy,
    Settings,
    StoreReceipt,
    TurnReceipt,
)
from memcore.client.envelopes import OutgoingJob
from memcore.client.results import JobState, JobStatus
from memcore.errors import MemoryRefusedError
from memcore.retrieval import pipeline

BROKER_URL = "redis://127.0.0.1:1/0"


class Broker:
    """Takes the place of a client's connection."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self.asked: list[str] = []
        self.state = JobState.DONE
        self.closed = 0

    def send_many(self, name: str, outgoing_jobs: Iterable[OutgoingJob], **_how: object) -> None:
        self.sent.extend((str(name), json.loads(outgoing_job.payload)) for outgoing_job in outgoing_jobs)

    def send(self, name: str, payload: str, *, job_id: str, **_how: object) -> str:
        self.sent.append((str(name), json.loads(payload)))
        return job_id

    def status(self, job_id: str) -> JobStatus:
        self.asked.append(job_id)
        return JobStatus(job_id=job_id, state=self.state, reason="level none")

    def close(self) -> None:
        self.closed += 1

    @property
    def stored(self) -> list[dict[str, Any]]:
        return [item for _, payload in self.sent for item in payload["items"]]


class Store(InMemoryBackend):
    """Counts how often it is opened and closed, and in which thread it works."""

    def __init__(self) -> None:
        super().__init__(company="default")
        self.opened = self.closed = 0
        self.threads: set[str] = set()

    async def connect(self) -> None:
        self.opened += 1
        self.threads.add(threading.current_thread().name)
        await super().connect()

    async def disconnect(self) -> None:
        self.closed += 1
        await super().disconnect()


class Installation:
    """A broker and a store, and the objects that reach them."""

    def __init__(self) -> None:
        self.broker = Broker()
        self.store = Store()
        self.made = 0
        self.closing = ExitStack()

    def memory(self) -> Memory:
        client = MemoryClient(BROKER_URL)
        client._opened = self.broker  # type: ignore[assignment]  # it has what these calls need
        return self.closing.enter_context(Memory(client, open_backend=self.open_backend, policy=Policy()))

    def async_memory(self) -> AsyncMemory:
        client = AsyncMemoryClient(BROKER_URL)
        client.blocking._opened = self.broker  # type: ignore[assignment]  # as above
        return AsyncMemory(client, open_backend=self.open_backend, policy=Policy())

    def open_backend(self) -> Store:
        self.made += 1
        return self.store

    def hold(self, agent_id: str, *texts: str) -> list[str]:
        """Write what a worker would have written."""

        async def write() -> list[str]:
            await InMemoryBackend.connect(self.store)
            requests = [MemoryStoreRequest.model_validate({"category": "semantic", "content": each}) for each in texts]
            return [await self.store.store(agent_id, request) for request in requests]

        with ThreadPoolExecutor(1) as pool:
            return pool.submit(lambda: asyncio.run(write())).result()


@pytest.fixture
def given() -> Iterator[Installation]:
    installation = Installation()
    with installation.closing:
        yield installation


def test_given_a_text_when_stored_then_the_workers_get_a_semantic_memory(given: Installation) -> None:
    receipt = given.memory().store("oncall", "The payment queue pages at 500.")

    (item,) = given.broker.stored
    assert receipt.memory_ids == (item["id"],)
    assert item["agent_id"] == "oncall"
    assert item["request"]["content"] == "The payment queue pages at 500."
    assert item["request"]["category"] == "semantic"
    assert given.made == 0


def test_given_keywords_when_stored_then_each_is_where_a_request_has_it(given: Installation) -> None:
    given.memory().store(
        "oncall",
        "Deploys are frozen.",
        category="episodic",
        namespace="deploys",
        source="chat-7",
        confidence=0.5,
        tags=["freeze"],
        expires_at=datetime(2999, 1, 1, tzinfo=UTC),
        session_id="s",
        project_id="p",
        task_id="t",
    )

    (item,) = given.broker.stored
    request = item["request"]
    assert (request["category"], request["namespace"], request["expires_at"]) == (
        "episodic",
        "deploys",
        "2999-01-01T00:00:00Z",
    )
    assert request["metadata"] == {"source": "chat-7", "confidence": 0.5, "tags": ["freeze"]}
    assert (item["session_id"], item["project_id"], item["task_id"]) == ("s", "p", "t")


def test_given_texts_and_requests_when_stored_in_bulk_then_keywords_describe_the_texts(given: Installation) -> None:
    own = MemoryStoreRequest.model_validate({"category": "social", "content": "Ada asks Grace."})
    memories: list[Any] = ["one", own, {"category": "working", "content": "three"}]

    receipt = given.memory().store_many("oncall", memories, category="procedural", tags={"tea"}, session_id="s")

    items = given.broker.stored
    assert [item["request"]["category"] for item in items] == ["procedural", "social", "working"]
    assert [item["request"]["metadata"]["tags"] for item in items] == [["tea"], [], []]
    assert {item["session_id"] for item in items} == {"s"}
    assert receipt.memory_ids == tuple(item["id"] for item in items)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda memory: memory.store("a", " "), "content: must not be blank"),
        (lambda memory: memory.store("a", None), "content: must be a valid string"),
        (lambda memory: memory.store("a", "x", category="tea"), "category: must be 'working'"),
        (lambda memory: memory.store("a", "x", confidence=2), "confidence: must be less than or equal to 1"),
        (lambda memory: memory.store("a", "x", tags="tea"), "tags: must be a valid tuple"),
        (lambda memory: memory.store("a", "x", session_id=" "), "session_id: must not be blank"),
        (lambda memory: memory.store("a", "x", metadata={}), "metadata: is not a known field"),
        (lambda memory: memory.store("", "x"), "agent_id: must not be blank"),
        (lambda memory: memory.store_many("a", "xyz"), "memories: must be several memories"),
        (lambda memory: memory.store_many("a", ["x", ""]), "memories.1.content: must not be blank"),
        (lambda memory: memory.store_many("a", ["x", 5]), "memories.1: must be a MemoryStoreRequest or a mapping"),
        (lambda memory: memory.search("a", "x", limit=0), "limit: must be greater than or equal to 1"),
        (lambda memory: memory.search("a", "x", colour="red"), "colour: is not a known field"),
        (lambda memory: memory.prepare("a", "x", token_budget=9, categories=["tea"]), "categories.0: must be"),
        (lambda memory: memory.distill("a", {}), "is missing"),
        (lambda memory: memory.applied("a", "no id", "success"), "skill_id: "),
    ],
)
def test_given_a_wrong_value_when_called_then_the_field_is_named_and_nothing_is_sent(
    given: Installation, call: Callable[[Any], object], said: str
) -> None:
    with pytest.raises(MemoryInputError) as refused:
        call(given.memory())
    with pytest.raises(MemoryInputError) as refused_later:
        asyncio.run(_awaited(call(given.async_memory())))

    assert said in str(refused.value)
    assert str(refused_later.value) == str(refused.value)
    assert given.broker.sent == []
    assert given.made == 0


async def _awaited(work: Any) -> Any:
    return await work


def test_given_stored_memories_when_searched_then_the_best_come_first(given: Installation) -> None:
    first, second = given.hold("oncall", "The payment queue pages at 500.", "Deploys are frozen on Fridays.")

    with given.memory() as memory:
        found = memory.search("oncall", "payment queue", limit=1)
        assert [entry.id for entry in found] == [first]
        assert [entry.id for entry in memory.search("oncall")] == [second, first]
        assert memory.search("oncall", "payment queue", categories=["episodic"]) == ()
        assert memory.search("grace", "payment queue") == ()


def test_given_an_id_when_got_then_its_memory_or_none_is_returned(given: Installation) -> None:
    (memory_id,) = given.hold("oncall", "The payment queue pages at 500.")

    with given.memory() as memory:
        found = memory.get("oncall", memory_id)
        assert isinstance(found, MemoryEntry)
        assert memory.get("grace", memory_id) is None


def test_given_memories_when_prepared_then_they_are_fenced_and_their_use_is_sent(given: Installation) -> None:
    (memory_id,) = given.hold("oncall", "The payment queue pages at 500.")

    with given.memory() as memory:
        messages = memory.prepare("oncall", "payment queue pages", token_budget=400)
        assert memory.prepare("oncall", "payment queue", token_budget=0) == ()

    assert "The payment queue pages at 500." in messages[-1].content
    (sent,) = [payload for name, payload in given.broker.sent if "use" in name]
    assert [(use["agent_id"], use["memory_id"], use["uses"]) for use in sent["uses"]] == [("oncall", memory_id, 1)]


@pytest.mark.parametrize("step", ["varied", "fit_parts", "asked_range", "by_subject"])
def test_given_long_texts_when_compared_then_other_calls_go_on(
    given: Installation, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given.hold("oncall", "the payment queue pages", "the payment queue sleeps")
    compare, others, went_on = getattr(pipeline, step), threading.Event(), list[bool]()

    async def engine() -> None:
        loop, memory = asyncio.get_running_loop(), given.async_memory()

        def long(*args: Any, **how: Any) -> Any:
            loop.call_soon_threadsafe(others.set)
            went_on.append(others.wait(0.3))
            return compare(*args, **how)

        monkeypatch.setattr(pipeline, step, long)
        await memory.prepare("oncall", "payment queue", token_budget=500)
        await memory.close()

    asyncio.run(engine())
    assert went_on[0]


def test_given_a_store_that_waits_when_it_returns_then_a_worker_has_written_it(given: Installation) -> None:
    receipt = given.memory().store("oncall", "one", wait=True)
    many = asyncio.run(_awaited(given.async_memory().store_many("oncall", ["two"], wait=True)))
    assert given.broker.asked == [*receipt.job_ids, *many.job_ids]
    given.memory().store("oncall", "three")
    assert len(given.broker.asked) == 2

    given.broker.state = JobState.SKIPPED
    # What will never be written is not a store that is away.
    with pytest.raises(MemoryRefusedError, match="level none"):
        given.memory().store("oncall", "four", wait=True)


@pytest.mark.parametrize(
    "jobs",
    [StoreReceipt(job_ids=("1",), memory_ids=("m",)), JobReceipt(job_id="1"), "1", ["1"]],
    ids=["store receipt", "job receipt", "id", "ids"],
)
def test_given_a_receipt_or_ids_when_waited_for_then_each_job_is_told(given: Installation, jobs: Any) -> None:
    (status,) = given.memory().wait(jobs)
    (later,) = asyncio.run(_awaited(given.async_memory().wait(jobs)))

    assert (status.job_id, status.state) == ("1", "done")
    assert later == status
    assert given.broker.asked == ["1", "1"]


def test_given_a_trace_when_distilled_then_the_client_sends_it_with_its_scope(given: Installation) -> None:
    receipt = given.memory().distill("oncall", trace("t-1"), session_id="s")
    later = asyncio.run(_awaited(given.async_memory().distill("oncall", trace("t-1"), session_id="s")))

    assert receipt is not None
    assert isinstance(later, DistillReceipt)
    assert later.trace_id == receipt.trace_id
    assert [payload["session_id"] for _, payload in given.broker.sent] == ["s", "s"]


def test_given_a_skill_when_applied_then_the_client_sends_it(given: Installation) -> None:
    skill_id = "0197b2f0-0000-7000-8000-000000000000"
    receipt = given.memory().applied("oncall", skill_id, "success", task_id="t")

    assert receipt is not None
    assert len(given.broker.sent) == 1


def test_given_a_turn_when_sent_then_both_faces_send_the_same_one_and_its_end(given: Installation) -> None:
    said: dict[str, Any] = {
        "session_id": "s-1",
        "user_text": "I live in Berlin",
        "assistant_text": "Noted.",
        "turn": "7",
    }
    first = given.memory().extract_turn("oncall", user_id="mia", **said)
    later = asyncio.run(_awaited(given.async_memory().extract_turn("oncall", user_id="mia", **said)))
    ended = given.memory().end_conversation("oncall", session_id="s-1", user_id="mia")
    also = asyncio.run(_awaited(given.async_memory().end_conversation("oncall", session_id="s-1", user_id="mia")))

    assert first is not None
    assert isinstance(later, TurnReceipt)
    assert first.turn_id == later.turn_id
    assert ended is not None
    assert also is not None
    names = ["memory.conversation.turn", "memory.conversation.turn", *["memory.conversation.close"] * 2]
    assert [name for name, _ in given.broker.sent] == names
    assert {payload["subject"] for _, payload in given.broker.sent} == {"user:mia"}


def test_given_many_threads_when_reading_then_the_store_is_opened_once(given: Installation) -> None:
    given.hold("oncall", "The payment queue pages at 500.")

    with given.memory() as memory, ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: len(memory.search("oncall", "payment queue")), range(64)))

    assert found == [1] * 64
    assert (given.made, given.store.opened, given.store.closed) == (1, 1, 1)
    assert given.store.threads == {"memtend-memory"}


def test_given_a_running_event_loop_when_memory_is_used_in_it_then_it_works(given: Installation) -> None:
    given.hold("oncall", "The payment queue pages at 500.")

    async def engine() -> int:
        with given.memory() as memory:
            memory.store("oncall", "Another.")
            return len(memory.search("oncall", "payment queue"))

    assert asyncio.run(engine()) == 1
    assert len(given.broker.stored) == 1


def test_given_a_closed_memory_when_used_again_then_it_opens_again(given: Installation) -> None:
    memory = given.memory()
    memory.search("oncall")
    memory.close()
    memory.close()
    memory.search("oncall")
    memory.close()

    assert (given.made, given.store.opened, given.store.closed) == (2, 2, 2)
    assert "memtend-memory" not in {thread.name for thread in threading.enumerate()}


def test_given_a_read_that_is_running_when_closed_then_it_is_answered_first(given: Installation) -> None:
    reading, go_on = threading.Event(), threading.Event()

    class Slow(Store):
        async def get(self, agent_id: str, memory_id: str) -> MemoryEntry | None:
            reading.set()
            await asyncio.to_thread(go_on.wait)
            return await super().get(agent_id, memory_id)

    given.store = Slow()
    memory = given.memory()
    with ThreadPoolExecutor(2) as pool:
        answer = pool.submit(memory.get, "oncall", "no such id")
        assert reading.wait(10)
        closing = pool.submit(memory.close)
        assert not closing.done()
        assert given.store.closed == 0
        go_on.set()
        assert answer.result(10) is None
        closing.result(10)
    assert given.store.closed == 1


def test_given_a_store_that_is_away_when_read_then_the_error_is_typed_and_the_next_read_tries_again(
    given: Installation,
) -> None:
    class Away(Store):
        async def connect(self) -> None:
            if self.opened == 0:
                self.opened += 1
                raise MemoryConnectionError("the store does not answer")
            await super().connect()

    given.store = Away()
    with given.memory() as memory:
        with pytest.raises(MemoryConnectionError, match="does not answer"):
            memory.search("oncall", "tea")
        assert memory.search("oncall", "tea") == ()


async def test_given_an_event_loop_when_async_memory_is_used_then_it_does_the_same(given: Installation) -> None:
    (memory_id,) = given.hold("oncall", "The payment queue pages at 500.")

    async with given.async_memory() as memory:
        stored = await memory.store("oncall", "The payment queue pages at 500.", tags=["tea"])
        many = await memory.store_many("oncall", ["one", "two"], category="episodic")
        searches = (memory.search("oncall", "payment queue", limit=3) for _ in range(8))
        found = await asyncio.gather(*searches)
        messages = await memory.prepare("oncall", "payment queue", token_budget=400)
        assert (await memory.get("oncall", memory_id)) == (await memory.search("oncall"))[0]

    assert {entry.id for each in found for entry in each} == {memory_id}
    assert "pages at 500" in messages[-1].content
    assert len(stored.memory_ids + many.memory_ids) == 3
    assert (given.made, given.store.opened, given.store.closed) == (1, 1, 1)
    assert given.store.threads == {threading.current_thread().name}
    assert given.broker.closed == 1


def test_given_another_event_loop_when_async_memory_reads_then_it_says_what_to_do(given: Installation) -> None:
    memory = given.async_memory()
    asyncio.run(_awaited(memory.search("oncall")))

    with pytest.raises(RuntimeError, match="make one for each loop, or use Memory"):
        asyncio.run(_awaited(memory.search("oncall")))


@pytest.mark.parametrize("face", [Memory, AsyncMemory])
def test_given_no_stack_when_made_from_the_environment_then_the_sentence_says_what_is_missing(
    face: type[Memory | AsyncMemory], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMTEND_HOME", str(tmp_path / "nothing"))

    with pytest.raises(MemoryConfigError, match="memtend up"):
        face.from_environment()


def test_given_a_backend_inside_the_workers_when_read_then_it_is_refused(tmp_path: Path) -> None:
    settings = Settings(
        broker_url=BROKER_URL,
        database_url=f"sqlite:///{tmp_path}/ledger.db",
        qdrant_url="http://127.0.0.1:1",
        home=tmp_path,
    )
    policy = Policy.model_validate({"memory": {"backend": "inmemory"}})

    with (
        Memory.from_settings(settings, policy) as memory,
        pytest.raises(MemoryConfigError, match=r"memory\.backend: 'inmemory' keeps memories inside one process"),
    ):
        memory.search("oncall", "tea")


@pytest.mark.parametrize(("blocking", "awaited"), [(Memory, AsyncMemory), (MemoryClient, AsyncMemoryClient)])
def test_given_the_two_forms_of_a_class_when_compared_then_their_calls_are_the_same(
    blocking: type, awaited: type
) -> None:
    assert calls_of(blocking) == calls_of(awaited)


def calls_of(face: type) -> set[tuple[str, tuple[object, ...]]]:
    """Return each public method with its parameters and their defaults."""
    methods = inspect.getmembers(face, callable)
    return {
        (name, tuple((each.name, each.kind, each.default) for each in inspect.signature(method).parameters.values()))
        for name, method in methods
        # A backend is awaited: what runs no event loop cannot use it.
        if not name.startswith("_") and name not in {"finished", "backend"}
    }


def test_given_a_memory_without_settings_when_mem0_is_asked_for_then_it_says_what_to_do(given: Installation) -> None:
    with pytest.raises(MemoryConfigError, match="from_settings"):
        given.memory().mem0("oncall")
    with pytest.raises(MemoryConfigError, match="from_settings"):
        asyncio.run(given.async_memory().mem0("oncall"))


def test_given_settings_when_mem0_is_asked_for_then_it_opens_over_the_backend_that_is_read(given: Installation) -> None:
    asked: list[tuple[object, str]] = []

    def opener(backend: object, agent_id: str) -> Any:
        asked.append((backend, agent_id))
        return "a mem0.Memory"

    blocking, awaited = given.memory(), given.async_memory()
    blocking._open_mem0 = awaited._open_mem0 = opener

    assert blocking.mem0("oncall") == "a mem0.Memory"
    assert asyncio.run(awaited.mem0("deploys")) == "a mem0.Memory"
    assert asked == [(given.store, "oncall"), (given.store, "deploys")]
    assert given.store.is_connected
    blocking.close()
