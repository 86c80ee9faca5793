"""The product's rankings: through the queue and the worker into the store, and out again through the backend."""

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import psutil
from benchmarks.retrieval.conversations import Conversation
from benchmarks.stack import BenchStack

from memcore import MemoryClient
from memcore.backends.base import fresh_record
from memcore.backends.factory import create_worker_backend
from memcore.backends.mem0.backend import Mem0Backend
from memcore.backends.protocol import MemoryBackend
from memcore.client.envelopes import ImportRecord
from memcore.config.policy import Policy
from memcore.config.retrieval import FusionStrategy
from memcore.embedding.protocol import Embedder
from memcore.finetune.evaluate import DEPTH
from memcore.models.answers import Shown
from memcore.models.memory import MemoryCategory, MemoryEntry, MemoryMetadata, MemoryQuery, MemoryStoreRequest
from memcore.retrieval.ranking import fuse_ranked_lists

#: A way to rank an agent's memories for a query.
Method = Callable[[str, MemoryQuery], Coroutine[Any, Any, Sequence[MemoryEntry]]]

#: Memories written in one call.
_AT_ONCE = 1_024


def recall(ranked: Sequence[str], wanted: Collection[str]) -> float:
    """Return the share of what is wanted among the first ten."""
    return len(set(ranked[:DEPTH]) & set(wanted)) / len(wanted)


@dataclass(slots=True)
class Answers:
    """What one method answered.

    Attributes:
        rankings: the names of the turns, best first, for each question.
        milliseconds: on the clock, for each question.
        cpu_ms: of this process and of the store server, for all questions together.
    """

    rankings: list[list[str]] = field(default_factory=list)
    milliseconds: list[float] = field(default_factory=list)
    cpu_ms: float = 0.0


def load(stack: BenchStack, corpus: Sequence[Conversation]) -> float:
    """Import every turn by the client and wait until all can be found; return the seconds."""
    begun, count = time.perf_counter(), sum(len(each.turns) for each in corpus)
    with MemoryClient.from_settings(stack.settings) as client, closing(stack.qdrant()) as qdrant:
        client.import_many(
            ImportRecord(
                agent_id=each.agent_id,
                category=MemoryCategory.EPISODIC,
                content=turn.stored_text,
                metadata=MemoryMetadata(source=turn.name),
                created_at=turn.at,
                session_id=turn.session_id,
            )
            for each in corpus
            for turn in each.turns
        )
        stack.await_count(qdrant, count)
    return time.perf_counter() - begun


def load_directly(
    stack: BenchStack, policy: Policy, company: str, corpus: Sequence[Conversation], embedder: Embedder
) -> None:
    """Write every turn by the backend, day and speaker apart from the text, for a policy other than the stack's."""
    settings = stack.settings.model_copy(update={"company": company})
    backend = create_worker_backend(settings, policy, embedder=embedder)
    records = [
        fresh_record(
            each.agent_id,
            MemoryStoreRequest(
                category=MemoryCategory.EPISODIC,
                content=turn.text,
                metadata=MemoryMetadata(source=turn.name, tags=(f"speaker:{turn.speaker}",)),
            ),
            company=company,
            now=turn.at,
        )
        for each in corpus
        for turn in each.turns
    ]
    with asyncio.Runner() as runner:
        runner.run(backend.connect())
        for start in range(0, len(records), _AT_ONCE):
            runner.run(backend.store_many(records[start : start + _AT_ONCE]))
        runner.run(backend.disconnect())


def ask_all(
    stack: BenchStack, policy: Policy, company: str, corpus: Sequence[Conversation], embedder: Embedder
) -> dict[str, Answers]:
    """Ask every question of its agent by every method, in turn; the methods are named as in ``ByHand.rankings``."""
    settings = stack.settings.model_copy(update={"company": company})
    weighted, linear = (
        create_worker_backend(settings, with_memory(policy, retrieval={"fusion_strategy": strategy}), embedder=embedder)
        for strategy in (FusionStrategy.WEIGHTED, FusionStrategy.LINEAR)
    )
    if not isinstance(weighted, Mem0Backend):
        raise TypeError("the backend of the stack is not mem0")
    store = psutil.Process(stack.pids()["store-server"])
    methods = _methods(weighted, linear)
    answers = {name: Answers() for name in methods}
    with asyncio.Runner() as runner:
        for backend in (weighted, linear):
            runner.run(backend.connect())
        try:
            for each in corpus:
                for question in each.questions:
                    # The ranking itself: what least evidence costs is measured with the prompts.
                    query = MemoryQuery(text=question.text, limit=DEPTH, standing=Shown.ANY)
                    for name, ask in methods.items():
                        cpu, begun = _cpu(store), time.perf_counter()
                        found = runner.run(ask(each.agent_id, query))
                        answers[name].milliseconds.append((time.perf_counter() - begun) * 1e3)
                        answers[name].cpu_ms += (_cpu(store) - cpu) * 1e3
                        answers[name].rankings.append([str(entry.metadata.source) for entry in found])
        finally:
            for backend in (weighted, linear):
                runner.run(backend.disconnect())
    return answers


def kept_candidates(
    stack: BenchStack, policy: Policy, company: str, corpus: Sequence[Conversation], embedder: Embedder
) -> list[frozenset[str]]:
    """Return the names of the turns that the store finds for each question, by words or by meaning."""
    settings = stack.settings.model_copy(update={"company": company})
    backend = create_worker_backend(settings, policy, embedder=embedder)
    if not isinstance(backend, Mem0Backend):
        raise TypeError("the backend of the stack is not mem0")
    kept: list[frozenset[str]] = []
    with asyncio.Runner() as runner:
        runner.run(backend.connect())
        for each in corpus:
            for question in each.questions:
                query = MemoryQuery(text=question.text, limit=DEPTH, standing=Shown.ANY)
                found = runner.run(backend.retrieve_rankings(each.agent_id, query))
                hits = (*found.dense, *found.sparse)
                kept.append(frozenset(str(hit.entry.metadata.source) for hit in hits))
        runner.run(backend.disconnect())
    return kept


def with_memory(policy: Policy, **sections: dict[str, object]) -> Policy:
    """Return a policy with some keys of some sections of ``memory`` changed."""
    written = policy.model_dump(mode="json", exclude_unset=True)
    memory = written.setdefault("memory", {})
    for name, keys in sections.items():
        memory[name] = {**memory.get(name, {}), **keys}
    return Policy.model_validate(written)


def _methods(weighted: Mem0Backend, linear: MemoryBackend) -> dict[str, Method]:
    async def ranks(agent_id: str, query: MemoryQuery) -> Sequence[MemoryEntry]:
        rankings = await weighted.retrieve_rankings(agent_id, query)
        lists = [[hit.entry for hit in ranking] for ranking in (rankings.dense, rankings.sparse)]
        return [scored.entry for scored in fuse_ranked_lists(lists, max_results=DEPTH)]

    return {"bm25": weighted.retrieve_sparse, "dense": linear.retrieve, "rrf": ranks, "weighted": weighted.retrieve}


def _cpu(store: psutil.Process) -> float:
    times = store.cpu_times()
    return time.process_time() + times.user + times.system
