"""memcore: what a memory is, and what may happen to it. The library that agent engines and workers share.

The names below are the public face; each loads its module when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memcore.backends.protocol import BatchBackend, MemoryBackend, MemoryCapabilities
    from memcore.backends.shared import SharedKnowledgeStore
    from memcore.client import AsyncMemoryClient, JobReceipt, JobState, JobStatus, MemoryClient, Scope, StoreReceipt
    from memcore.config.fusion import FusionStrategy
    from memcore.config.injection import InjectionPoint, InjectionStrategy
    from memcore.config.retrieval import MemoryRetrievalConfig
    from memcore.errors import (
        FineTuneCancelledError,
        FineTuneDependencyError,
        LeaseLostError,
        MaintenancePausedError,
        MemoryCapabilityError,
        MemoryConfigError,
        MemoryConnectionError,
        MemoryEmbeddingError,
        MemoryError,  # noqa: A004  # the reference fixes the name
        MemoryInputError,
        MemoryNotFoundError,
        MemoryQueueFullError,
        MemoryRetrievalError,
        MemoryStoreError,
    )
    from memcore.jobs.use_payload import Use
    from memcore.models import (
        ConsolidationInterval,
        MemoryCategory,
        MemoryEntry,
        MemoryLevel,
        MemoryMetadata,
        MemoryQuery,
        MemoryStoreRequest,
    )
    from memcore.retrieval.blocking import BlockingContextInjection
    from memcore.retrieval.chat_message import ChatMessage, MessageRole
    from memcore.retrieval.context import ContextInjectionStrategy
    from memcore.retrieval.diversity import apply_diversity_penalty, bigram_jaccard
    from memcore.retrieval.formatter import format_memory_context_with_directive
    from memcore.retrieval.injection import MemoryInjectionStrategy, ToolDefinition
    from memcore.retrieval.linear import compute_combined_score, rank_memories
    from memcore.retrieval.memory_filter import MemoryFilterStrategy, PassthroughMemoryFilter, TagBasedMemoryFilter
    from memcore.retrieval.recency import compute_recency_score
    from memcore.retrieval.reranker import QuerySpecificReranker
    from memcore.retrieval.rrf import fuse_ranked_lists
    from memcore.retrieval.scored_memory import ScoredMemory
    from memcore.retrieval.token_estimator import DefaultTokenEstimator, TokenEstimator
    from memcore.retrieval.use import BufferedUseRecorder, UseRecorder

__all__ = [
    "AsyncMemoryClient",
    "BatchBackend",
    "BlockingContextInjection",
    "BufferedUseRecorder",
    "ChatMessage",
    "ConsolidationInterval",
    "ContextInjectionStrategy",
    "DefaultTokenEstimator",
    "FineTuneCancelledError",
    "FineTuneDependencyError",
    "FusionStrategy",
    "InjectionPoint",
    "InjectionStrategy",
    "JobReceipt",
    "JobState",
    "JobStatus",
    "LeaseLostError",
    "MaintenancePausedError",
    "MemoryBackend",
    "MemoryCapabilities",
    "MemoryCapabilityError",
    "MemoryCategory",
    "MemoryClient",
    "MemoryConfigError",
    "MemoryConnectionError",
    "MemoryEmbeddingError",
    "MemoryEntry",
    "MemoryError",
    "MemoryFilterStrategy",
    "MemoryInjectionStrategy",
    "MemoryInputError",
    "MemoryLevel",
    "MemoryMetadata",
    "MemoryNotFoundError",
    "MemoryQuery",
    "MemoryQueueFullError",
    "MemoryRetrievalConfig",
    "MemoryRetrievalError",
    "MemoryStoreError",
    "MemoryStoreRequest",
    "MessageRole",
    "PassthroughMemoryFilter",
    "QuerySpecificReranker",
    "Scope",
    "ScoredMemory",
    "SharedKnowledgeStore",
    "StoreReceipt",
    "TagBasedMemoryFilter",
    "TokenEstimator",
    "ToolDefinition",
    "Use",
    "UseRecorder",
    "apply_diversity_penalty",
    "bigram_jaccard",
    "compute_combined_score",
    "compute_recency_score",
    "format_memory_context_with_directive",
    "fuse_ranked_lists",
    "rank_memories",
]

#: Where the names that are not in the first four modules live.
_MODULE_OF = {
    name: f"memcore.{module}"
    for module, names in {
        "backends.shared": ("SharedKnowledgeStore",),
        "config.fusion": ("FusionStrategy",),
        "config.injection": ("InjectionPoint", "InjectionStrategy"),
        "config.retrieval": ("MemoryRetrievalConfig",),
        "jobs.use_payload": ("Use",),
        "retrieval.blocking": ("BlockingContextInjection",),
        "retrieval.chat_message": ("ChatMessage", "MessageRole"),
        "retrieval.context": ("ContextInjectionStrategy",),
        "retrieval.diversity": ("apply_diversity_penalty", "bigram_jaccard"),
        "retrieval.formatter": ("format_memory_context_with_directive",),
        "retrieval.injection": ("MemoryInjectionStrategy", "ToolDefinition"),
        "retrieval.linear": ("compute_combined_score", "rank_memories"),
        "retrieval.memory_filter": ("MemoryFilterStrategy", "PassthroughMemoryFilter", "TagBasedMemoryFilter"),
        "retrieval.recency": ("compute_recency_score",),
        "retrieval.reranker": ("QuerySpecificReranker",),
        "retrieval.rrf": ("fuse_ranked_lists",),
        "retrieval.scored_memory": ("ScoredMemory",),
        "retrieval.token_estimator": ("DefaultTokenEstimator", "TokenEstimator"),
        "retrieval.use": ("BufferedUseRecorder", "UseRecorder"),
    }.items()
    for name in names
}

_MODULES = ("memcore.models", "memcore.errors", "memcore.client", "memcore.backends.protocol")


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return getattr(import_module(_MODULE_OF[name]), name)
    if name in __all__:
        for module in _MODULES:
            found = getattr(import_module(module), name, None)
            if found is not None:
                return found
    msg = f"module 'memcore' has no attribute {name!r}"
    raise AttributeError(msg)
