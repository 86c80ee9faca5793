"""Memory and AsyncMemory read what is remembered of people: over a ledger on SQLite, and a backend in the process."""

import asyncio
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import pytest
from support.kept_conversations import EmbeddingBackend, begin, fact, hashed, keep, owner, rule
from support.ledger_records import COMPANY

from memcore import (
    AsyncMemory,
    AsyncMemoryClient,
    Memory,
    MemoryClient,
    MemoryConfigError,
    MemoryInputError,
    Policy,
)
from memcore.backends.protocol import MemoryBackend
from memcore.config.urls import LedgerUrls
from memcore.ledger.ledger import Ledger
from memcore.memory.conversation import ConversationReader
from memcore.memory.incognito import AsyncIncognitoMemory, IncognitoMemory

BROKER_URL = "redis://127.0.0.1:1/0"
AT = datetime.now(UTC)


class Stack:
    """A ledger and a store, and how often each was opened."""

    def __init__(self, urls: LedgerUrls) -> None:
        self.urls = urls
        self.backend = EmbeddingBackend()
        self.ledgers: list[Ledger] = []
        self.backends = 0

    def open_ledger(self) -> Ledger:
        self.ledgers.append(Ledger.open(self.urls))
        return self.ledgers[-1]

    def open_backend(self) -> MemoryBackend:
        self.backends += 1
        return self.backend

    def _reader(self) -> ConversationReader:
        return ConversationReader(self.open_ledger, company=COMPANY, policy=Policy())

    def memory(self) -> Memory:
        client = MemoryClient(BROKER_URL, company=COMPANY)
        return Memory(client, open_backend=self.open_backend, policy=Policy(), conversation=self._reader())

    def async_memory(self) -> AsyncMemory:
        client = AsyncMemoryClient(BROKER_URL, company=COMPANY)
        return AsyncMemory(client, open_backend=self.open_backend, policy=Policy(), conversation=self._reader())


@pytest.fixture
def stack(sqlite_ledger: LedgerUrls) -> Stack:
    made = Stack(sqlite_ledger)
    with closing(Ledger.open(sqlite_ledger)) as ledger:
        vectors = {"boss": hashed("how is the office")}
        keep(ledger, owner(), fact("boss", "he shouts", at=AT), rule("r", "Be brief.", at=AT), vectors=vectors)
        begin(ledger, owner(), "s", at=AT)
    return made


def test_what_a_turn_is_about_is_loaded_with_the_embedder_of_the_store(stack: Stack) -> None:
    with stack.memory() as memory:
        context = memory.load_turn("coach", "how is the office", user_id="ada")
        assert [each.fact_id for each in context.facts] == ["boss"]
        assert [each.rule for each in context.rules] == ["Be brief."]
        assert "he shouts" in context.messages()[-1].content
        assert memory.load_turn("coach", "how is the office", user_id="grace").messages() == ()
        assert memory.load_turn("coach", "how is the office", user_id="ada", token_budget=1).messages() == ()
    assert (len(stack.ledgers), stack.backends) == (1, 1)
    assert not stack.backend.is_connected


async def test_a_coroutine_loads_the_same(stack: Stack) -> None:
    async with stack.async_memory() as memory:
        context = await memory.load_turn("coach", "how is the office", user_id="ada")
        assert [each.fact_id for each in context.facts] == ["boss"]
        await memory.set_recall("coach", is_on=False, user_id="ada")
        assert (await memory.load_turn("coach", "he", user_id="ada")).reasons == ("recall_off",)
        status = await memory.conversation_status("coach", user_id="ada")
        assert (status.semantic, status.open_sessions) == (1, 1)


def test_the_toggle_and_the_status_need_no_store(stack: Stack) -> None:
    with stack.memory() as memory:
        status = memory.conversation_status("coach", user_id="ada")
        assert (status.semantic, status.procedural, status.waiting_turns) == (1, 1, 1)
        memory.set_recall("coach", is_on=False, user_id="ada")
        assert memory.load_turn("coach", "he shouts", user_id="ada").reasons == ("recall_off",)
        # The session of that name is somebody else.
        assert memory.load_turn("coach", "he shouts", session_id="ada").reasons == ()
        memory.set_recall("coach", is_on=True, user_id="ada")
        assert memory.conversation_status("coach", session_id="ada").semantic == 0
    assert stack.backends == 0


def test_a_closed_memory_opens_its_ledger_again(stack: Stack) -> None:
    memory = stack.memory()
    for _ in range(2):
        assert memory.conversation_status("coach", user_id="ada").semantic == 1
        memory.close()
    assert len(stack.ledgers) == 2


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda memory: memory.load_turn("coach", "x"), "user_id: must be given"),
        (lambda memory: memory.load_turn("coach", "x", user_id=" "), "user_id: must not be blank"),
        (lambda memory: memory.load_turn("__x", "x", user_id="ada"), "agent_id: must not begin"),
        (lambda memory: memory.set_recall("coach", is_on=True, session_id="s\n1"), "session_id: must not contain"),
        (lambda memory: memory.conversation_status("", user_id="ada"), "agent_id: must not be blank"),
    ],
)
def test_a_wrong_id_is_named_and_nothing_is_opened(stack: Stack, call: Callable[[Any], Any], said: str) -> None:
    with pytest.raises(MemoryInputError) as refused, stack.memory() as memory:
        call(memory)

    async def later() -> None:
        await call(stack.async_memory())

    with pytest.raises(MemoryInputError) as refused_later:
        asyncio.run(later())
    assert said in str(refused.value)
    assert str(refused_later.value) == str(refused.value)
    assert (stack.ledgers, stack.backends) == ([], 0)


def test_a_memory_that_was_made_without_a_ledger_says_so(stack: Stack) -> None:
    client = MemoryClient(BROKER_URL, company=COMPANY)
    with (
        Memory(client, open_backend=stack.open_backend, policy=Policy()) as memory,
        pytest.raises(MemoryConfigError, match="without a ledger"),
    ):
        memory.load_turn("coach", "x", user_id="ada")


async def test_modes_of_an_engine_with_an_event_loop() -> None:
    client = AsyncMemoryClient(BROKER_URL, company=COMPANY)
    opened: list[IncognitoMemory] = []

    def open_incognito() -> IncognitoMemory:
        opened.append(IncognitoMemory(Policy(), company=COMPANY))
        return opened[-1]

    memory = AsyncMemory(client, open_backend=EmbeddingBackend, policy=Policy(), open_incognito=open_incognito)
    assert await memory.in_mode("local") is memory
    assert await memory.in_mode("synced") is memory
    assert opened == []
    talk = await memory.in_mode("incognito")
    assert isinstance(talk, AsyncIncognitoMemory)
    assert talk.blocking is opened[0]
    await talk.close()
    without = AsyncMemory(client, open_backend=EmbeddingBackend, policy=Policy())
    with pytest.raises(MemoryConfigError, match="from_settings"):
        await without.in_mode("guest")
    with pytest.raises(MemoryConfigError, match="from_settings"):
        without.blocking.in_mode("guest")
    await memory.close()
