"""Context injection: the pipeline from a question to the messages of a prompt."""

import logging
from typing import Final, Self, Unpack

from memcore.backends.protocol import MemoryBackend
from memcore.clock import Clock, utc_now
from memcore.config.policy import Policy
from memcore.config.retrieval import MemoryRetrievalConfig
from memcore.event_loop import LoopThread
from memcore.models.execution import ChatMessage, ToolDefinition
from memcore.models.memory import MemoryCategory, require_agent_id
from memcore.retrieval.formatting import away_notice, format_fitting
from memcore.retrieval.pipeline import MemoryPipeline, PipelineParts, parts_of
from memcore.retrieval.protocol import (
    Degrading,
    Source,
    TokenEstimator,
    noting_degraded,
)
from memcore.retrieval.usage import QueryRecorder, UseRecorder
from memcore.telemetry.events import Event

_log = logging.getLogger(__name__)


class ContextInjectionStrategy:
    """Prepares the messages that carry an agent's memories into its prompt; connect the backend first.

    Search, fuse, re-rank, filter, collapse, diversify, cut, pack, fence: in this order. The agent's own memories come
    first, and shared knowledge has a part of its own, with a limit for each publisher. A part that fails is left out,
    and a ``memory.retrieval.degraded`` event names it. Safe in several tasks of the backend's event loop.

    Args:
        config: the policy's ``memory.retrieval``. Raises MemoryConfigError when it asks for a retriever or a re-ranker,
            and none was given.
        shared_store: shared knowledge and facts, asked when ``include_shared`` is true.
        token_estimator: counts tokens; four characters to a token when left out.
        memory_filter: which memories may be injected; all, or with ``non_inferable_only`` those that carry the tag.
        core_policies: texts that lead every prepared context (``org_memory.core_policies``).
        organisation: holds the organisation's facts: its written core policies lead too, after those given, and of the
            facts found only current ones are injected. None injects no fact.
        max_facts: most facts of one prompt (``org_memory.extended_store.max_retrieved_per_query``), policies aside.
        similarity_fn: compares contents for diversity; word pairs in common when left out.
        query_recorder: keeps each question and which memories were shown, where the policy says so.
    """

    strategy_name: Final = "context"

    def __init__(
        self,
        *,
        backend: MemoryBackend,
        config: MemoryRetrievalConfig,
        **parts: Unpack[PipelineParts],
    ) -> None:
        self._config = config
        self._pipeline = MemoryPipeline(backend=backend, config=config, **parts)

    @classmethod
    def from_policy(
        cls,
        policy: Policy,
        *,
        backend: MemoryBackend,
        token_estimator: TokenEstimator | None = None,
        use_recorder: UseRecorder | None = None,
        query_recorder: QueryRecorder | None = None,
        clock: Clock = utc_now,
    ) -> Self:
        """Return the strategy that a policy describes, with what the backend has of shared knowledge and facts."""
        parts = parts_of(
            policy,
            backend=backend,
            token_estimator=token_estimator,
            use_recorder=use_recorder,
            query_recorder=query_recorder,
            clock=clock,
        )
        return cls(backend=backend, config=policy.memory.retrieval, **parts)

    def get_tool_definitions(self) -> tuple[ToolDefinition, ...]:
        return ()

    async def prepare_messages(
        self,
        agent_id: str,
        query_text: str,
        token_budget: int,
        *,
        categories: frozenset[MemoryCategory] | None = None,
        time_zone: str | None = None,
    ) -> tuple[ChatMessage, ...]:
        """Return the messages to put between system prompt and task: policies, directive, memories; or fewer, or none.

        The query is what the coming turn is about. The budget is for policies and memories; the directive is not
        charged. Where a part fails, a line at the end says that memories are missing. Never raises for a memory's sake:
        MemoryInputError for what is no agent's id, and Python's own MemoryError and RecursionError pass.
        """
        require_agent_id(agent_id)
        if token_budget <= 0 or not query_text.strip():
            _log.debug(Event.MEMORY_RETRIEVAL_SKIPPED, extra={"agent_id": agent_id, "token_budget": token_budget})
            return ()
        with noting_degraded() as failed:
            messages = await self._messages(agent_id, query_text, token_budget, categories, time_zone)
        return (*messages, *away_notice(failed, injection_point=self._config.injection_point))

    async def _messages(
        self,
        agent_id: str,
        query_text: str,
        token_budget: int,
        categories: frozenset[MemoryCategory] | None,
        time_zone: str | None,
    ) -> tuple[ChatMessage, ...]:
        with Degrading(Source.PIPELINE, agent_id):
            policies = await self._pipeline.policies(agent_id, token_budget=token_budget)
            memories = await self._pipeline.chosen(agent_id, query_text, categories=categories, time_zone=time_zone)
            left = token_budget - policies.tokens
            fitting = await self._pipeline.fitting(query_text, memories, leading=policies.by_agents, token_budget=left)
            shown = await self._pipeline.in_order(query_text, fitting, token_budget=left)
            messages = (*policies.messages, *format_fitting(shown, injection_point=self._config.injection_point))
            self._pipeline.note_use(agent_id, query_text, fitting)
            counts = {"found": len(policies.by_agents) + len(memories), "injected": len(fitting)}
            _log.debug(Event.MEMORY_RETRIEVAL_COMPLETE, extra={"agent_id": agent_id, **counts})
            return messages
        return ()


class BlockingContextInjection:
    """Context injection for engines without an event loop: enter it with ``with``, then call it in any thread.

    The strategy's backend, which nothing else has connected, is connected on entry and disconnected on exit, in an
    event loop of this object's own thread.
    """

    def __init__(self, strategy: ContextInjectionStrategy, backend: MemoryBackend) -> None:
        self._strategy = strategy
        self._backend = backend
        self._loop: LoopThread | None = None

    def prepare_messages(
        self,
        agent_id: str,
        query_text: str,
        token_budget: int,
        *,
        categories: frozenset[MemoryCategory] | None = None,
        time_zone: str | None = None,
    ) -> tuple[ChatMessage, ...]:
        """Return what the strategy's method of this name returns. Raises RuntimeError outside the ``with`` block."""
        if self._loop is None:
            raise RuntimeError("enter the object first: with BlockingContextInjection(...) as memories")
        work = self._strategy.prepare_messages(
            agent_id, query_text, token_budget, categories=categories, time_zone=time_zone
        )
        return self._loop.run(work)

    def __enter__(self) -> Self:
        loop = LoopThread("memtend-injection")
        try:
            loop.run(self._backend.connect())
        except BaseException:
            loop.close()
            raise
        self._loop = loop
        return self

    def __exit__(self, *_error: object) -> None:
        loop, self._loop = self._loop, None
        if loop is not None:
            try:
                loop.run(self._backend.disconnect())
            finally:
                loop.close()
