"""The adapters over a running stack: what they keep passes a broker, workers and a store server unchanged."""

import asyncio
import os
import random
import subprocess
import sys
from collections.abc import Generator
from typing import Any

import pytest
from langgraph.store.base import IndexConfig, PutOp
from langgraph.store.memory import InMemoryStore
from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.messages import ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from support.present import present
from support.running_stack import StackAddress, running_stack, wait_until
from support.serve_process import serve_process

from memcore.adapters.anthropic_memory import MemtendMemoryTool
from memcore.adapters.langchain import MemtendRetriever
from memcore.adapters.langgraph import MemtendStore
from memcore.adapters.openai_agents import MemtendSession, memory_tools
from memcore.adapters.pydantic_ai import MemtendToolset
from memcore.adapters.values import new_id
from memcore.config.policy import Policy
from memcore.memory.memory import Memory
from memcore.remote import RemoteMemory

pytestmark = pytest.mark.slow(because="starts a stack")

USERS = ("users", "ada")

#: What another process does to the same file.
_EDITS = """
import sys
from memcore import Memory
from memcore.adapters.anthropic_memory import MemtendMemoryTool

with Memory.from_environment() as memory:
    tool = MemtendMemoryTool(memory, agent_id=sys.argv[1])
    tool.call({"command": "view", "path": "/memories/a.md"})
    print("begins", flush=True)
    for number in range(6):
        text = f"there {number}"
        tool.call({"command": "insert", "path": "/memories/a.md", "insert_line": 1, "insert_text": text})
"""

VALUES: list[dict[str, Any]] = [
    {},
    {"text": "é漢🙂", "n": [0, -1, 2**53, 2**53 + 1, 10**30, 0.1, 0.25, 1 / 3, -0.0, 1e-300, 1.0, True, None]},
    {"nul": "a\0b", "half": "\ud800", "": {"": ""}},
    {"deep": {"er": [{"a": [[[{}]]]}]}, "large": "z" * 20_000},
]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Generator[StackAddress]:
    with running_stack(tmp_path_factory.mktemp("adapters") / "home") as running:
        yield running


@pytest.fixture(scope="module")
def in_process(stack: StackAddress) -> Generator[Memory]:
    with Memory.from_settings(stack.settings, Policy()) as opened:
        yield opened


@pytest.fixture(scope="module")
def over_http(stack: StackAddress) -> Generator[RemoteMemory]:
    with serve_process(stack.home, "--no-auth") as server, RemoteMemory.connect(server.url) as opened:
        yield opened


@pytest.fixture(params=["in_process", "over_http"])
def memory(request: pytest.FixtureRequest) -> Memory | RemoteMemory:
    found: Memory | RemoteMemory = request.getfixturevalue(request.param)
    return found


def items(found: Any) -> list[str]:
    return sorted(repr((each.namespace, each.key, each.value)) for each in found)


@pytest.mark.parametrize("number", range(len(VALUES)))
def test_any_json_comes_back_exactly(memory: Memory | RemoteMemory, number: int) -> None:
    store, value = MemtendStore(memory, agent_id=new_id()), VALUES[number]
    for written in (value, {"other": 1}, value):
        store.put(USERS, "k", written)
        found = present(store.get(USERS, "k"))
        assert repr(found.value) == repr(written)
    assert items(store.search(("users",))) == [repr((USERS, "k", value))]
    store.delete(USERS, "k")
    assert store.get(USERS, "k") is None
    store.put(USERS, "k", value)
    assert items(store.search(("users",))) == [repr((USERS, "k", value))]


def test_random_operations_give_what_langgraphs_store_gives(memory: Memory | RemoteMemory) -> None:
    ours, theirs = MemtendStore(memory, agent_id=new_id()), InMemoryStore()
    chance = random.Random(13)
    namespaces = [("a",), ("a", "b"), ("b",), ("a", "b", "c")]
    for _ in range(12):
        ops = [
            PutOp(
                chance.choice(namespaces),
                chance.choice("12345"),
                chance.choice([None, {"n": chance.randint(0, 9), "t": chance.choice(["x", "y"])}]),
            )
            for _ in range(chance.randint(1, 24))
        ]
        for store in (ours, theirs):
            store.batch(ops)
        for wanted in (None, {"t": "x"}, {"n": {"$gt": 4}, "t": {"$ne": "x"}}):
            for prefix in ((), ("a",), ("a", "b")):
                found = ours.search(prefix, filter=wanted, limit=100)
                assert items(found) == items(theirs.search(prefix, filter=wanted, limit=100)), (prefix, wanted)
        there = [namespace for namespace, kept in theirs._data.items() if kept]
        assert ours.list_namespaces() == sorted(there)


def test_a_search_by_text_ranks_by_meaning(memory: Memory | RemoteMemory) -> None:
    store = MemtendStore(memory, agent_id=new_id(), fields=("text",))
    texts = ["The payment queue pages at 500 messages.", "Lunch is at noon.", "Refunds need a second person."]
    store.batch([PutOp(("facts",), str(n), {"text": text, "kind": "fact"}) for n, text in enumerate(texts)])
    store.put(("facts",), "hidden", {"text": "payment queue"}, index=False)
    found = store.search(("facts",), query="when does the payments queue page?", filter={"kind": "fact"}, limit=2)
    assert (found[0].key, len(found)) == ("0", 2)
    assert (found[0].score or 0.0) > (found[1].score or 0.0)
    assert "hidden" not in [each.key for each in store.search(("facts",), query="payment queue")]


def test_an_embedder_of_the_callers_scores_what_shares_no_word(memory: Memory | RemoteMemory) -> None:
    index: IndexConfig = {"embed": lambda texts: [[float(len(text)), 10.0] for text in texts], "fields": ["text"]}
    store = MemtendStore(memory, agent_id=new_id(), index=index)
    store.batch([PutOp(("facts",), text, {"text": text}) for text in ("tea", "teas and so", "long enough")])
    found = store.search(("facts",), query="0123456789", filter={"text": {"$ne": "long enough"}})
    assert [each.key for each in found] == ["teas and so", "tea"]
    assert [each.score for each in found] == pytest.approx([0.9989, 0.8805], abs=1e-4)


def test_a_sweep_forgets_expired_items_alone(memory: Memory | RemoteMemory) -> None:
    store = MemtendStore(memory, agent_id=new_id())
    # The first opens the memory, which may take longer than the short one lives.
    store.put(USERS, "long", {"n": 2}, ttl=60)
    store.put(USERS, "short", {"n": 1}, ttl=0.01)
    store.put(USERS, "ever", {"n": 3})
    wait_until(lambda: store.sweep_ttl() == 1)
    assert store.sweep_ttl() == 0
    assert sorted(each.key for each in store.search(USERS)) == ["ever", "long"]


def test_a_deleted_item_can_be_brought_back(in_process: Memory) -> None:
    agent_id = new_id()
    store = MemtendStore(in_process, agent_id=agent_id)
    store.put(USERS, "k", {"n": 1})
    kept = present(in_process.get_by_key(agent_id, "k", namespace="langgraph.users.ada"))
    store.delete(USERS, "k")
    run_id = present(in_process.history(agent_id, kept.id)[-1].run_id)
    for status in in_process.wait(in_process.client.undo(agent_id, run_id)):
        assert status.state == "done"
    found = present(store.get(USERS, "k"))
    assert found.value == {"n": 1}


async def test_a_session_of_a_process_is_read_in_another(memory: Memory | RemoteMemory) -> None:
    agent_id = new_id()
    written: list[Any] = [{"role": "user", "content": f"message {n}"} for n in range(20)]
    written.append({"type": "function_call_output", "call_id": "1", "output": '"\\\n' * 40_000})

    session = MemtendSession("thread", memory=memory, agent_id=agent_id)
    await session.add_items(written[:2])
    await session.add_items(written[2:])
    again = MemtendSession("thread", memory=memory, agent_id=agent_id)
    assert await again.get_items() == written
    assert await again.get_items(limit=3) == written[-3:]
    assert await again.pop_item() == written[-1]
    assert await session.get_items() == written[:-1]
    await session.clear_session()
    assert await again.get_items() == []


def test_four_callers_who_pop_at_once_get_each_item_once(memory: Memory | RemoteMemory) -> None:
    agent_id, popped = new_id(), list[str]()
    sessions = [MemtendSession("thread", memory=memory, agent_id=agent_id) for _ in range(4)]

    async def pop_all(session: MemtendSession) -> None:
        while (item := await session.pop_item()) is not None:
            popped.append(dict(item)["content"])  # type: ignore[arg-type]  # a message

    async def run() -> None:
        await sessions[0].add_items([{"role": "user", "content": str(number)} for number in range(6)])
        await asyncio.gather(*map(pop_all, sessions))

    asyncio.run(run())
    assert sorted(popped) == list("012345")


def test_files_of_the_memory_tool_are_memories(memory: Memory | RemoteMemory) -> None:
    agent_id = new_id()
    tool = MemtendMemoryTool(memory, agent_id=agent_id)
    for command in (
        {"command": "create", "path": "/memories/a.md", "file_text": "The payment queue pages at 500 messages.\n"},
        {"command": "insert", "path": "/memories/a.md", "insert_line": 1, "insert_text": "Ask Ada."},
        {"command": "str_replace", "path": "/memories/a.md", "old_str": "500", "new_str": "800"},
        {"command": "create", "path": "/memories/empty", "file_text": ""},
        {"command": "rename", "old_path": "/memories/a.md", "new_path": "/memories/d/b.md"},
    ):
        tool.call(command)
    shown = str(tool.call({"command": "view", "path": "/memories/d/b.md"}))
    assert shown.endswith("     1\tThe payment queue pages at 800 messages.\n     2\tAsk Ada.\n     3\t")
    listing = str(tool.call({"command": "view", "path": "/memories"}))
    assert [line.split("\t")[1] for line in listing.split("\n")[1:]] == [
        "/memories",
        "/memories/d/",
        "/memories/d/b.md",
        "/memories/empty",
    ]
    documents = MemtendRetriever(memory=memory, agent_id=agent_id, k=1).invoke("when does the payment queue page?")
    assert documents[0].metadata["key"] == "d/b.md"
    assert documents[0].metadata["score"] > 0
    tool.call({"command": "delete", "path": "/memories/d"})
    tool.call({"command": "create", "path": "/memories/d", "file_text": "x"})


def test_edits_of_one_file_by_two_processes_are_all_there(memory: Memory | RemoteMemory, stack: StackAddress) -> None:
    agent_id = new_id()
    tool = MemtendMemoryTool(memory, agent_id=agent_id)
    tool.call({"command": "create", "path": "/memories/a.md", "file_text": "begin\n"})
    with subprocess.Popen(
        [sys.executable, "-c", _EDITS, agent_id],
        env={**os.environ, "MEMTEND_HOME": str(stack.home)},
        stdout=subprocess.PIPE,
    ) as other:
        assert present(other.stdout).readline() == b"begins\n"
        for number in range(6):
            tool.call(
                {"command": "insert", "path": "/memories/a.md", "insert_line": 1, "insert_text": f"here {number}"}
            )
        assert other.wait(timeout=600) == 0
    shown = str(tool.call({"command": "view", "path": "/memories/a.md"}))
    lines = sorted(line.split("\t")[1] for line in shown.split("\n")[1:])
    assert lines == sorted(["", "begin", *(f"{who} {number}" for who in ("here", "there") for number in range(6))])


def test_ten_puts_to_one_key_at_once_are_all_done(memory: Memory | RemoteMemory) -> None:
    store = MemtendStore(memory, agent_id=new_id())

    async def put() -> None:
        await asyncio.gather(*(store.aput(USERS, "k", {"n": number}) for number in range(10)))

    asyncio.run(put())
    assert len(store.search(USERS)) == 1
    store.put(USERS, "k", {"n": 99})
    found = present(store.get(USERS, "k"))
    assert found.value == {"n": 99}


def test_agents_call_the_tools_of_their_memory(in_process: Memory) -> None:
    agent_id = new_id()
    in_process.put(agent_id, "The payment queue pages at 500 messages.")
    shown: list[str] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        last = messages[-1].parts[-1]
        if isinstance(last, ToolReturnPart):
            shown.append(str(last.content))
        calls: list[ToolCallPart | TextPart] = [
            ToolCallPart("search_memory", {"query": "when does the payment queue page?"}),
            ToolCallPart("add_memory", {"content": "Ada asked about paging."}),
            TextPart(",".join(sorted(each.name for each in info.function_tools))),
        ]
        return ModelResponse(parts=[calls[len(shown)]])

    tools = MemtendToolset(in_process, agent_id=agent_id, writes=True)
    names = asyncio.run(Agent(FunctionModel(answer), toolsets=[tools]).run("hello")).output.split(",")
    assert "pages at 500" in shown[0]
    assert not shown[1].startswith("Error:"), shown[1]
    assert sorted(tool.name for tool in memory_tools(in_process, agent_id=agent_id, writes=True)) == names
    assert {each.content for each in in_process.list(agent_id).entries} >= {"Ada asked about paging."}
