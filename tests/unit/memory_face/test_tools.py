"""Tools through Memory and AsyncMemory: those of the policy's strategy, and a model on the agents' account."""

import asyncio
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from support.agent_tools import COMPANY, WordBackend, memory_parts
from support.config_effects import Place
from support.fake_summarizer import said
from support.memories import NOW

from memcore.client.async_client import AsyncMemoryClient
from memcore.client.client import MemoryClient
from memcore.clock import utc_now
from memcore.config.loader import load_policy
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.errors import MemoryConfigError, MemoryConnectionError
from memcore.ledger.ledger import Ledger
from memcore.ledger.llm_usage import UsageBy
from memcore.llm.protocol import Completion, CompletionRequest
from memcore.memory.async_memory import AsyncMemory
from memcore.memory.memory import Memory
from memcore.models.memory import MemoryCategory, MemoryStoreRequest

SEARCHING = ["search_memory", "recall_memory"]
READING = [*SEARCHING, "ask_memory"]
SIX = [
    "core_memory_read",
    "core_memory_write",
    "archival_memory_search",
    "archival_memory_write",
    "recall_memory_read",
    "recall_memory_write",
]
WRITING = ["add_memory", "update_memory", "forget_memory"]


class Away:
    """A broker that cannot be reached."""

    def send(self, name: str, *_given: object, **_how: object) -> str:
        raise MemoryConnectionError(name)

    def close(self) -> None:
        """Nothing is open."""


class Provider:
    """A language model that answers every question alike, and is closed with its memory."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.asked: list[CompletionRequest] = []
        self.is_closed = False

    async def complete(self, request: CompletionRequest, *, idempotency_key: str) -> Completion:
        del idempotency_key
        self.asked.append(request)
        return said(self.text)

    async def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def settings(tmp_path: Path, ledger_template: Path) -> Settings:
    return Place(folder=tmp_path / "home", template=ledger_template).settings()


@pytest.fixture
def backend() -> WordBackend:
    made = WordBackend(company=COMPANY, clock=lambda: NOW)
    asyncio.run(made.connect())
    for text in ("the disk is full", "the disk of the build host is full"):
        asyncio.run(made.store("ada", MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content=text)))
    return made


def opened(settings: Settings, policy: Policy, backend: WordBackend, provider: Provider | None = None) -> Memory:
    client = MemoryClient("redis://127.0.0.1:1/0")
    client._opened = Away()  # type: ignore[assignment]  # it has what these calls need
    return Memory(client, **memory_parts(settings, policy, backend, provider))


@pytest.mark.parametrize(
    ("strategy", "own", "every"),
    [
        ("context", READING, [*READING, *SIX, *WRITING]),
        ("tool_based", SEARCHING, [*READING, *SIX, *WRITING]),
        ("self_editing", SIX, [*READING, *SIX, *WRITING]),
    ],
)
def test_the_tools_are_those_of_the_strategy_and_no_others_can_be_called(
    settings: Settings, backend: WordBackend, strategy: str, own: list[str], every: list[str]
) -> None:
    policy = load_policy(f"memory: {{retrieval: {{strategy: {strategy}}}}}")
    with opened(settings, policy, backend) as memory:
        assert [each.name for each in memory.tools("ada")] == own
        assert [each.name for each in memory.tools(writes=True)] == every
        refused = memory.call_tool("ada", "add_memory", {"content": "The lift fails."})
        assert refused.startswith("Error: there is no tool of this name")
        assert "Stored as" in memory.call_tool("ada", "add_memory", {"content": "The lift fails."}, writes=True)
        found = memory.call_tool("ada", "search_memory", '{"query": "lift"}', writes=True)
        assert "The lift fails." in found, "it is found at once"


def test_a_prompt_is_that_of_the_strategy(settings: Settings, backend: WordBackend) -> None:
    policy = load_policy("memory: {retrieval: {strategy: self_editing}}")
    with opened(settings, policy, backend) as memory:
        memory.call_tool("ada", "core_memory_write", {"content": "I work for Mara."})
        shown = "".join(each.content for each in memory.prepare("ada", "disk", token_budget=900))
    assert "I work for Mara." in shown
    assert "disk is full" not in shown


@pytest.mark.parametrize("key", ["query_specific_rerank_enabled: true", "retriever: hierarchical"])
def test_a_provider_is_asked_on_the_agents_account(settings: Settings, backend: WordBackend, key: str) -> None:
    policy = load_policy(f"memory: {{retrieval: {{{key}}}, llm: {{model: m}}}}")
    provider = Provider('{"order": [2, 1], "workers": ["semantic"]}')
    with opened(settings, policy, backend, provider) as memory:
        assert len(memory.prepare("ada", "is the disk of the host full?", token_budget=900)) == 2
    assert len(provider.asked) == 1
    assert provider.is_closed
    with closing(Ledger.open(settings.ledger_urls)) as ledger:
        today = utc_now().date()
        (spent,) = ledger.usage.report(COMPANY, UsageBy.AGENT, since=today - timedelta(days=1), until=today)
    assert (spent.key, spent.calls) == ("ada", 1)


def test_an_agent_over_its_budget_still_has_its_prompt(settings: Settings, backend: WordBackend) -> None:
    policy = load_policy(
        "memory: {retrieval: {query_specific_rerank_enabled: true}, llm: {model: m}, "
        "budgets: {tokens_per_agent_per_day: 0}}"
    )
    provider = Provider('{"order": [2, 1]}')
    with opened(settings, policy, backend, provider) as memory:
        assert "the disk is full" in memory.prepare("ada", "is the disk full?", token_budget=900)[1].content
    assert provider.asked == []


def test_a_policy_that_needs_a_model_says_so_at_the_first_read(settings: Settings, backend: WordBackend) -> None:
    policy = load_policy("memory: {retrieval: {retriever: hierarchical}}")
    with opened(settings, policy, backend) as memory, pytest.raises(MemoryConfigError, match="set MEMTEND_LLM_URL"):
        memory.prepare("ada", "disk", token_budget=900)


async def test_async_memory_has_the_same_tools(settings: Settings, backend: WordBackend) -> None:
    policy = load_policy("memory: {retrieval: {strategy: self_editing}}")
    client = AsyncMemoryClient("redis://127.0.0.1:1/0")
    client.blocking._opened = Away()  # type: ignore[assignment]  # it has what these calls need
    async with AsyncMemory(client, **memory_parts(settings, policy, backend, None)) as memory:
        assert [each.name for each in await memory.tools("ada")] == SIX
        assert "Written" in await memory.call_tool("ada", "recall_memory_write", {"content": "It rained."})
        assert "It rained." in await memory.call_tool("ada", "recall_memory_read", {"query": "rained"})
        assert (await memory.call_tool("ada", "add_memory", {"content": "x"})).startswith("Error:")
