"""The latency of a hybrid search over 50,000 memories of 50 agents, beside one dense query and mem0.search."""

import random
import tempfile
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.figure import Figure, Target
from benchmarks.stack import BenchStack
from benchmarks.texts import Texts, questions
from qdrant_client.models import FieldCondition, Filter, MatchValue
from support.stock_mem0 import close_mem0, open_mem0

from memcore.backends.base import fresh_record
from memcore.backends.factory import mem0_config_of
from memcore.backends.protocol import BatchBackend
from memcore.clock import utc_now
from memcore.embedding.protocol import Embedder
from memcore.models.answers import Shown

#: Memories written in one call while the collection is filled.
from memcore.models.memory import MemoryQuery

#: Memories written in one call while the collection is filled.
_AT_ONCE = 1_024

#: Results asked for, as an engine asks.
_RESULTS = 10

#: Parts into which the searches of a run are cut, so that the figures have a spread.
_PARTS = 5

#: Most that a hybrid search may take at its 95 % quantile, in bare searches.
_MOST = 1.3

#: The quantile beside which the CPU time is shown.
_MEDIAN = 50

_COMPANY = "bench-latency"

#: How many memories of an agent a question found.
_Ask = Callable[[str, str], Coroutine[Any, Any, int]]

_OURS = "retrieve, hybrid"
_BARE = "bare: embed + one dense query"
_MEM0 = "mem0.search on the same data"


def latency(
    stack: BenchStack, embedder: Embedder, *, memories: int, agents: int, rounds: int
) -> tuple[list[Figure], list[Target]]:
    """Fill a collection with the demo fleet's texts; ask every contender every question, each of a chance agent."""
    place = mem0_config_of(stack.settings.model_copy(update={"company": _COMPANY}))
    dice = random.Random(4)  # agents to ask, no secrets
    walls: dict[str, list[float]] = {_OURS: [], _BARE: [], _MEM0: []}
    cpu = dict.fromkeys(walls, 0.0)
    with (
        stack.backend(_COMPANY) as (backend, runner),
        closing(stack.qdrant()) as qdrant,
        tempfile.TemporaryDirectory(prefix="memtend-bench-mem0-") as folder,
    ):
        runner.run(_fill(backend, memories, agents))
        peer: Any = open_mem0(place, embedder, folder=Path(folder))

        async def hybrid(agent_id: str, text: str) -> int:
            # The others answer whatever they find.
            asked = MemoryQuery(text=text, limit=_RESULTS, standing=Shown.ANY)
            return len(await backend.retrieve(agent_id, asked))

        async def bare(agent_id: str, text: str) -> int:
            return len(
                qdrant.query_points(
                    place.collection,
                    query=embedder.embed_query(text).tolist(),
                    query_filter=Filter(must=[FieldCondition(key="agent_id", match=MatchValue(value=agent_id))]),
                    limit=_RESULTS,
                    with_payload=True,
                ).points
            )

        async def stock(agent_id: str, text: str) -> int:
            return len(peer.search(text, filters={"agent_id": agent_id}, top_k=_RESULTS)["results"])

        contenders: dict[str, _Ask] = {
            _OURS: hybrid,
            _BARE: bare,
            _MEM0: stock,
        }

        async def measure() -> None:
            for turn in range(rounds + 1):
                for text in questions():
                    agent_id = f"agent-{dice.randrange(agents)}"
                    # In another order each time, so that nobody always comes after the same one.
                    for name in dice.sample(sorted(contenders), len(contenders)):
                        cpu_before, before = time.process_time(), time.perf_counter()
                        found = await contenders[name](agent_id, text)
                        if not turn:
                            # The first round only warms up.
                            continue
                        walls[name].append((time.perf_counter() - before) * 1e3)
                        cpu[name] += (time.process_time() - cpu_before) * 1e3
                        if not found:
                            raise AssertionError(f"{name} found nothing for {text!r}")

        try:
            runner.run(measure())
        finally:
            close_mem0(peer)
    group = f"search, {memories:,} memories in {agents} agents"
    return _figures(group, walls, cpu), [_target(walls)]


async def _fill(backend: BatchBackend, memories: int, agents: int) -> None:
    requests, now = Texts().requests(memories, mark="latency"), utc_now()
    for start in range(0, memories, _AT_ONCE):
        chunk = enumerate(requests[start : start + _AT_ONCE], start)
        await backend.store_many(
            [fresh_record(f"agent-{n % agents}", each, company=_COMPANY, now=now) for n, each in chunk]
        )


def _target(walls: Mapping[str, Sequence[float]]) -> Target:
    ratio = float(np.percentile(walls[_OURS], 95) / np.percentile(walls[_BARE], 95))
    return Target(name="hybrid against bare, p95", values=[ratio], wanted=_MOST, at_most=True)


def _figures(group: str, walls: Mapping[str, Sequence[float]], cpu: Mapping[str, float]) -> list[Figure]:
    return [
        Figure(
            group=group,
            name=f"{name}, p{at}",
            unit="ms",
            samples=[float(np.percentile(part, at)) for part in np.array_split(walls[name], _PARTS)],
            cpu_ms=cpu[name] / len(walls[name]) if at == _MEDIAN else None,
            note="CPU: this process only" if at == _MEDIAN else "",
        )
        for name in walls
        for at in (_MEDIAN, 95)
    ]
