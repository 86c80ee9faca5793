"""A caller's mistake is an error that names the argument, of Memory, AsyncMemory and RemoteMemory alike."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NoReturn

import pytest

from memcore import (
    AsyncMemory,
    AsyncMemoryClient,
    InMemoryBackend,
    Memory,
    MemoryClient,
    MemoryInputError,
    Policy,
    RemoteMemory,
)
from memcore.backends.protocol import MemoryBackend
from memcore.errors import MemoryStoreError
from memcore.ledger.conversation.in_memory import open_in_memory
from memcore.memories import Memories
from memcore.memory.conversation import ConversationReader
from memcore.remote.connection import Connection
from memcore.remote.requests import Address, Call, Result

BROKER_URL = "redis://127.0.0.1:1/0"
ID = "6f1c1f6e-3a0b-5c53-9d0e-6d656d74656e"
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


class Silent(Connection):
    """Sends nothing: what is wrong is refused before."""

    def send(self, call: Call[Result]) -> NoReturn:
        raise MemoryStoreError(f"{call.path} was sent")


def open_memories(backend: MemoryBackend) -> Memories:
    assert isinstance(backend, InMemoryBackend)
    return Memories(backend, open_in_memory(), company="default", policy=Policy())


def parts() -> dict[str, Any]:
    backend = InMemoryBackend(company="default")
    conversation = ConversationReader(open_in_memory, company="default", policy=Policy())
    return {
        "open_backend": lambda: backend,
        "policy": Policy(),
        "conversation": conversation,
        "open_memories": open_memories,
    }


def of_memory(call: Callable[[Any], Any]) -> object:
    with Memory(MemoryClient(BROKER_URL), **parts()) as memory:
        return call(memory)


def of_async_memory(call: Callable[[Any], Any]) -> object:
    async def engine() -> object:
        async with AsyncMemory(AsyncMemoryClient(BROKER_URL), **parts()) as memory:
            return await call(memory)

    return asyncio.run(engine())


def of_remote_memory(call: Callable[[Any], Any]) -> object:
    with RemoteMemory(Silent(Address(url="http://127.0.0.1:1"))) as memory:
        return call(memory)


@pytest.mark.parametrize("made", [of_memory, of_async_memory, of_remote_memory])
@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda memory: memory.prepare(" ", "x", token_budget=9), "agent_id: must not be blank"),
        (lambda memory: memory.prepare(5, "x", token_budget=9), "agent_id: must be text, and is of type int"),
        (lambda memory: memory.prepare("ada", None, token_budget=9), "text: must be text, and is of type NoneType"),
        (lambda memory: memory.prepare("ada", "x", token_budget=-1), "token_budget: must be a whole number, 0 or more"),
        (lambda memory: memory.prepare("ada", "x", token_budget=0.5), "token_budget: must be a whole number"),
        (lambda memory: memory.load_turn("ada", "x", user_id=5), "user_id: must be text, and is of type int"),
        (lambda memory: memory.load_turn("ada", "x", user_id="u", session_id=5), "session_id: must be text"),
        (lambda memory: memory.load_turn("ada", b"x", user_id="u"), "text: must be text, and is of type bytes"),
        (lambda memory: memory.load_turn("ada", "x", user_id="u", token_budget=-1), "token_budget: must be a whole"),
        (lambda memory: memory.conversation_status("ada", user_id=b"u"), "user_id: must be text"),
        (lambda memory: memory.extract_turn("ada", session_id="s", user_id=5, user_text="x"), "user_id: must be text"),
        (lambda memory: memory.applied("ada", None, "success"), "skill_id: must be the id under which"),
        (lambda memory: memory.search(b"ada", "x"), "agent_id: must be text, and is of type bytes"),
        (lambda memory: memory.search(["ada"], "x"), "agent_id: must be text, and is of type list"),
        (lambda memory: memory.ask(5, "x"), "agent_id: must be text, and is of type int"),
        (lambda memory: memory.ask("ada", " "), "question: must"),
        (lambda memory: memory.ask("ada", "x", token_budget=0), "token_budget: must be greater than or equal to 1"),
        (lambda memory: memory.ask_stream("ada", None), "question: must be a valid string"),
        (lambda memory: memory.ask_stream("ada", "x", limit=3), "limit: is not a known field"),
        (lambda memory: memory.call_tool("", "search_memory", {"query": "x"}), "agent_id: must not be blank"),
        (lambda memory: memory.get("ada", None), "memory_id: must be text, and is of type NoneType"),
        (lambda memory: memory.update("ada", 5, content="x"), "memory_id: must be text, and is of type int"),
        # What is wrong with a request comes before what is not there.
        (lambda memory: memory.update("ada", "no id", confidence=7), "confidence: must be less than or equal to 1"),
        (lambda memory: memory.update("ada", ID, confidence=7), "confidence: must be less than or equal to 1"),
        (lambda memory: memory.update("ada", ID, tags=5), "tags: must be a valid tuple"),
        (lambda memory: memory.update("ada", "no id", expires_at=LONG_AGO), "expires_at: lies before now"),
        (lambda memory: memory.update(5, "no id", confidence=7), "agent_id: must be text, and is of type int"),
        (lambda memory: memory.update("ada", 5, confidence=7), "memory_id: must be text, and is of type int"),
        (
            lambda memory: memory.put("ada", "x", supersedes=[ID], confidence=7),
            "confidence: must be less than or equal",
        ),
        (lambda memory: memory.put("ada", "x", supersedes=[ID], session_id=5), "session_id: must be a valid string"),
        (lambda memory: memory.put("ada", "x", supersedes=[ID], only_new=True), "key: is needed for a memory"),
        (lambda memory: memory.history("ada", b"x"), "memory_id: must be text, and is of type bytes"),
        (lambda memory: memory.forget("ada", 5), "memory_ids: must be ids of memories, and is of type int"),
        (lambda memory: memory.forget("ada", [ID, None]), "memory_ids.1: must be text"),
        (lambda memory: memory.store_many("ada", 5), "memories: must be several memories"),
        (lambda memory: memory.wait([5]), "jobs.0: must be text, and is of type int"),
        (lambda memory: memory.wait(None), "jobs: must be a receipt, or ids of jobs"),
    ],
)
def test_a_wrong_argument_is_named(
    made: Callable[[Callable[[Any], Any]], object], call: Callable[[Any], Any], said: str
) -> None:
    with pytest.raises(MemoryInputError) as refused:
        made(call)
    assert str(refused.value).startswith(said)


@pytest.mark.parametrize("made", [of_memory, of_async_memory])
def test_a_budget_of_nothing_gives_nothing(made: Callable[[Callable[[Any], Any]], object]) -> None:
    assert made(lambda memory: memory.prepare("ada", "x", token_budget=0)) == ()
