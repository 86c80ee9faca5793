"""What every injection strategy is made of: policies that lead, the way from a text to chosen memories, their uses.

Prompts and tools go the same way here, so that a tool ranks, filters and packs exactly as a prompt does.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

from memcore.backends.fusion import HybridBackend, RankedLists
from memcore.backends.protocol import FactStoreProvider, MemoryBackend, sharing_of
from memcore.backends.when import asked_range
from memcore.clock import Clock, utc_now
from memcore.config.organization import ExtendedStoreConfig
from memcore.config.policy import Policy
from memcore.config.retrieval import FusionStrategy, MemoryRetrievalConfig
from memcore.errors import MemoryConfigError
from memcore.models.execution import ChatMessage, MessageRole
from memcore.models.memory import MemoryCategory, MemoryQuery
from memcore.models.origin import AUTHORITIES, Authority, Channel, authority, least_shown
from memcore.retrieval.filters import MemoryFilterStrategy, PassthroughMemoryFilter, TagBasedMemoryFilter
from memcore.retrieval.formatting import fit
from memcore.retrieval.near_equals import varied
from memcore.retrieval.packing import fit_parts, sure_slots
from memcore.retrieval.passages import PassageMatcher
from memcore.retrieval.protocol import (
    DefaultTokenEstimator,
    Degrading,
    HierarchicalRetriever,
    PerAgentReranker,
    QuerySpecificReranker,
    Reranker,
    ScoredMemory,
    Source,
    TokenEstimator,
    best_first,
    reordered,
)
from memcore.retrieval.ranking import (
    Similarity,
    apply_diversity_penalty,
    covered,
    earned,
    fuse_ranked_lists,
    fuse_weighted,
    judged,
    rank_memories,
    surer_first,
    with_archived,
)
from memcore.retrieval.repetitions import collapsed
from memcore.retrieval.sources import FactsAlone, Organisation, SharedSearch, Sources, as_memories, nearest
from memcore.retrieval.subjects import by_subject, marked_within
from memcore.retrieval.usage import QueryRecorder, UseRecorder
from memcore.telemetry.events import Event

#: Operators wrote them in the policy file: they are instructions, so they have no fence.
_HEADING = "Policies of this organisation; they always apply:"

#: How many times as many memories are asked for where many of the best say nearly the same, and the most of a query.
_DEEPER, _MOST_ASKED = 10, 1_000

_log = logging.getLogger(__name__)


def format_core_policies(
    policies: Sequence[str], *, estimator: TokenEstimator, token_budget: int
) -> tuple[ChatMessage, ...]:
    """Return the message with the policies, in their order, or nothing when there is none.

    They take tokens before any memory does. One that the budget cannot hold is left out, and an event says so.
    """
    if not policies:
        return ()
    texts = [_HEADING, *(f"- {policy}" for policy in policies)]
    places = fit(texts, estimator=estimator, token_budget=token_budget)
    fitting = [place for place in places if place > 0] if 0 in places else []
    if len(fitting) < len(policies):
        left_out = len(policies) - len(fitting)
        _log.warning(Event.MEMORY_TOKEN_BUDGET_EXCEEDED, extra={"left_out": left_out, "token_budget": token_budget})
    if not fitting:
        return ()
    return (ChatMessage(role=MessageRole.SYSTEM, content="\n".join([_HEADING, *(texts[place] for place in fitting)])),)


class PipelineParts(TypedDict, total=False):
    """The parts of a pipeline that may be left out; see MemoryPipeline."""

    shared_store: SharedSearch | None
    token_estimator: TokenEstimator | None
    memory_filter: MemoryFilterStrategy | None
    hierarchical_retriever: HierarchicalRetriever | None
    reranker: Reranker | None
    core_policies: Sequence[str]
    organisation: FactStoreProvider | None
    max_facts: int
    similarity_fn: Similarity | None
    use_recorder: UseRecorder | None
    query_recorder: QueryRecorder | None
    clock: Clock
    authorities: Mapping[Channel, Authority]


def parts_of(
    policy: Policy,
    *,
    backend: MemoryBackend,
    token_estimator: TokenEstimator | None = None,
    use_recorder: UseRecorder | None = None,
    query_recorder: QueryRecorder | None = None,
    clock: Clock = utc_now,
) -> PipelineParts:
    """Return the parts that a policy describes, with what the backend has of shared knowledge and facts."""
    holder = backend if isinstance(backend, FactStoreProvider) else None
    return PipelineParts(
        shared_store=sharing_of(backend) or (FactsAlone(holder) if holder else None),
        token_estimator=token_estimator,
        core_policies=policy.org_memory.core_policies,
        organisation=holder,
        max_facts=policy.org_memory.extended_store.max_retrieved_per_query,
        use_recorder=use_recorder,
        query_recorder=query_recorder,
        clock=clock,
        authorities=policy.memory.origins.authority,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadingPolicies:
    """The policies that lead a context: messages of people's, and agents' policies, each for a fence of its own.

    ``tokens`` is what the messages take of the budget.
    """

    messages: tuple[ChatMessage, ...]
    by_agents: tuple[ScoredMemory, ...]
    tokens: int


class MemoryPipeline:
    """Search, fuse, re-rank, filter, collapse, diversify, cut, pack: in this order, for prompts and for tools.

    A part that fails is left out, and a ``memory.retrieval.degraded`` event names it. See ContextInjectionStrategy for
    the arguments. Raises MemoryConfigError when the configuration asks for a retriever or a re-ranker, and none was
    given.
    """

    def __init__(
        self,
        *,
        backend: MemoryBackend,
        config: MemoryRetrievalConfig,
        shared_store: SharedSearch | None = None,
        token_estimator: TokenEstimator | None = None,
        memory_filter: MemoryFilterStrategy | None = None,
        hierarchical_retriever: HierarchicalRetriever | None = None,
        reranker: Reranker | None = None,
        core_policies: Sequence[str] = (),
        organisation: FactStoreProvider | None = None,
        max_facts: int = ExtendedStoreConfig().max_retrieved_per_query,
        similarity_fn: Similarity | None = None,
        use_recorder: UseRecorder | None = None,
        query_recorder: QueryRecorder | None = None,
        clock: Clock = utc_now,
        authorities: Mapping[Channel, Authority] = AUTHORITIES,
    ) -> None:
        if config.retriever == "hierarchical" and hierarchical_retriever is None:
            raise MemoryConfigError("memory.retrieval.retriever: hierarchical needs a hierarchical_retriever")
        if config.query_specific_rerank_enabled and reranker is None:
            raise MemoryConfigError("memory.retrieval.query_specific_rerank_enabled: needs a reranker")
        self._backend = backend
        self._config = config
        self._sources = Sources(
            backend,
            shared_store if config.include_shared else None,
            per_publisher=config.max_per_publisher,
            wanted=sure_slots(config.max_memories, config.shared_fraction),
            has_archived=config.zoom and config.fusion_strategy is FusionStrategy.WEIGHTED,
        )
        self._estimator = token_estimator or DefaultTokenEstimator()
        own_filter = TagBasedMemoryFilter() if config.non_inferable_only else PassthroughMemoryFilter()
        self._filter = memory_filter or own_filter
        self._hierarchical = hierarchical_retriever if config.retriever == "hierarchical" else None
        self._reranker = reranker if config.query_specific_rerank_enabled else None
        self._core_policies = tuple(core_policies)
        self._organisation = Organisation(organisation, clock=clock)
        self._max_facts = max_facts
        self._similarity = similarity_fn
        self._matcher = PassageMatcher() if config.passages else None
        self._use_recorder = use_recorder
        self._query_recorder = query_recorder if config.record_queries else None
        self._clock = clock
        self._authorities = authorities

    @property
    def estimator(self) -> TokenEstimator:
        """Counts the tokens of what is shown."""
        return self._estimator

    async def policies(self, agent_id: str, *, token_budget: int) -> LeadingPolicies:
        """Return what leads every context of the agent; the messages take the budget's tokens at most."""
        written = await self._organisation.policies(agent_id)
        # People's texts are instructions, as those of the file are; agents' texts are fenced.
        texts = (*self._core_policies, *(each.content for each in written if each.author.is_human))
        messages = format_core_policies(texts, estimator=self._estimator, token_budget=token_budget)
        return LeadingPolicies(
            messages=messages,
            by_agents=self._trusted(as_memories([each for each in written if not each.author.is_human])),
            tokens=sum(self._estimator.estimate_tokens(message.content) for message in messages),
        )

    async def chosen(
        self,
        agent_id: str,
        query_text: str,
        *,
        categories: frozenset[MemoryCategory] | None = None,
        limit: int | None = None,
        time_zone: str | None = None,
    ) -> tuple[ScoredMemory, ...]:
        """Return the memories that a text is answered with: the agent's own, best first, then shared ones.

        ``limit`` is the most of each; for a prompt (None) it is ``max_memories``, and diversity counts as well. A
        search that fails returns what is left, and never raises for a memory's sake.
        """
        slots = self._config.max_memories if limit is None else limit
        is_diverse = limit is None and self._config.diversity_penalty_enabled
        pool = slots * (self._config.candidate_pool_multiplier if is_diverse else 1)
        with Degrading(Source.PIPELINE, agent_id):
            ranked = await self._varied(agent_id, query_text, categories, pool=pool, time_zone=time_zone)
            ranked = self._pooled(await self._organisation.checked(agent_id, ranked), pool=pool)
            # One memory has one order.
            if self._reranker is not None and len(ranked) > 1:
                with Degrading(Source.RERANKER, agent_id):
                    ranked = reordered(ranked, await self._reranker_of(agent_id).rerank(query_text, ranked))
            return self._chosen(agent_id, self.shown(agent_id, ranked), slots=slots, is_diverse=is_diverse)
        return ()

    async def found(
        self, agent_id: str, query_text: str, *, categories: frozenset[MemoryCategory] | None, limit: int
    ) -> tuple[ScoredMemory, ...]:
        """Return what a flat search ranks best, unfiltered: ``limit`` of own and of shared ones; never raises."""
        with Degrading(Source.PIPELINE, agent_id):
            ranked = surer_first(await self._searched(agent_id, query_text, categories, pool=limit))
            return self._pooled(self._trusted(ranked), pool=limit)
        return ()

    def shown(self, agent_id: str, memories: tuple[ScoredMemory, ...]) -> tuple[ScoredMemory, ...]:
        """Return the memories that the agent may be shown; a filter that fails lets nothing through."""
        # Fails closed: what a broken filter would have held back must not reach a prompt.
        with Degrading(Source.FILTER, agent_id):
            return self._filter.filter_for_injection(self._trusted(memories))
        return ()

    async def fitting(
        self,
        query_text: str,
        chosen: Sequence[ScoredMemory],
        *,
        token_budget: int,
        leading: tuple[ScoredMemory, ...] = (),
        limit: int | None = None,
    ) -> tuple[ScoredMemory, ...]:
        """Return what fits of the memories chosen: leading policies, the agent's own, then the shared ones."""
        own, shared = await asyncio.to_thread(
            fit_parts,
            [each for each in chosen if not each.is_shared],
            [*leading, *(each for each in chosen if each.is_shared)],
            estimator=self._estimator,
            token_budget=token_budget,
            slots=self._config.max_memories if limit is None else limit,
            shared_fraction=self._config.shared_fraction,
            question=query_text,
            matcher=self._matcher,
        )
        first = [each for each in shared if each in leading]
        return (*first, *own, *(each for each in shared if each not in leading))

    async def in_order(
        self, query_text: str, fitting: Sequence[ScoredMemory], *, token_budget: int
    ) -> tuple[ScoredMemory, ...]:
        """Return what fits in the order in which it is shown: what is about one subject together, the newest last.

        Where the question names a time, the latest need not be right: the order is as it was.
        """
        if await asyncio.to_thread(asked_range, query_text, self._clock()) is not None:
            return tuple(fitting)
        ordered: list[ScoredMemory] = []
        # Apart: the last of a subject is right, and somebody else's words are not for that they came last.
        for is_reference in (False, True):
            alike = [each for each in fitting if each.is_reference is is_reference]
            ordered += await asyncio.to_thread(by_subject, query_text, alike)
        return marked_within(ordered, estimator=self._estimator, token_budget=token_budget)

    def note_use(self, agent_id: str, query_text: str | None, injected: Sequence[ScoredMemory]) -> None:
        """Count a use of each memory that the agent was shown, and keep the question where the policy says so."""
        # The organisation's facts are nobody's memories: no run asks how often they were used.
        # Of an archived memory its summary: that is what a run may remove.
        used = list(dict.fromkeys(each.summary_id or each.entry.id for each in injected if not each.is_fact))
        if self._use_recorder is not None and used:
            with Degrading(Source.USE_RECORDER, agent_id):
                self._use_recorder.record(agent_id, used, at=self._clock())
        if self._query_recorder is not None and query_text is not None:
            own = [each for each in injected if not each.is_shared]
            # Of an archived memory both: a run may merge the summary, or have it back for a fallback.
            shown = [key for each in own for key in (each.entry.id, each.summary_id) if key is not None]
            with Degrading(Source.QUERY_RECORDER, agent_id):
                self._query_recorder.record_query(agent_id, query_text, shown, at=self._clock())

    def _reranker_of(self, agent_id: str) -> QuerySpecificReranker:
        assert self._reranker is not None  # noqa: S101  # for the type checker: the caller looked
        return self._reranker.of(agent_id) if isinstance(self._reranker, PerAgentReranker) else self._reranker

    async def _varied(
        self,
        agent_id: str,
        query_text: str,
        categories: frozenset[MemoryCategory] | None,
        *,
        pool: int,
        time_zone: str | None,
    ) -> tuple[ScoredMemory, ...]:
        """Return what is ranked best, of much that says nearly the same the first; of more where there is such."""
        # Of own and of shared ones the pool.
        most = 2 * pool
        ranked = await self._ranked(agent_id, query_text, categories, pool=pool, time_zone=time_zone)
        # Comparing long texts takes a second for some: in a thread, for the calls beside this one.
        ranked = await asyncio.to_thread(varied, surer_first(ranked), most=most)
        if self._hierarchical is None and any(each.counted_days is not None for each in ranked):
            # Others had no place in the lists.
            deep = min(_MOST_ASKED, _DEEPER * pool)
            more = await self._ranked(agent_id, query_text, categories, pool=deep, time_zone=time_zone)
            return await asyncio.to_thread(varied, surer_first(more), most=most)
        return ranked

    async def _ranked(
        self,
        agent_id: str,
        query_text: str,
        categories: frozenset[MemoryCategory] | None,
        *,
        pool: int,
        time_zone: str | None,
    ) -> tuple[ScoredMemory, ...]:
        if self._hierarchical is None:
            return self._trusted(await self._searched(agent_id, query_text, categories, pool=pool, time_zone=time_zone))
        with Degrading(Source.HIERARCHICAL, agent_id):
            return self._trusted(
                await self._hierarchical.retrieve(agent_id, query_text, limit=pool, categories=categories)
            )
        return ()

    def _trusted(self, memories: Sequence[ScoredMemory]) -> tuple[ScoredMemory, ...]:
        """Return the memories with the authority of each, without those that have less than is shown here."""
        found: list[ScoredMemory] = []
        least = least_shown()
        for each in memories:
            known = authority(each.entry.origin, self._authorities, each.entry.raised)
            if known.reaches(least):
                found.append(each if each.authority is known else each.model_copy(update={"authority": known}))
        return tuple(found)

    async def _searched(
        self,
        agent_id: str,
        query_text: str,
        categories: frozenset[MemoryCategory] | None,
        *,
        pool: int,
        time_zone: str | None = None,
    ) -> tuple[ScoredMemory, ...]:
        query = MemoryQuery(text=query_text, categories=categories, limit=pool, time_zone=time_zone)
        found = await self._judged_apart(agent_id, query.under(self._authorities))
        return earned(found, shown=self._config.standing)

    async def _judged_apart(self, agent_id: str, query: MemoryQuery) -> tuple[ScoredMemory, ...]:
        is_hybrid = self._config.sparse and self._config.fusion_strategy is not FusionStrategy.LINEAR
        hybrid = self._backend if is_hybrid and isinstance(self._backend, HybridBackend) else None
        rankings = await self._sources.rankings(agent_id, query, hybrid=hybrid)
        question = rankings.question or query.text or ""
        has_words = rankings.sparse or rankings.shared_sparse or rankings.archived_dense
        if hybrid is not None and (has_words or rankings.asked is not None):
            weight = hybrid.dense_weight if rankings.dense_weight is None else rankings.dense_weight
            return self._fused_apart(question, rankings, dense_weight=weight)
        own, shared = (tuple(hit.entry for hit in hits) for hits in (rankings.dense, rankings.shared_dense))
        if hybrid is not None:
            # No keyword hits: one list is left, and its similarities are the scores.
            own, shared = nearest(rankings.dense), nearest(rankings.shared_dense)
        every = len(own) + len(shared)
        ranked = rank_memories(own, config=self._config, now=self._clock(), shared_entries=shared, limit=every)
        if hybrid is None:
            # The store that ranked them said how each stands.
            return ranked
        return self._judged(question, ranked, rankings)

    def _fused_apart(self, question: str, rankings: RankedLists, *, dense_weight: float) -> tuple[ScoredMemory, ...]:
        """Fuse the agent's own lists, with the archived ones and without the shared: these must not change scores."""
        has_shared = bool(rankings.shared_dense or rankings.shared_sparse)
        if self._config.fusion_strategy is not FusionStrategy.WEIGHTED:
            own = self._fused_by_rank(RankedLists(dense=rankings.dense, sparse=rankings.sparse))
            shared = self._fused_by_rank(rankings) if has_shared else ()
            both = (*own, *(each for each in shared if each.is_shared))
            return self._judged(question, both, rankings)

        def fused(lists: RankedLists, *, is_shared: bool) -> tuple[ScoredMemory, ...]:
            return fuse_weighted(
                lists,
                config=self._config,
                dense_weight=dense_weight,
                now=self._clock(),
                question=question,
                is_shared=is_shared,
            )

        own = fused(with_archived(rankings), is_shared=False)
        shared = fused(rankings, is_shared=True) if has_shared else ()
        return tuple(sorted((*own, *shared), key=best_first))

    def _judged(self, question: str, ranked: Sequence[ScoredMemory], rankings: RankedLists) -> tuple[ScoredMemory, ...]:
        """Return what may be shown of the agent's own, and of shared knowledge: each is judged by its own best."""
        apart = [each for each in ranked if not each.is_shared], [each for each in ranked if each.is_shared]
        parts = (judged(question, part, rankings, config=self._config) for part in apart)
        return tuple(sorted((each for part in parts for each in part), key=best_first))

    def _fused_by_rank(self, rankings: RankedLists) -> tuple[ScoredMemory, ...]:
        every = sum(map(len, (rankings.dense, rankings.sparse, rankings.shared_dense, rankings.shared_sparse)))
        worded = (tuple(hit.entry for hit in hits) for hits in (rankings.sparse, rankings.shared_sparse))
        return fuse_ranked_lists(
            (nearest(rankings.dense), nearest(rankings.shared_dense), *worded),
            k=self._config.rrf_k,
            max_results=max(1, every),
            shared_ids={hit.entry.id for hit in (*rankings.shared_dense, *rankings.shared_sparse)},
            min_relevance=self._config.min_relevance,
        )

    def _pooled(self, ranked: tuple[ScoredMemory, ...], *, pool: int) -> tuple[ScoredMemory, ...]:
        """Return the best of the agent's own, and of shared knowledge within each publisher's limit."""
        # Summaries whose originals are there wait in case a filter drops these, and take no place.
        own = [each for each in ranked if not each.is_shared]
        waiting = covered(own)
        best = [each for each in own if each.entry.id not in waiting][:pool]
        own = [*best, *(each for each in own if each.entry.id in waiting)]
        shared: list[ScoredMemory] = []
        published: Counter[str] = Counter()
        facts_left = self._max_facts
        for each in ranked:
            if not each.is_shared or len(shared) == pool or (each.is_fact and not facts_left):
                continue
            if each.publisher is not None:
                published[each.publisher] += 1
                if published[each.publisher] > self._config.max_per_publisher:
                    continue
            shared.append(each)
            facts_left -= each.is_fact
        kept = {each.entry.id for each in (*own, *shared)}
        return tuple(each for each in ranked if each.entry.id in kept)

    def _chosen(
        self, agent_id: str, filtered: tuple[ScoredMemory, ...], *, slots: int, is_diverse: bool
    ) -> tuple[ScoredMemory, ...]:
        """Return the agent's own memories that may be injected, best first, then what is shared."""
        waiting = covered(filtered)
        shown = collapsed([each for each in filtered if each.is_shared or each.entry.id not in waiting])
        own = tuple(each for each in shown if not each.is_shared)
        shared = tuple(each for each in shown if each.is_shared)
        if is_diverse:
            with Degrading(Source.DIVERSITY, agent_id):
                picked = self._diverse(own)
                # Beside the agent's own, so that shared knowledge never makes these redundant.
                return (*picked, *self._diverse(shared, beside=picked))
        return (*own[:slots], *shared[:slots])

    def _diverse(
        self, scored: tuple[ScoredMemory, ...], *, beside: tuple[ScoredMemory, ...] = ()
    ) -> tuple[ScoredMemory, ...]:
        return apply_diversity_penalty(
            scored,
            diversity_lambda=self._config.diversity_lambda,
            similarity_fn=self._similarity,
            limit=self._config.max_memories,
            beside=beside,
        )
