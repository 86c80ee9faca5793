"""The hierarchical retriever: a model says which kinds of memory a question is about; each has a worker of its own.

Where what they find is poor, the model may correct the question, and they search again.
"""

import asyncio
from collections.abc import Collection, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Self, cast

from pydantic import BeforeValidator, Field, model_validator

from memcore.backends.protocol import MemoryBackend
from memcore.clock import Clock, utc_now
from memcore.config.retrieval import MemoryRetrievalConfig
from memcore.llm.protocol import Model
from memcore.llm.reading import AnswerForm
from memcore.models.base import NotBlankStr
from memcore.models.memory import MemoryCategory, MemoryEntry, MemoryQuery
from memcore.retrieval.pipeline import MemoryPipeline
from memcore.retrieval.protocol import Degrading, ScoredMemory, Source, best_first
from memcore.retrieval.strategies.asking import MAX_WRITTEN_CHARS, SHOWN, TAG_QUESTION, ModelQuestions, shown_to_model
from memcore.untrusted_text import TAG_MEMORY_ENTRY, untrusted_content_directive, wrap_untrusted

#: The purposes that the account names.
PURPOSE_ROUTE = "system:memory:search:route"
PURPOSE_REFLECT = "system:memory:search:reflect"

#: How far back the episodic worker looks, and how many times as many memories it fetches as are asked for.
EPISODIC_WINDOW = timedelta(hours=72)
_EPISODIC_POOL = 4

#: The most memories that one query may fetch.
_MOST_FETCHED = 1_000

#: The shares of relevance and of recency within the window.
_EPISODIC_RELEVANCE, _EPISODIC_RECENCY = 0.4, 0.6


class Worker(StrEnum):
    """Searches one kind of memory."""

    #: Everything that is known, as a flat search finds it, shared knowledge too.
    SEMANTIC = "semantic"
    #: What happened in the last three days.
    EPISODIC = "episodic"
    #: How things are done.
    PROCEDURAL = "procedural"


class _Reflection(StrEnum):
    SEMANTIC_ONLY = "semantic_only"
    EPISODIC_ONLY = "episodic_only"
    SKIP = "skip"


def _known(names: object) -> object:
    """Return the workers that there are: a model may name others beside them."""
    if not isinstance(names, list | tuple):
        return names
    return [each for each in cast("Sequence[object]", names) if isinstance(each, str) and each in set(Worker)]


class Route(AnswerForm):
    """A model's answer to who shall search."""

    workers: Annotated[tuple[Worker, ...], BeforeValidator(_known), Field(min_length=1)]


class Reflection(AnswerForm):
    """A model's answer to how a poor search can be bettered: another query, or an action."""

    query: Annotated[NotBlankStr, Field(max_length=MAX_WRITTEN_CHARS)] | None = None
    action: _Reflection | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.query is None and self.action is None:
            raise ValueError("must have a query or an action")
        return self


_FENCE = untrusted_content_directive(TAG_QUESTION)

_ROUTE = (
    "An agent asks its memory a question. Say which of these should search: semantic (facts and everything else), "
    "episodic (what happened in the last three days), procedural (how to do things). "
    f'{_FENCE} Answer with JSON alone: {{"workers": ["semantic"]}}. Name at most MOST, the most useful first.'
)

_REFLECT = (
    "An agent asked its memory a question, and what was found is poor. Correct the query, so that it finds more, or "
    f"choose who searches. {_FENCE} The same holds for <{TAG_MEMORY_ENTRY}>. Answer with JSON alone: "
    '{"query": "the corrected query"}, or {"action": "semantic_only"}, {"action": "episodic_only"}, or '
    '{"action": "skip"} when nothing better can be found.'
)


class LLMHierarchicalRetriever:
    """Routes a question to one to three workers, which search at once, and merges what they find.

    A model that fails leaves the semantic worker alone, which is the flat search. Memories that several find have
    their best score.

    Args:
        flat: searches as without this retriever.
        config: ``max_workers_per_query``, ``reflective_retry_enabled``, ``max_retry_count`` and ``min_relevance``.
    """

    def __init__(
        self,
        *,
        flat: MemoryPipeline,
        backend: MemoryBackend,
        model: Model,
        config: MemoryRetrievalConfig,
        company: str,
        clock: Clock = utc_now,
    ) -> None:
        self._flat = flat
        self._backend = backend
        self._questions = ModelQuestions(model, company=company)
        self._config = config
        self._clock = clock

    async def retrieve(
        self, agent_id: str, query_text: str, *, limit: int, categories: frozenset[MemoryCategory] | None = None
    ) -> tuple[ScoredMemory, ...]:
        """Return at most ``limit`` memories, best first; of shared knowledge as many again."""
        query, workers = query_text, await self._routed(agent_id, query_text)
        asked: set[tuple[str, frozenset[Worker]]] = set()
        found: dict[str, ScoredMemory] = {}
        # A flat search has thresholds of its own, by evidence: what it lets through stays.
        let_through: set[str] = set()
        retries = self._config.max_retry_count if self._config.reflective_retry_enabled else 0
        for attempt in range(retries + 1):
            plan = " ".join(query.casefold().split()), workers
            if plan in asked:
                break
            asked.add(plan)
            new = await self._searched(agent_id, query, workers, limit=limit, categories=categories)
            let_through |= {each.entry.id for each in new if each.scoring_strategy is not None}
            for each in new:
                known = found.get(each.entry.id)
                if known is None or each.combined_score > known.combined_score:
                    found[each.entry.id] = each
            if attempt == retries:
                break
            if not new:
                workers = frozenset({Worker.SEMANTIC})
            elif sum(each.combined_score for each in new) / len(new) < self._config.min_relevance:
                corrected = await self._corrected(agent_id, query, workers, new)
                if corrected is None:
                    break
                query, workers = corrected
            else:
                break
        least = self._config.min_relevance
        good = (each for each in found.values() if each.combined_score >= least or each.entry.id in let_through)
        ranked = sorted(good, key=best_first)
        own = [each for each in ranked if not each.is_shared][:limit]
        shared = [each for each in ranked if each.is_shared][:limit]
        return tuple(sorted((*own, *shared), key=best_first))

    async def _searched(
        self,
        agent_id: str,
        query: str,
        workers: Collection[Worker],
        *,
        limit: int,
        categories: frozenset[MemoryCategory] | None,
    ) -> list[ScoredMemory]:
        """Return what the workers find; a memory that several find stands there for each of them."""
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._work(worker, agent_id, query, limit=limit, categories=categories))
                for worker in sorted(workers)
            ]
        return [each for task in tasks for each in task.result()]

    async def _work(
        self,
        worker: Worker,
        agent_id: str,
        query: str,
        *,
        limit: int,
        categories: frozenset[MemoryCategory] | None,
    ) -> tuple[ScoredMemory, ...]:
        if worker is Worker.SEMANTIC:
            return await self._flat.found(agent_id, query, categories=categories, limit=limit)
        category = MemoryCategory(worker)
        if categories is not None and category not in categories:
            return ()
        with Degrading(Source.BACKEND, agent_id):
            if worker is Worker.PROCEDURAL:
                asked = MemoryQuery(text=query, categories=frozenset({category}), limit=limit)
                return tuple(self._scored(each) for each in await self._backend.retrieve(agent_id, asked))
            now = self._clock()
            asked = MemoryQuery(
                text=query,
                categories=frozenset({category}),
                since=now - EPISODIC_WINDOW,
                limit=min(_EPISODIC_POOL * limit, _MOST_FETCHED),
            )
            found = await self._backend.retrieve(agent_id, asked)
            recency = [1.0 - max(timedelta(), now - each.created_at) / EPISODIC_WINDOW for each in found]
            scored = [self._scored(each, recency=share) for each, share in zip(found, recency, strict=True)]
            return tuple(sorted(scored, key=best_first)[:limit])
        return ()

    def _scored(self, entry: MemoryEntry, *, recency: float | None = None) -> ScoredMemory:
        relevance = self._config.default_relevance if entry.relevance_score is None else entry.relevance_score
        share = None if recency is None else max(0.0, min(1.0, recency))
        combined = relevance if share is None else _EPISODIC_RELEVANCE * relevance + _EPISODIC_RECENCY * share
        return ScoredMemory(
            entry=entry, relevance_score=relevance, recency_score=share or 0.0, combined_score=min(1.0, combined)
        )

    async def _routed(self, agent_id: str, query: str) -> frozenset[Worker]:
        """Return the workers that the model names; the semantic one alone where it fails."""
        with Degrading(Source.HIERARCHICAL, agent_id):
            most = min(self._config.max_workers_per_query, len(Worker))
            system = _ROUTE.replace("MOST", str(most))
            content = wrap_untrusted(TAG_QUESTION, query)
            answer = await self._questions.form(Route, agent_id, PURPOSE_ROUTE, system, content, max_tokens=200)
            return frozenset(list(dict.fromkeys(answer.workers))[:most])
        return frozenset({Worker.SEMANTIC})

    async def _corrected(
        self, agent_id: str, query: str, workers: frozenset[Worker], found: Sequence[ScoredMemory]
    ) -> tuple[str, frozenset[Worker]] | None:
        """Return the next question and its workers; None to stop, and where the model fails."""
        with Degrading(Source.HIERARCHICAL, agent_id):
            shown = sorted(found, key=best_first)[:SHOWN]
            content = shown_to_model(query, shown)
            answer = await self._questions.form(
                Reflection, agent_id, PURPOSE_REFLECT, _REFLECT, content, max_tokens=200
            )
            match answer.action:
                case _Reflection.SEMANTIC_ONLY:
                    return query, frozenset({Worker.SEMANTIC})
                case _Reflection.EPISODIC_ONLY:
                    return query, frozenset({Worker.EPISODIC})
                case _:
                    return None if answer.query is None else (answer.query, workers)
        return None
