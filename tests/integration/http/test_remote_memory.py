"""Memory and RemoteMemory over one stack: the same calls, and the same results and errors, whichever face is asked."""

import json
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from pydantic import BaseModel
from support.execution_traces import trace
from support.memories import new_agent
from support.running_stack import StackAddress
from support.serve_process import ServeProcess, serve_process

from memcore import AsyncMemory, Memory, Policy, RemoteMemory, RemoteRefusedError
from memcore.errors import (
    MemoryConflictError,
    MemoryConnectionError,
    MemoryError,  # noqa: A004  # the reference fixes the name
    MemoryInputError,
)
from memcore.ledger.access.keys import Verb
from memcore.ledger.ledger import Ledger

#: Fields that differ between two runs of one script: when it ran, and the names of jobs and runs.
PASSING = {
    *("created_at", "updated_at", "at", "run_id", "job_id", "job_ids", "cursor", "relevance_score", "scores"),
    # Of the key, which a process does without.
    "principals",
}

UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

EARLY, LATE = datetime(2025, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)

WORDS = ["payments", "queue", "pages", "alarm", "Friday", "printer", "deploy", "rollback", "über", "日本", "tea"]


@pytest.fixture(scope="module")
def server(stack: StackAddress) -> Iterator[ServeProcess]:
    with serve_process(stack.home) as running:
        yield running


def token(stack: StackAddress, *, agents: list[str] | None = None, verbs: tuple[Verb, ...] = tuple(Verb)) -> str:
    ledger = Ledger.open(stack.settings.ledger_urls)
    try:
        return ledger.api_keys.create(
            stack.settings.company, name=new_agent("engine"), verbs=verbs, agents=agents
        ).token
    finally:
        ledger.close()


@pytest.fixture
def near(stack: StackAddress) -> Iterator[Memory]:
    with Memory.from_settings(stack.settings, Policy()) as memory:
        yield memory


@pytest.fixture
def far(stack: StackAddress, server: ServeProcess) -> Iterator[RemoteMemory]:
    with Memory.connect(server.url, key=token(stack)) as memory:
        yield memory


@pytest.mark.parametrize("name", ["team/ada", "/", "a%2Fb", "50% ?#é/", "a/../b"])
def test_an_agents_id_may_have_signs_of_a_path_in_it(stack: StackAddress, server: ServeProcess, name: str) -> None:
    agent = f"{name}{new_agent('named')}"
    with Memory.connect(server.url, key=token(stack, agents=[agent])) as memory:
        memory_id = memory.store(agent, "The printer jams.", key="k/1", wait=True).memory_ids[0]
        memory.update(agent, memory_id, content="The printer jams on Fridays.")
        assert [each.content for each in memory.search(agent, "printer")] == ["The printer jams on Fridays."]
        memory.forget(agent, memory_id)
        assert memory.search(agent, "printer") == ()
        for other in (name.partition("/")[0] or "x", agent.replace("/", "%2F")):
            if other != agent:
                with pytest.raises(MemoryError):
                    memory.search(other, "printer")


@pytest.mark.parametrize("name", [".", ".."])
def test_dots_alone_are_no_agents_id_at_either_face(
    stack: StackAddress, server: ServeProcess, near: Memory, far: RemoteMemory, name: str
) -> None:
    calls: list[Callable[[Any], Any]] = [
        lambda memory: memory.store(name, "The printer jams."),
        lambda memory: memory.put(name, "The printer jams."),
        lambda memory: memory.extract_turn(name, session_id="s", user_text="The printer jams."),
    ]
    for memory in (near, far):
        for call in calls:
            with pytest.raises(MemoryInputError, match=r"agent_id: must not be '\.' or '\.\.'"):
                call(memory)
    # What an older release took is read where a path can name it: in the engine's own process, and escaped.
    assert near.search(name, "printer") == ()
    path = f"{server.url}/v1/agents/{name.replace('.', '%2E')}"
    headers = {"Authorization": f"Bearer {token(stack)}"}
    assert httpx.get(f"{path}/memories", headers=headers).json()["memories"] == []
    refused = httpx.post(f"{path}/memories", headers=headers, json={"content": "The printer jams."})
    assert (refused.status_code, refused.json()["field"]) == (422, "agent_id")
    with pytest.raises(MemoryInputError, match="agent_id"):
        far.search(name, "printer")


#: Half of a character, as JSON may carry it: no text has it, and no database or request can.
HALF = "\ud83d x"


def one_of(memory: Any, agent: str) -> str:
    return str(memory.store(agent, "x", wait=True).memory_ids[0])


HALVES: dict[str, Callable[[Any, str], Any]] = {
    "agent": lambda memory, _: memory.search(HALF, "x"),
    "text": lambda memory, agent: memory.search(agent, HALF),
    "filter": lambda memory, agent: memory.search(agent, "x", tags=[HALF]),
    "attribute filter": lambda memory, agent: memory.search(agent, "x", attributes={"n": HALF}),
    "time zone": lambda memory, agent: memory.search(agent, "x", time_zone=HALF),
    "prompt": lambda memory, agent: memory.prepare(agent, HALF, token_budget=100),
    "content": lambda memory, agent: memory.store(agent, HALF),
    "key": lambda memory, agent: memory.store(agent, "x", key=HALF),
    "tags": lambda memory, agent: memory.store(agent, "x", tags=[HALF]),
    "attributes": lambda memory, agent: memory.store(agent, "x", attributes={"n": [HALF]}),
    "attribute names": lambda memory, agent: memory.store(agent, "x", attributes={HALF: 1}),
    "session": lambda memory, agent: memory.store(agent, "x", session_id=HALF),
    "many": lambda memory, agent: memory.store_many(agent, ["x", HALF]),
    "found by key": lambda memory, agent: memory.get_by_key(agent, HALF),
    "update": lambda memory, agent: memory.update(agent, one_of(memory, agent), content=HALF),
}


@pytest.mark.parametrize("call", HALVES)
def test_half_a_character_is_refused(near: Memory, far: RemoteMemory, call: str) -> None:
    agent = new_agent("half")
    for memory in (near, far):
        with pytest.raises(MemoryInputError):
            HALVES[call](memory, agent)


@pytest.mark.parametrize("call", ["get", "forget", "history"])
def test_half_a_character_is_no_memorys_id(near: Memory, far: RemoteMemory, call: str) -> None:
    for memory in (near, far):
        with pytest.raises(MemoryInputError):
            getattr(memory, call)(new_agent("half"), HALF)


class Script:
    """A random script of calls for one agent; two with one seed make the same calls, each with ids of its own."""

    def __init__(self, memory: Any, agent: str, seed: int) -> None:
        self.memory = memory
        self.agent = agent
        self.dice = random.Random(seed)
        self.ids: list[str] = []

    def run(self, steps: int) -> list[Any]:
        return [self.step() for _ in range(steps)]

    def step(self) -> Any:
        calls: list[Callable[[], Any]] = [
            self.store, self.store_many, self.put, self.get, self.get_by_key, self.pages, self.search, self.update,
            self.forget, self.history, self.names, self.count, self.wrong, self.prepare,
        ]  # fmt: skip
        call = self.dice.choice(calls)
        try:
            return call.__name__, self.plain(call())
        except MemoryError as error:
            return call.__name__, type(error).__name__, getattr(error, "field", None)

    def text(self) -> str:
        return " ".join(self.dice.choices(WORDS, k=self.dice.randint(2, 6)))

    def fields(self) -> dict[str, Any]:
        every: dict[str, Any] = {
            "category": self.dice.choice(["semantic", "episodic", "social"]),
            "namespace": self.dice.choice(["default", "n/1", "cards é"]),
            "tags": self.dice.sample(["a", "b", "c"], k=2),
            "source": "script",
            "confidence": self.dice.choice([0.0, 0.25, 1]),
            "attributes": {"n": self.dice.randint(0, 2), "deep": {"list": [1, None, "x"]}},
            "key": self.dice.choice(["k1", "k2", "k 3"]),
            "valid_until": datetime(2030, 1, 1, tzinfo=UTC),
            "session_id": "s-1",
            "channel": self.dice.choice(["agent", "tool"]),
        }
        names = self.dice.sample(sorted(every), k=self.dice.randint(0, 5))
        return {name: every[name] for name in names}

    def some_id(self) -> str:
        return self.dice.choice([*self.ids, "3f0c7a52-8f0e-5c6c-9a55-0d6f7a1b2c31", "no id"])

    def store(self) -> Any:
        return self.memory.store(self.agent, self.text(), wait=True, **self.fields())

    def store_many(self) -> Any:
        fields = {**self.fields(), "key": None}
        return self.memory.store_many(self.agent, [self.text() for _ in range(3)], wait=True, **fields)

    def put(self) -> Any:
        return self.memory.put(self.agent, self.text(), **self.fields())

    def get(self) -> Any:
        return self.memory.get(self.agent, self.some_id())

    def get_by_key(self) -> Any:
        key, namespace = self.dice.choice(["k1", "k2", "k 3", "k4"]), self.dice.choice(["default", "n/1"])
        return self.memory.get_by_key(self.agent, key, namespace=namespace)

    def pages(self) -> Any:
        filters = self.filters()
        found: list[Any] = []
        cursor = None
        while True:
            page = self.memory.list(self.agent, limit=2, cursor=cursor, **filters)
            found += page.entries
            cursor = page.cursor
            if cursor is None:
                return sorted((self.plain(each) for each in found), key=repr)

    def filters(self) -> dict[str, Any]:
        every: dict[str, Any] = {
            "namespaces": self.dice.choice([["default"], {"n/1", "cards é"}, ()]),
            "categories": ("semantic",),
            "tags": ("a",),
            "keys": ["k1", "k 3"],
            "attributes": {"n": 1},
            "until": datetime(2999, 1, 1, tzinfo=UTC),
            "expires_by": datetime(2999, 1, 1, tzinfo=UTC),
            "session_id": "s-1",
            "channel": self.dice.choice(["agent", "tool"]),
        }
        names = self.dice.sample(sorted(every), k=self.dice.randint(0, 2))
        return {name: every[name] for name in names}

    def search(self) -> Any:
        filters = self.filters()
        filters = {name: value for name, value in filters.items() if name not in {"keys", "session_id"}}
        found = self.memory.search(self.agent, self.dice.choice([None, "payments queue"]), limit=1_000, **filters)
        return sorted((self.plain(each) for each in found), key=repr)

    def update(self) -> Any:
        every: dict[str, Any] = {
            "content": self.text(),
            "category": "social",
            "tags": ["new"],
            "source": None,
            "confidence": 0.5,
        }
        every |= {"attributes": {"n": 1}, "expires_at": datetime(2999, 1, 1, tzinfo=UTC)}
        every["valid_until"] = datetime(2998, 1, 1, tzinfo=UTC)
        names = self.dice.sample(sorted(every), k=self.dice.randint(1, 3))
        return self.memory.update(self.agent, self.some_id(), **{name: every[name] for name in names})

    def forget(self) -> Any:
        if self.dice.random() < 0.5:
            receipt = self.memory.forget(self.agent, self.dice.choice([self.some_id(), [self.some_id()]]))
        else:
            receipt = self.memory.forget(self.agent, **self.dice.choice([{"keys": ["k2"]}, {"tags": ["c"]}, {}]))
        # In the order of their ids, which differ.
        return sorted(map(self.plain, receipt.forgotten))

    def history(self) -> Any:
        return self.memory.history(self.agent, self.some_id())

    def names(self) -> Any:
        return self.memory.namespaces(self.agent)

    def count(self) -> Any:
        return self.memory.count(self.agent, category=self.dice.choice([None, "social"]))

    def prepare(self) -> Any:
        shown = [
            self.memory.prepare(self.agent, "payments queue", token_budget=600, min_authority=least)
            for least in (None, "inform", "instruct")
        ]
        return [[(each.role, each.content.count("via=")) for each in messages] for messages in shown]

    def wrong(self) -> Any:
        memory, agent = self.memory, self.agent
        calls: list[Callable[[], Any]] = [
            lambda: memory.store(agent, " "),
            lambda: memory.store(agent, "x" * 70_000),
            lambda: memory.store(agent, "x", attributes={"bad name": 1}),
            lambda: memory.store(agent, "x", valid_from=LATE, valid_until=EARLY),
            lambda: memory.list(agent, namespaces=[" "]),
            lambda: memory.store_many(agent, ["x", ""]),
            lambda: memory.search(agent, "x", limit=5_000),
            lambda: memory.search(agent, "x", time_zone="Europe/Atlantis"),
            lambda: memory.prepare(agent, "x", token_budget=9, time_zone="Europe/Atlantis"),
            lambda: memory.search(agent, "x", attributes={"a b": 1}),
            lambda: memory.list(agent, limit=0),
            lambda: memory.list(agent, attributes={"a b": 1}),
            lambda: memory.list(agent, categories=["gossip"]),
            lambda: memory.update(agent, self.some_id(), confidence=7),
            lambda: memory.update(agent, self.some_id(), attributes={"bad name": 1}),
            lambda: memory.count(agent, category="gossip"),
            lambda: memory.get("__memtend_x", self.some_id()),
            lambda: memory.get(" ", self.some_id()),
        ]  # fmt: skip
        return self.dice.choice(calls)()

    def plain(self, value: Any) -> Any:
        """Return a result without what differs between two runs; ids become their number."""
        match value:
            case BaseModel():
                fields = {name: getattr(value, name) for name in type(value).model_fields if name not in PASSING}
                return self.plain(fields)
            case Mapping():
                return {str(name): self.plain(each) for name, each in value.items()}
            case str() if UUID.fullmatch(value):
                if value not in self.ids:
                    self.ids.append(value)
                return self.ids.index(value)
            case str():
                return value.replace(self.agent, "AGENT")
            case list() | tuple():
                return [self.plain(each) for each in value]
            case _:
                return value


@pytest.mark.parametrize("seed", range(4))
def test_the_same_script_has_the_same_results_in_process_and_over_http(
    near: Memory, far: RemoteMemory, seed: int
) -> None:
    here = Script(near, new_agent("near"), seed)
    there = Script(far, new_agent("far"), seed)
    done = set[str]()
    for number in range(80):
        expected, found = here.step(), there.step()
        assert found == expected, f"step {number} of seed {seed}"
        done.add(expected[0])
    assert len(done) > 9


async def test_coroutines_get_the_same_and_a_store_can_be_read_at_once(
    stack: StackAddress, server: ServeProcess
) -> None:
    agent = new_agent("async")
    async with AsyncMemory.connect(server.url, key=token(stack)) as memory:
        receipt = await memory.store(agent, "The payment queue pages at 500 messages.", wait=True)
        (found,) = await memory.search(agent, "when does payments page?", limit=1)
        assert (found.id,) == receipt.memory_ids
        assert await memory.get(agent, found.id) == found.model_copy(
            update={"relevance_score": None, "scores": None, "standing": None}
        )
        entry = await memory.put(agent, "Deploys wait.", key="deploys")
        assert await memory.get_by_key(agent, "deploys") == entry
        assert "500 messages" in (await memory.prepare(agent, "payments", token_budget=400))[-1].content


def test_who_supersedes_what_nobody_knows_is_told_so(near: Memory, far: RemoteMemory) -> None:
    for memory in (near, far):
        agent, nobody = new_agent("unknown"), "3f0c7a52-8f0e-5c6c-9a55-0d6f7a1b2c31"
        old = memory.put(agent, "Ada lives in Oslo.").id
        receipt = memory.store(agent, "Ada lives in Rome.", supersedes=[old, nobody], wait=True)
        assert receipt.unknown_supersedes == 1
        assert memory.store(agent, "Ada lives in Bonn.", supersedes=[old], wait=True).unknown_supersedes == 0
        sent = memory.store(agent, "Ada lives in Kiel.", supersedes=[nobody])
        (ended,) = memory.wait(sent)
        assert (sent.unknown_supersedes, ended.facts["unknown_supersedes"]) == (None, 1)
        with pytest.raises(MemoryInputError) as caught:
            memory.put(agent, "Ada lives in Nice.", supersedes=[old, nobody])
        assert caught.value.field == "supersedes.1"
        assert memory.count(agent) == 4


def test_only_the_version_that_was_read_is_changed(near: Memory, far: RemoteMemory) -> None:
    for memory in (near, far):
        agent = new_agent("version")
        old = memory.put(agent, "The lift is blue.", key="lift", only_new=True)
        with pytest.raises(MemoryConflictError):
            memory.put(agent, "The lift is green.", key="lift", only_new=True)
        new = memory.update(agent, old.id, content="The lift is red.", expected=old.id)
        for call in (
            lambda: memory.update(agent, old.id, content="late"),  # noqa: B023  # called at once
            lambda: memory.update(agent, new.id, content="late", expected=old.id),  # noqa: B023
            lambda: memory.forget(agent, new.id, expected=old.id),  # noqa: B023
        ):
            with pytest.raises(MemoryConflictError, match=new.id):
                call()
        last = memory.update(agent, old.id, tags=["a"], expected="*")
        assert memory.forget(agent, last.id, expected=last.id).forgotten == (last.id,)
        assert memory.put(agent, "The lift is green.", key="lift", only_new=True).content == "The lift is green."


def test_conversations_and_traces_travel_too(far: RemoteMemory) -> None:
    agent = new_agent("talk")
    distilled = far.distill(agent, trace("t-1"))
    assert distilled is not None
    assert [each.state for each in far.wait(distilled)] == ["done"]
    assert far.get(agent, distilled.trace_id) is not None
    sent = far.extract_turn(agent, session_id="s", user_text="I like tea.", user_id="ada")
    again = far.extract_turn(agent, session_id="s", user_text="I like tea.", user_id="ada", turn="1")
    assert sent is not None
    assert again is not None
    assert [each.state for each in far.wait(sent)] == ["done"]
    assert far.conversation_status(agent, user_id="ada").waiting_turns >= 0
    far.set_recall(agent, is_on=False, user_id="ada")
    assert far.load_turn(agent, "tea?", user_id="ada").messages() == ()
    assert far.end_conversation(agent, session_id="s", user_id="ada") is not None
    assert far.applied(agent, distilled.trace_id, "success", task_id="t") is not None


def test_a_model_is_given_the_same_tools_and_answers(near: Memory, far: RemoteMemory) -> None:
    agent = new_agent("tools")
    assert far.tools(agent) == near.tools(agent)
    assert far.tools(agent, writes=True) == near.tools(agent, writes=True)
    added = far.call_tool(agent, "add_memory", {"content": "The lift is blue."}, writes=True)
    assert not added.startswith("Error:")
    question = json.dumps({"query": "which colour has the lift?"})
    assert far.call_tool(agent, "search_memory", question) == near.call_tool(agent, "search_memory", question)
    assert "The lift is blue." in far.call_tool(agent, "search_memory", question)
    assert far.call_tool(agent, "add_memory", {"content": "x"}).startswith("Error:")


def test_a_key_for_one_agent_or_for_reading_is_refused_for_more(stack: StackAddress, server: ServeProcess) -> None:
    ours, theirs = new_agent("ours"), new_agent("theirs")
    with Memory.connect(server.url, key=token(stack, agents=[ours], verbs=(Verb.READ,))) as memory:
        assert memory.search(ours, "x") == ()
        assert memory.call_tool(ours, "search_memory", {"query": "x"})
        for call in (
            lambda: memory.search(theirs, "x"),
            lambda: memory.store(ours, "x"),
            lambda: memory.call_tool(ours, "add_memory", {"content": "x"}, writes=True),
            lambda: memory.call_tool(theirs, "search_memory", {"query": "x"}),
        ):
            with pytest.raises(RemoteRefusedError) as caught:
                call()
            assert (caught.value.status, caught.value.domain_code) == (403, "denied")
    with Memory.connect(server.url, key="mt_nobody_x") as memory, pytest.raises(RemoteRefusedError) as caught:
        memory.search(ours, "x")
    assert caught.value.domain_code == "unauthorized"


@pytest.mark.slow(because="a server is started twice, and every attempt is made while it is away")
def test_an_engine_goes_on_where_its_server_was_killed_and_came_back(stack: StackAddress) -> None:
    agent = new_agent("killed")
    with serve_process(stack.home) as running, Memory.connect(running.url, key=token(stack)) as memory:
        memory.store(agent, "Before.", wait=True)
        running.kill()
        begun = time.monotonic()
        with pytest.raises(MemoryConnectionError, match=r"cannot be reached"):
            memory.search(agent, "before")
        assert time.monotonic() - begun < 15
        running.start()
        assert [each.content for each in memory.search(agent, "before")] == ["Before."]
