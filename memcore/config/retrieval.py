"""How memories are found, ranked and handed to an agent."""

import math
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from memcore.config.added import Added
from memcore.config.fusion import FusionStrategy, SparseTermWeight
from memcore.config.injection import InjectionPoint, InjectionStrategy
from memcore.frozen import Frozen

#: How far relevance_weight + recency_weight may lie from 1.0; absorbs what floating point loses, no more.
WEIGHT_SUM_TOLERANCE = 1e-6


class MemoryRetrievalConfig(Frozen):
    """Tune the way from a query to the memories in a prompt.

    Attributes:
        strategy: who asks for memories: the engine before the turn, or the agent through tools.
        relevance_weight: share of relevance in the combined score, 0 to 1.
        recency_weight: share of recency; with relevance_weight it makes 1.0 (``linear`` and ``weighted``).
        recency_decay_rate: exponential decay per hour.
        personal_boost: added to the relevance of the agent's own memories over shared ones.
        min_relevance: least combined score that is injected.
        max_memories: most memories injected, 1 to 100.
        include_shared: whether shared knowledge is searched too.
        shared_fraction: share of max_memories and of the tokens that shared knowledge may take from an agent that has
            enough memories of its own, 0 to 1; what one part leaves free, the other may use.
        max_per_publisher: most memories of one publishing agent in a prompt, 1 to 100.
        default_relevance: relevance of entries that carry none.
        injection_point: role of the injected message.
        non_inferable_only: inject only memories tagged ``non-inferable``.
        fusion_strategy: how dense and sparse results become one list.
        rrf_k: smoothing constant of ``rrf``, 1 to 1000.
        dense_weight: share of the dense score under ``weighted``; the sparse score has the rest. None is 0.4 with the
            static embedder and 0.5 with any other.
        sparse: whether the keyword index is searched beside the vectors.
        sparse_term_weight: how often-repeated words count in the keyword index.
        diversity_penalty_enabled: re-rank by maximal marginal relevance (``context`` only).
        diversity_lambda: 1.0 is pure relevance, 0.0 most diverse.
        candidate_pool_multiplier: how many times max_memories are fetched for the re-ranking, 1 to 10.
        query_reformulation_enabled: the Search-and-Ask loop (``tool_based`` only).
        max_reformulation_rounds: most rounds of that loop, 1 to 5.
        retriever: ``hierarchical`` routes a query to workers per kind of memory (``context`` only).
        max_workers_per_query: most such workers for a query, 1 to 4.
        reflective_retry_enabled: whether the hierarchical retriever retries poor results.
        max_retry_count: most such retries, 0 to 5.
        query_specific_rerank_enabled: re-rank with an LLM call per query.
        rerank_cache_ttl_seconds: how long such a ranking is remembered, 60 to 86400.
    """

    strategy: InjectionStrategy = InjectionStrategy.CONTEXT
    relevance_weight: float = Field(default=0.7, ge=0.0, le=1.0)
    recency_weight: float = Field(default=0.3, ge=0.0, le=1.0)
    recency_decay_rate: float = Field(default=0.01, ge=0.0)
    personal_boost: float = Field(default=0.1, ge=0.0, le=1.0)
    min_relevance: float = Field(default=0.3, ge=0.0, le=1.0)
    max_memories: int = Field(default=20, ge=1, le=100)
    include_shared: bool = True
    shared_fraction: Annotated[
        float, Added("what other agents publish must not push an agent's own memories out of its prompt")
    ] = Field(default=0.3, ge=0.0, le=1.0)
    max_per_publisher: Annotated[
        int, Added("one agent that publishes much must not fill the shared part of everybody's prompt")
    ] = Field(default=3, ge=1, le=100)
    default_relevance: float = Field(default=0.5, ge=0.0, le=1.0)
    injection_point: InjectionPoint = InjectionPoint.SYSTEM
    non_inferable_only: bool = False
    fusion_strategy: FusionStrategy = FusionStrategy.WEIGHTED
    rrf_k: int = Field(default=60, ge=1, le=1000)
    dense_weight: Annotated[
        float | None, Added("the share of the vectors under `weighted`; left out, what measured best for the embedder")
    ] = Field(default=None, ge=0.0, le=1.0)
    sparse: Annotated[bool, Added("searches keywords beside vectors; measured better than either alone")] = True
    sparse_term_weight: Annotated[
        SparseTermWeight, Added("on short texts a saturated count ranks better than the reference's `raw` one")
    ] = SparseTermWeight.SATURATED
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

    @model_validator(mode="after")
    def _weights_make_one(self) -> Self:
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
