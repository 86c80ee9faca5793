"""What prompts hold of the evidence, and in which order, by the time at which an agent asks."""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from benchmarks.figure import Target
from benchmarks.retrieval.conversations import Conversation
from benchmarks.stack import BenchStack, policy_of
from rich.console import Console
from rich.table import Table

from memcore.backends.mem0.backend import Mem0Backend
from memcore.backends.protocol import pages
from memcore.clock import utc_now
from memcore.config.retrieval import MemoryRetrievalConfig
from memcore.evaluation.asking import LastUse, compare, ndcg
from memcore.models.answers import Shown
from memcore.models.memory import MemoryCategory, MemoryEntry, MemoryQuery
from memcore.records import Where
from memcore.retrieval.context import ContextInjectionStrategy
from memcore.retrieval.protocol import ScoredMemory

_RETRIEVE, _LIVE, _ANY = "retrieve", "prompt, live clock", "the same, any evidence"

#: How long after the last turn the questions are asked: as a living agent does, and about what is long past.
_ASKED_AFTER = {
    _LIVE: timedelta(hours=1),
    _ANY: timedelta(hours=1),
    "prompt, a year later": timedelta(days=365),
}

#: Tokens of the prompts, and of one that holds all that was found.
_BUDGETS, _UNLIMITED = (400, 1_000), 100_000

#: What a live clock may cost beside the order of ``retrieve``, and the least evidence beside any, in NDCG@10.
_CLOCK_COSTS, _EVIDENCE_COSTS = 0.005, 0.01

#: What the prompt path has to reach with the static embedder.
_STATIC = 0.58

#: Finds an agent's memories for a query, best first.
_Search = Callable[[str, MemoryQuery], Coroutine[Any, Any, Sequence[MemoryEntry]]]


@dataclass(slots=True)
class _Held:
    """NDCG@10 of the memories in a prompt that holds all, and the evidence in others by their tokens."""

    ndcg: list[float] = field(default_factory=list)
    shares: dict[int, list[float]] = field(default_factory=lambda: {budget: [] for budget in _BUDGETS})


class _InOrderOf:
    """A retriever that gives what a search found in the search's order; it keeps its last answer."""

    def __init__(self, search: _Search) -> None:
        self._search = search
        self._asked, self._found = ("", ""), tuple[ScoredMemory, ...]()

    async def retrieve(
        self, agent_id: str, query_text: str, *, limit: int, categories: frozenset[MemoryCategory] | None = None
    ) -> tuple[ScoredMemory, ...]:
        if self._asked != (agent_id, query_text):
            query = MemoryQuery(text=query_text, categories=categories, limit=limit, standing=Shown.ANY)
            found = (await self._search(agent_id, query))[:limit]
            self._found = tuple(
                ScoredMemory(entry=entry, relevance_score=score, recency_score=0.0, combined_score=score)
                for entry, score in zip(found, np.linspace(1.0, 0.5, limit).tolist(), strict=False)
            )
            self._asked = agent_id, query_text
        return self._found


@dataclass(slots=True)
class _Now:
    """The clock of store and prompts: what "last week" means to the one, it means to the other."""

    at: datetime = field(default_factory=utc_now)

    def __call__(self) -> datetime:
        return self.at


class _Prompts:
    """The ways to a prompt for the questions of one conversation at a time, and what the prompts held so far."""

    def __init__(self, backend: Mem0Backend, config: MemoryRetrievalConfig, now: "_Now") -> None:
        async def dense(agent_id: str, query: MemoryQuery) -> list[MemoryEntry]:
            return [hit.entry for hit in (await backend.retrieve_rankings(agent_id, query)).dense]

        searches: dict[str, _Search] = {"bm25": backend.retrieve_sparse, "dense": dense, _RETRIEVE: backend.retrieve}
        self._backend, self._config = backend, config
        self._now, self._last = now, LastUse()
        self._ways = {name: self._way(search) for name, search in searches.items()}
        self._ways |= {name: self._way(any_evidence=name == _ANY) for name in _ASKED_AFTER}
        self.held = {name: _Held() for name in self._ways}

    async def ask_all(self, conversation: Conversation) -> None:
        agent_id = conversation.agent_id
        records = [record async for page in pages(self._backend, Where(agent_id=agent_id)) for record in page]
        names = {record.entry.id: str(record.entry.metadata.source) for record in records}
        for way, held in self.held.items():
            self._now.at = conversation.turns[-1].at + _ASKED_AFTER.get(way, timedelta())
            for question in conversation.questions:
                for budget in (_UNLIMITED, *_BUDGETS):
                    await self._ways[way].prepare_messages(agent_id, question.text, budget)
                    shown = [names[each] for each in self._last.taken()]
                    if budget == _UNLIMITED:
                        held.ndcg.append(ndcg(shown, question.evidence))
                    else:
                        held.shares[budget].append(len(question.evidence & set(shown)) / len(question.evidence))

    def _way(self, search: _Search | None = None, *, any_evidence: bool = False) -> ContextInjectionStrategy:
        least = {"standing": Shown.ANY, "min_relevance": 0.0} if any_evidence else {}
        retriever = "hierarchical" if search else "flat"
        return ContextInjectionStrategy(
            backend=self._backend,
            config=self._config.model_copy(update={"retriever": retriever, **least}),
            hierarchical_retriever=_InOrderOf(search) if search else None,
            use_recorder=self._last,
            clock=self._now,
        )


def prompts(stack: BenchStack, corpus: Sequence[Conversation], console: Console) -> list[Target]:
    """Prepare prompts for every question of the loaded conversations, and print what they hold."""
    now = _Now()
    with stack.backend(stack.settings.company, clock=now) as (backend, runner):
        if not isinstance(backend, Mem0Backend):
            raise TypeError("the backend of the stack is not mem0")
        every = _Prompts(backend, policy_of(stack.settings).memory.retrieval, now)
        for each in corpus:
            runner.run(every.ask_all(each))
    table = Table("", "NDCG@10", *(f"at {budget:,} tokens" for budget in _BUDGETS), title="evidence in prompts")
    for name, row in every.held.items():
        table.add_row(name, *(f"{np.mean(scores):.4f}" for scores in (row.ndcg, *row.shares.values())))
    console.print(table)
    targets = [
        Target(name="prompt, live clock, NDCG@10", values=[float(np.mean(every.held[_LIVE].ndcg))], wanted=_STATIC)
    ]
    for name, better, worse, most in (
        ("a live clock costs", _RETRIEVE, _ANY, _CLOCK_COSTS),
        ("the least evidence costs", _ANY, _LIVE, _EVIDENCE_COSTS),
    ):
        costs = compare(every.held[better].ndcg, every.held[worse].ndcg)
        console.print(
            f"{name} {costs.mean:+.4f} NDCG@10, 95 % of 10,000 paired resamples within "
            f"{costs.low:+.4f} to {costs.high:+.4f}\n"
        )
        targets.append(Target(name=f"{name}, NDCG@10", values=[costs.mean], wanted=most, at_most=True))
    return targets
