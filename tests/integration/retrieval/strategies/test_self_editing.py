"""The self-editing strategy: six tools, core memory in every prompt, a limit that holds under any number of writers."""

import asyncio
import re
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest
from support.agent_tools import COMPANY, WordBackend, strategy_parts
from support.maintenance_fixture import TurnedClock
from support.thorough import sized

from memcore.config.loader import load_policy
from memcore.config.urls import LedgerUrls
from memcore.errors import MemoryConnectionError, MemoryStoreError
from memcore.ledger.agents import AgentSpec
from memcore.ledger.learning.core_slots import WRITE_TIME
from memcore.ledger.ledger import Ledger
from memcore.memories import Memories
from memcore.models.memory import MemoryCategory, MemoryLevel, MemoryMetadata, MemoryQuery, MemoryStoreRequest
from memcore.retrieval.protocol import MemoryInjectionStrategy
from memcore.retrieval.strategies.factory import create_agent_tools
from memcore.retrieval.strategies.tools import UNAVAILABLE

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}")


class Editor:
    """An agent with the six tools, over a store in memory."""

    def __init__(self, ledger: Ledger, clock: TurnedClock, backend: WordBackend, own: str = "", more: str = "") -> None:
        self.policy = load_policy(f"memory: {{retrieval: {{strategy: self_editing, self_editing: {{{own}}}{more}}}}}")
        self.backend = backend
        memories = Memories(backend, ledger, company=COMPANY, policy=self.policy, clock=clock)
        self.parts = strategy_parts(self.policy, backend, ledger=ledger, clock=clock, changes=memories)
        self.strategy = self.parts.self_editing()

    async def call(self, tool_name: str, *, agent_id: str = "ada", **arguments: Any) -> str:
        return await self.strategy.handle_tool_call(agent_id, tool_name, arguments)

    async def core(self, content: str | None = None, **arguments: Any) -> str:
        return await self.call("core_memory_write", content=content, **arguments)

    async def prompt(self, budget: int = 4_000) -> str:
        messages = await self.strategy.prepare_messages("ada", "anything", budget)
        return "\n".join(each.content for each in messages)


@pytest.fixture
async def backend(clock: TurnedClock) -> WordBackend:
    made = WordBackend(company=COMPANY, clock=clock)
    await made.connect()
    return made


def id_in(answer: str) -> str:
    found = _ID.search(answer)
    assert found, answer
    return found[0]


async def test_it_has_the_six_tools(ledger: Ledger, clock: TurnedClock, backend: WordBackend) -> None:
    editor = Editor(ledger, clock, backend)

    assert isinstance(editor.strategy, MemoryInjectionStrategy)
    hints = {each.name: (each.read_only, each.destructive) for each in editor.strategy.get_tool_definitions()}
    assert hints == {
        "core_memory_read": (True, False),
        "core_memory_write": (False, True),
        "archival_memory_search": (True, False),
        "archival_memory_write": (False, False),
        "recall_memory_read": (True, False),
        "recall_memory_write": (False, False),
    }


async def test_an_agent_reads_what_it_wrote_at_once(ledger: Ledger, clock: TurnedClock, backend: WordBackend) -> None:
    editor = Editor(ledger, clock, backend)

    await editor.core("I work for Mara.")
    await editor.call(
        "archival_memory_write", content="The lift fails on Mondays.", category="procedural", tags=["lift"]
    )
    await editor.call("recall_memory_write", content="Mara called about the lift.")

    assert "I work for Mara." in await editor.call("core_memory_read")
    assert "room for 19 more of 20 entries" in await editor.call("core_memory_read")
    assert "I work for Mara." in await editor.prompt()
    assert "lift fails" not in await editor.prompt()
    found = await editor.call("archival_memory_search", query="what of Mara and the lift?")
    assert "The lift fails on Mondays." in found
    assert "I work for Mara." not in found, "core memory is in the prompt already"
    recalled = await editor.call("recall_memory_read", query="who called?")
    assert "Mara called about the lift." in recalled
    assert "fails on Mondays" not in recalled
    stored = {each.content: each for each in await backend.retrieve("ada", MemoryQuery())}
    lift, called = stored["The lift fails on Mondays."], stored["Mara called about the lift."]
    assert lift.metadata.tags == ("lift", "self_edited")
    assert (lift.category, called.category) == (MemoryCategory.PROCEDURAL, MemoryCategory.EPISODIC)
    whole = await editor.call("recall_memory_read", memory_id=called.id)
    assert "Mara called" in whole
    assert ledger.agents.get(COMPANY, "ada") is not None, "the scheduler knows the agent"


async def test_an_entry_that_another_session_changed_is_read_before_it_is_changed(
    ledger: Ledger, clock: TurnedClock, backend: WordBackend
) -> None:
    here, there = (Editor(ledger, clock, backend) for _ in range(2))
    first = id_in(await here.core("I work for Mara."))
    second = id_in(await there.core("I work for Ben.", replaces=first))
    for answer in (
        await here.core("I work for Mara and Kim.", replaces=first),
        await here.core(replaces=first),
        await create_agent_tools(here.parts).call("ada", "update_memory", {"memory_id": first, "content": "Mara?"}),
        await create_agent_tools(here.parts).call("ada", "forget_memory", {"memory_id": first}),
    ):
        assert answer == "Error: it was changed since you read it. Read it again, then change it."
    assert "I work for Ben." in await here.call("core_memory_read")
    await here.core("I work for Ben and Kim.", replaces=second)
    assert "I work for Ben and Kim." in await there.call("core_memory_read")


async def test_core_memory_can_be_replaced_and_freed(ledger: Ledger, clock: TurnedClock, backend: WordBackend) -> None:
    editor = Editor(ledger, clock, backend, "core_max_entries: 1")
    first = id_in(await editor.core("I work for Mara."))

    assert "core memory is full: it has 1 entries" in await editor.core("I work for Ben.")
    assert "holds this already" in await editor.core("I work for Mara.")
    second = id_in(await editor.core("I work for Ben.", replaces=first))
    assert "Ben" in await editor.prompt()
    assert "Mara" not in await editor.prompt()
    assert "core memory is full" in await editor.core("I work for Zoe.")
    assert await editor.core(replaces=second) == "Removed from core memory."
    assert "Ben" not in await editor.prompt()
    assert "Written to core memory" in await editor.core("I work for Zoe.")
    assert ledger.core_slots.taken(COMPANY, "bob") == frozenset()


@pytest.mark.parametrize(
    ("tool_name", "arguments", "words"),
    [
        ("core_memory_write", {}, "give content, or replaces, or both"),
        ("core_memory_write", {"content": "x" * 70_000}, "content: has 70000 bytes; the limit is 65536"),
        ("core_memory_write", {"content": " "}, "content: must not be blank"),
        ("core_memory_write", {"replaces": "nothing"}, "there is no memory with this id"),
        ("core_memory_write", {"content": "x", "replaces": "ARCHIVED"}, "replaces: is not the id of a core entry"),
        ("core_memory_write", {"content": "x", "tags": ["pinned"]}, "tags: "),
        ("archival_memory_write", {"content": "x", "category": "working"}, "category: must be one of episodic, pro"),
        ("archival_memory_write", {"content": "x", "category": "secret"}, "category: must be one of"),
        ("archival_memory_write", {"content": "x", "tags": ["core"]}, "tags: one of them is reserved"),
        ("archival_memory_write", {"content": "x", "tags": [" CORE "]}, "tags: one of them is reserved"),
        ("archival_memory_write", {"content": "x", "tags": ["pinned"]}, "tags: one of them is reserved"),
        ("archival_memory_write", {"content": "x", "tags": ["propagated:bob"]}, "tags: one of them is reserved"),
        ("archival_memory_write", {"content": "x", "tags": ["a"] * 17 + ["b"]}, ""),
        ("archival_memory_write", {"content": "x", "tags": [f"t{n}" for n in range(17)]}, "tags: "),
        ("archival_memory_search", {"query": "x", "limit": 51}, "limit: "),
        ("recall_memory_read", {}, "give either query or memory_id"),
        ("recall_memory_read", {"query": "x", "memory_id": "y"}, "give either query or memory_id"),
        ("recall_memory_write", {"content": "\ud800"}, "content: must be valid Unicode text"),
        ("search_memory", {"query": "x"}, "there is no tool of this name"),
        ("add_memory", {"content": "x"}, "there is no tool of this name"),
    ],
)
async def test_hostile_calls_are_refused_and_write_nothing(
    ledger: Ledger, clock: TurnedClock, backend: WordBackend, tool_name: str, arguments: dict[str, Any], words: str
) -> None:
    editor = Editor(ledger, clock, backend)
    archived = id_in(await editor.call("archival_memory_write", content="The lift fails."))
    given = {name: archived if value == "ARCHIVED" else value for name, value in arguments.items()}

    answer = await editor.call(tool_name, **given)

    if words:
        assert answer.startswith("Error:")
        assert words in answer
        assert len(await backend.retrieve("ada", MemoryQuery())) == 1
    else:
        assert answer.startswith("Written")


async def test_a_locked_core_cannot_be_changed_by_any_tool(
    ledger: Ledger, clock: TurnedClock, backend: WordBackend
) -> None:
    entry = id_in(await Editor(ledger, clock, backend).core("I work for Mara."))
    locked = Editor(ledger, clock, backend, "allow_core_writes: false")
    tools = create_agent_tools(locked.parts)

    answers = [
        await locked.core("I work for Ben."),
        await locked.core("I work for Ben.", replaces=entry),
        await locked.core(replaces=entry),
        await tools.call("ada", "update_memory", {"memory_id": entry, "content": "I work for Ben."}),
        await tools.call("ada", "forget_memory", {"memory_id": entry}),
    ]

    assert set(answers) == {"Error: core memory cannot be changed: an operator has locked it."}
    assert "I work for Mara." in await locked.prompt()


async def test_another_agents_core_is_out_of_reach(ledger: Ledger, clock: TurnedClock, backend: WordBackend) -> None:
    editor = Editor(ledger, clock, backend)
    entry = id_in(await editor.core("I work for Mara."))

    answer = await editor.call("core_memory_write", agent_id="bob", content="x", replaces=entry)

    assert answer == "Error: there is no memory with this id."
    assert "Mara" not in await editor.call("core_memory_read", agent_id="bob")


async def test_the_configured_tag_makes_core_memory(ledger: Ledger, clock: TurnedClock, backend: WordBackend) -> None:
    editor = Editor(ledger, clock, backend, "core_memory_tag: heart, write_auto_tag: false")

    await editor.core("I work for Mara.")
    refused = await editor.call("archival_memory_write", content="x", tags=["heart"])

    (stored,) = await backend.retrieve("ada", MemoryQuery())
    assert stored.metadata.tags == ("heart",)
    assert refused.startswith("Error: tags:")


async def test_what_is_written_is_shown_where_only_non_inferable_memories_are(
    ledger: Ledger, clock: TurnedClock, backend: WordBackend
) -> None:
    editor = Editor(ledger, clock, backend, more=", non_inferable_only: true")
    await backend.store(
        "ada",
        MemoryStoreRequest(
            category=MemoryCategory.SEMANTIC, content="Inferable.", metadata=MemoryMetadata(tags=("core",))
        ),
    )

    await editor.core("I work for Mara.")

    shown = await editor.prompt()
    assert "I work for Mara." in shown
    assert "Inferable." not in shown


async def test_core_memory_has_a_budget_and_is_left_out_where_it_cannot_be_read(
    ledger: Ledger, clock: TurnedClock, backend: WordBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = Editor(ledger, clock, backend, "core_memory_token_budget: 256")
    for number in range(8):
        await editor.core(f"Entry {number}. " + "word " * 80)
        clock.at += timedelta(seconds=1)

    shown = await editor.prompt()

    assert 1 <= len(re.findall(r"Entry \d", shown)) < 8
    assert "Entry 7" in shown, "the newest are shown"

    async def away(*_given: object) -> None:
        raise MemoryConnectionError("no store")

    monkeypatch.setattr(backend, "retrieve", away)
    left = await editor.prompt()
    assert "Entry" not in left
    assert "core_memory_write" in left
    assert await editor.call("core_memory_read") == UNAVAILABLE


async def test_a_write_that_fails_gives_its_place_back(
    ledger: Ledger, clock: TurnedClock, backend: WordBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = Editor(ledger, clock, backend, "core_max_entries: 1")
    store = backend.store_many

    async def full(*_given: object) -> str:
        raise MemoryStoreError("no room")

    monkeypatch.setattr(backend, "store_many", full)
    assert await editor.core("I work for Mara.") == UNAVAILABLE
    monkeypatch.setattr(backend, "store_many", store)
    assert "Written" in await editor.core("I work for Ben.")


async def test_a_place_whose_writer_died_is_free_after_a_while(
    ledger: Ledger, clock: TurnedClock, backend: WordBackend
) -> None:
    editor = Editor(ledger, clock, backend, "core_max_entries: 1")
    assert ledger.core_slots.claim(COMPANY, "ada", "died", stored=(), most=1)

    assert "core memory is full" in await editor.core("I work for Ben.")
    clock.at += WRITE_TIME + timedelta(seconds=1)
    assert "Written" in await editor.core("I work for Ben.")


async def test_core_memories_that_others_wrote_take_places(
    ledger: Ledger, clock: TurnedClock, backend: WordBackend
) -> None:
    editor = Editor(ledger, clock, backend, "core_max_entries: 1")
    await backend.store(
        "ada",
        MemoryStoreRequest(
            category=MemoryCategory.SEMANTIC, content="By hand.", metadata=MemoryMetadata(tags=("core",))
        ),
    )

    assert "core memory is full" in await editor.core("I work for Ben.")


async def test_the_level_of_the_agent_decides_whether_it_may_write(
    ledger: Ledger, clock: TurnedClock, backend: WordBackend
) -> None:
    editor = Editor(ledger, clock, backend)
    for agent_id, level in (("none", MemoryLevel.NONE), ("session", MemoryLevel.SESSION)):
        ledger.agents.put(AgentSpec(company=COMPANY, agent_id=agent_id, level=level))
        answer = await editor.call("recall_memory_write", agent_id=agent_id, content="It rained.")
        assert answer.startswith("Error: "), answer
        assert await backend.retrieve(agent_id, MemoryQuery()) == ()


async def test_the_tools_of_doors_add_update_and_forget(
    ledger: Ledger, clock: TurnedClock, backend: WordBackend
) -> None:
    tools = create_agent_tools(Editor(ledger, clock, backend, "core_max_entries: 1").parts)
    assert len(tools.definitions()) == 12

    entry = id_in(await tools.call("ada", "add_memory", {"content": "The lift fails.", "tags": ["lift"]}))
    newer = id_in(await tools.call("ada", "update_memory", {"memory_id": entry, "content": "The lift works."}))
    assert "The lift works." in await tools.call("ada", "search_memory", {"query": "lift"})
    assert "no memory with this id" in await tools.call("bob", "forget_memory", {"memory_id": newer})
    assert "Forgotten" in await tools.call("ada", "forget_memory", {"memory_id": newer})
    assert "No memories found" in await tools.call("ada", "search_memory", {"query": "lift"})
    core = id_in(await tools.call("ada", "core_memory_write", {"content": "I work for Mara."}))
    await tools.call("ada", "forget_memory", {"memory_id": core})
    assert "Written" in await tools.call("ada", "core_memory_write", {"content": "I work for Ben."})


async def test_of_two_writers_at_the_last_place_exactly_one_wins(
    urls: LedgerUrls, clock: TurnedClock, backend: WordBackend
) -> None:
    with closing(Ledger.open(urls, clock=clock)) as one, closing(Ledger.open(urls, clock=clock)) as other:
        editors = [Editor(each, clock, backend, "core_max_entries: 2") for each in (one, other)]
        for number in range(sized(20, thorough=1_000)):
            agent_id = f"agent{number}"
            await editors[0].call("core_memory_write", agent_id=agent_id, content="The first of two.")

            answers = await asyncio.gather(
                *(
                    editor.call("core_memory_write", agent_id=agent_id, content=f"Writer {place} was here.")
                    for place, editor in enumerate(editors)
                )
            )

            assert sorted(each.partition(" ")[0] for each in answers) == ["Error:", "Written"], answers
            assert await backend.count(agent_id) == 2
