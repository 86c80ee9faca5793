"""The effects of the keys of strategies with tools, of hierarchical retrieval and of re-ranking by a model."""

import asyncio
from contextlib import closing
from datetime import timedelta
from typing import Any

from memcore.config.policy import Policy
from memcore.ledger.ledger import Ledger
from memcore.models.memory import MemoryCategory, MemoryQuery, MemoryStoreRequest
from memcore.retrieval.strategies.factory import create_injection_strategy
from support.agent_tools import COMPANY, Changes, ListModel, WordBackend
from support.config_effects import Effect, Place
from support.maintenance_fixture import TurnedClock

_TEXTS = (
    (MemoryCategory.SEMANTIC, "The backup of the billing database runs at four."),
    (MemoryCategory.PROCEDURAL, "To restore the billing database, stop the writers first."),
    (MemoryCategory.EPISODIC, "The restore of the billing database took two hours on Monday."),
)


def _model() -> ListModel:
    return ListModel(
        {
            "sufficient": "INSUFFICIENT",
            "reformulate": ["restore writers", "two hours", "at four", "none of these"],
            "route": {"workers": ["procedural", "episodic"]},
            "reflect": [{"query": "what is restored?"}, {"action": "semantic_only"}, {"action": "episodic_only"}],
            "rerank": {"order": [2, 1]},
        }
    )


async def _session(place: Place, policy: Policy, calls: tuple[tuple[str, dict[str, Any]], ...]) -> object:
    """What an agent is told of tools and shown in prompts, what is stored, and what the model was asked for."""
    clock, model = TurnedClock(), _model()
    backend = WordBackend(company=COMPANY, clock=clock)
    await backend.connect()
    for category, text in _TEXTS:
        await backend.store("ada", MemoryStoreRequest(category=category, content=text))
    with closing(Ledger.open(place.settings().ledger_urls, clock=clock)) as ledger:
        strategy = create_injection_strategy(
            policy,
            backend=backend,
            company=COMPANY,
            memories=Changes(backend),
            model=model,
            ledger=ledger,
            clock=clock,
        )
        seen: list[object] = [strategy.strategy_name]
        for name, arguments in calls:
            seen.append(await strategy.handle_tool_call("ada", name, arguments))  # type: ignore[union-attr]
        for _ in range(2):
            messages = await strategy.prepare_messages("ada", "How is the billing database restored?", 8_000)
            seen.append([each.content for each in messages])
            clock.at += timedelta(seconds=120)
        stored = await backend.retrieve("ada", MemoryQuery(limit=100))
        tags = sorted((entry.content, entry.metadata.tags) for entry in stored)
        return [seen, tags, model.purposes]


def prompts(place: Place, policy: Policy) -> object:
    return asyncio.run(_session(place, policy, ()))


def searches(place: Place, policy: Policy) -> object:
    return asyncio.run(_session(place, policy, (("search_memory", {"query": "billing backup"}),)))


def edits(place: Place, policy: Policy) -> object:
    long = "The team is on call from Monday to Sunday. " * 40
    calls = (
        ("core_memory_write", {"content": "I work for the billing team."}),
        ("core_memory_write", {"content": long}),
        ("archival_memory_write", {"content": "The billing queue pages at 500.", "category": "social"}),
        ("archival_memory_search", {"query": "billing database"}),
    )
    return asyncio.run(_session(place, policy, calls))


_R = "memory.retrieval."
_TOOLS = {f"{_R}strategy": "tool_based"}
_ASKING = {**_TOOLS, f"{_R}query_reformulation_enabled": True}
# A threshold that poor results do not reach.
_ROUTED = {f"{_R}retriever": "hierarchical", f"{_R}min_relevance": 0.99, f"{_R}standing": "any"}
_RERANKED = {f"{_R}query_specific_rerank_enabled": True, f"{_R}max_memories": 2}
_EDITING = {f"{_R}strategy": "self_editing"}
_OWN = f"{_R}self_editing."

EFFECTS = {
    f"{_R}strategy": Effect(prompts, "tool_based"),
    f"{_R}query_reformulation_enabled": Effect(searches, value=True, given=_TOOLS),
    f"{_R}max_reformulation_rounds": Effect(searches, 1, _ASKING),
    f"{_R}retriever": Effect(prompts, "hierarchical"),
    f"{_R}max_workers_per_query": Effect(prompts, 1, {f"{_R}retriever": "hierarchical"}),
    f"{_R}reflective_retry_enabled": Effect(prompts, value=False, given=_ROUTED),
    f"{_R}max_retry_count": Effect(prompts, 0, _ROUTED),
    f"{_R}query_specific_rerank_enabled": Effect(prompts, value=True, given={f"{_R}max_memories": 2}),
    f"{_R}rerank_cache_ttl_seconds": Effect(prompts, 60, _RERANKED),
    f"{_OWN}core_memory_token_budget": Effect(edits, 256, _EDITING),
    f"{_OWN}core_memory_tag": Effect(edits, "heart", _EDITING),
    f"{_OWN}allow_core_writes": Effect(edits, value=False, given=_EDITING),
    f"{_OWN}core_max_entries": Effect(edits, 1, _EDITING),
    f"{_OWN}archival_search_limit": Effect(edits, 1, _EDITING),
    f"{_OWN}archival_categories": Effect(edits, ["semantic"], _EDITING),
    f"{_OWN}write_auto_tag": Effect(edits, value=False, given=_EDITING),
}
