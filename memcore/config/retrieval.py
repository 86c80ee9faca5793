"""Policy keys of retrieval: how memories are found, ranked and put into a prompt."""

import math
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, field_serializer, model_validator

from memcore.deadline.limits import DEADLINE_SECONDS
from memcore.models.answers import Shown
from memcore.models.base import Frozen, NotBlankStr
from memcore.models.memory import MemoryCategory, TimeZone


class FusionStrategy(StrEnum):
    """How relevance from several sources is joined.

    ``linear`` ranks one dense list; ``rrf`` sums reciprocal ranks; ``weighted`` sums the scores of the dense and the
    sparse list, each as a share of its best, the measured best (docs/benchmarks/2026-11.md).
    """

    LINEAR = "linear"
    RRF = "rrf"
    WEIGHTED = "weighted"


class SparseTermWeight(StrEnum):
    """How often-repeated terms count: ``saturated`` as in BM25, or ``raw`` frequency as in the reference."""

    SATURATED = "saturated"
    RAW = "raw"


class InjectionStrategy(StrEnum):
    """Whether memories are put before the agent, fetched by it, or kept by it."""

    CONTEXT = "context"
    TOOL_BASED = "tool_based"
    SELF_EDITING = "self_editing"


class InjectionPoint(StrEnum):
    """The role of the message that carries injected memories."""

    SYSTEM = "system"
    USER = "user"


#: How far relevance_weight + recency_weight may lie from 1.0; absorbs what floating point loses, no more.
WEIGHT_SUM_TOLERANCE = 1e-6


def _archivable(categories: frozenset[MemoryCategory]) -> frozenset[MemoryCategory]:
    if not categories:
        raise ValueError("must name at least one category")
    if MemoryCategory.WORKING in categories:
        raise ValueError("must not name working, whose memories end with their task")
    return categories


class SelfEditingMemoryConfig(Frozen):
    """Bound the six tools of the self-editing strategy.

    Attributes:
        core_memory_token_budget: the tokens of core memory in every prompt.
        core_memory_tag: the tag that makes a semantic memory a core memory.
        allow_core_writes: whether the agent may write core memory.
        core_max_entries: the most core memories.
        archival_search_limit: the most results of an archival search.
        archival_categories: the categories that the agent may write and search; never working.
        write_auto_tag: whether its writes carry the tag ``self_edited``.
    """

    core_memory_token_budget: int = Field(default=1024, ge=256, le=8192)
    core_memory_tag: NotBlankStr = "core"
    allow_core_writes: bool = True
    core_max_entries: int = Field(default=20, ge=1, le=200)
    archival_search_limit: int = Field(default=10, ge=1, le=50)
    archival_categories: Annotated[frozenset[MemoryCategory], AfterValidator(_archivable)] = frozenset(
        {MemoryCategory.EPISODIC, MemoryCategory.SEMANTIC, MemoryCategory.PROCEDURAL, MemoryCategory.SOCIAL}
    )
    write_auto_tag: bool = True

    @field_serializer("archival_categories", when_used="json")
    def _in_one_order(self, categories: frozenset[MemoryCategory]) -> list[str]:
        return sorted(categories)


class MemoryRetrievalConfig(Frozen):
    """Configure how a query becomes the memories in a prompt.

    Attributes:
        strategy: who asks for memories. ``context``: the engine, before each turn; ``tool_based``: the agent, with
            tools to search; ``self_editing``: the agent, with tools to search and to write, and core memory.
        relevance_weight: the share of relevance in the combined score.
        recency_weight: the share of recency in the combined score; under ``linear`` and ``weighted`` both shares make
            1.0. Where one share is left out, it is what the other leaves.
        recency_decay_rate: the exponential decay of recency per hour.
        personal_boost: added to the relevance of the agent's own memories, over shared ones.
        min_relevance: the least combined score of a memory that is injected, unless it is weak; under ``weighted`` on
            evidence's scale.
        min_evidence: the evidence of a question's best memory from which on what stands near it is strong.
        standing: which memories a search or a prompt shows: ``strong`` ones; ``weak`` ones too, at most three, where
            none is strong; or ``any``, however far from the best.
        max_memories: the most memories that are injected.
        include_shared: whether shared knowledge is searched too.
        shared_fraction: the share of max_memories and of the tokens that shared knowledge may take from an agent with
            enough memories of its own; what one part leaves free, the other part may use.
        max_per_publisher: the most memories of one publishing agent in a prompt.
        default_relevance: the relevance of an entry that has none.
        injection_point: the role of the message that carries the memories.
        non_inferable_only: whether only memories with the tag ``non-inferable`` are injected.
        fusion_strategy: how dense and sparse results become one list. ``linear`` ranks the dense list, ``rrf`` sums
            reciprocal ranks, ``weighted`` sums the scores of both lists.
        rrf_k: the smoothing constant of ``rrf``.
        dense_weight: the share of the dense score under ``weighted``; the sparse score has the rest. None is 0.4 with
            the static embedder and 0.5 with any other.
        zoom: whether archived originals that match a question are injected in place of the summary that replaced them;
            under ``weighted`` alone.
        passages: whether long memories are cut to the sentences that match the question, where a prompt has no room for
            all that was found.
        time_zone: the zone in which questions name days ("yesterday", "in May"), where a search does not say its own.
        hemisphere: ``north`` or ``south``, for the seasons that questions name: summer begins in June or in December.
        deadline_seconds: the most seconds that a reading call takes; a part that gives no answer within two fifths of
            it is not asked for a while, and the answer names it.
        record_queries: whether the questions of prompts and searches are kept, up to 1,000 characters each and the
            newest 200 of an agent, with the ids of the memories shown: the gate asks them again. Once it is off, the
            next expiry deletes them.
        query_days: days for which recorded questions are kept.
        sparse: whether the keyword index is searched beside the vectors.
        sparse_term_weight: how a repeated word counts in the keyword index: ``saturated`` as in BM25, ``raw`` as in the
            reference.
        diversity_penalty_enabled: whether results are re-ranked by maximal marginal relevance; only with strategy
            ``context``.
        diversity_lambda: the weight of relevance in that re-ranking; 1.0 is relevance alone, 0.0 is diversity alone.
        candidate_pool_multiplier: how many times max_memories are fetched for that re-ranking.
        query_reformulation_enabled: whether a language model judges what a tool's search found, and has it search
            again in other words (Search-and-Ask); only with strategy ``tool_based``.
        max_reformulation_rounds: the most such further searches.
        retriever: how the store is searched: ``flat``, or ``hierarchical``, where a language model says which kinds of
            memory a question is about; only with strategy ``context``.
        max_workers_per_query: the most kinds of memory that the hierarchical retriever searches for one query.
        reflective_retry_enabled: whether the hierarchical retriever retries poor results.
        max_retry_count: the most such retries.
        query_specific_rerank_enabled: whether a language model re-ranks the results of each query.
        rerank_cache_ttl_seconds: how long such a ranking is cached, for all processes.
        self_editing: what the tools of strategy ``self_editing`` may do.
    """

    strategy: InjectionStrategy = InjectionStrategy.CONTEXT
    relevance_weight: float = Field(default=0.95, ge=0.0, le=1.0)
    recency_weight: float = Field(default=0.05, ge=0.0, le=1.0)
    recency_decay_rate: float = Field(default=0.01, ge=0.0)
    personal_boost: float = Field(default=0.1, ge=0.0, le=1.0)
    min_relevance: float = Field(default=0.3, ge=0.0, le=1.0)
    min_evidence: float = Field(default=0.45, ge=0.0, le=1.0)
    standing: Shown = Shown.WEAK
    max_memories: int = Field(default=20, ge=1, le=100)
    include_shared: bool = True
    shared_fraction: float = Field(default=0.3, ge=0.0, le=1.0)
    max_per_publisher: int = Field(default=3, ge=1, le=100)
    default_relevance: float = Field(default=0.5, ge=0.0, le=1.0)
    injection_point: InjectionPoint = InjectionPoint.SYSTEM
    non_inferable_only: bool = False
    fusion_strategy: FusionStrategy = FusionStrategy.WEIGHTED
    rrf_k: int = Field(default=60, ge=1, le=1000)
    dense_weight: float | None = Field(default=None, ge=0.0, le=1.0)
    zoom: bool = True
    passages: bool = True
    time_zone: TimeZone = "UTC"
    hemisphere: Literal["north", "south"] = "north"
    deadline_seconds: float = Field(default=DEADLINE_SECONDS, ge=0.5, le=60.0)
    record_queries: bool = False
    query_days: int = Field(default=30, ge=1, le=365)
    sparse: bool = True
    sparse_term_weight: SparseTermWeight = SparseTermWeight.SATURATED
    diversity_penalty_enabled: bool = False
    diversity_lambda: float = Field(default=0.7, ge=0.0, le=1.0)
    candidate_pool_multiplier: int = Field(default=3, ge=1, le=10)
    query_reformulation_enabled: bool = False
    max_reformulation_rounds: int = Field(default=2, ge=1, le=5)
    retriever: Literal["flat", "hierarchical"] = "flat"
    max_workers_per_query: int = Field(default=2, ge=1, le=4)
    reflective_retry_enabled: bool = True
    max_retry_count: int = Field(default=2, ge=0, le=5)
    query_specific_rerank_enabled: bool = False
    rerank_cache_ttl_seconds: int = Field(default=3600, ge=60, le=86_400)
    self_editing: SelfEditingMemoryConfig = SelfEditingMemoryConfig()

    def without_model(self) -> Self:
        """Return the policy for searches that are compared: a model would cost much and answer each time otherwise."""
        return self.model_copy(update={"retriever": "flat", "query_specific_rerank_enabled": False})

    @model_validator(mode="after")
    def _weights_make_one(self) -> Self:
        weights = "relevance_weight", "recency_weight"
        for given, other in (weights, weights[::-1]):
            if given in self.model_fields_set and other not in self.model_fields_set:
                # As the strategy of the dual mode: the model is still being built, and nobody gave this one.
                vars(self)[other] = round(1.0 - getattr(self, given), 9)
        total = self.relevance_weight + self.recency_weight
        # rrf ranks by position and reads neither weight.
        if self.fusion_strategy is not FusionStrategy.RRF and not math.isclose(
            total, 1.0, rel_tol=0.0, abs_tol=WEIGHT_SUM_TOLERANCE
        ):
            raise ValueError(
                f"relevance_weight + recency_weight must be 1.0 with fusion_strategy {self.fusion_strategy}, "
                f"and they make {total:g}"
            )
        return self

    @model_validator(mode="after")
    def _modes_fit_the_strategy(self) -> Self:
        if self.query_reformulation_enabled and self.strategy is not InjectionStrategy.TOOL_BASED:
            raise ValueError(f"query_reformulation_enabled needs strategy tool_based, and it is {self.strategy}")
        if self.retriever == "hierarchical" and self.strategy is not InjectionStrategy.CONTEXT:
            raise ValueError(f"retriever hierarchical needs strategy context, and it is {self.strategy}")
        return self
