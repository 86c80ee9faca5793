"""memcore: what a memory is, and what may happen to it. The library that agent engines and workers share.

The names below are the public face; each loads its module when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memcore.approval_models import Approval, ApprovalRisk, ApprovalState, Proposal, Superseded, Word
    from memcore.approvals.effects import ApprovalEffects, EffectRegistry
    from memcore.approvals.service import ApprovalService
    from memcore.archival_models import (
        ArchivalEntry,
        ArchivalIndexEntry,
        ArchivalMode,
        ArchivalModeAssignment,
        ConsolidationResult,
    )
    from memcore.backends.protocol import BatchBackend, MemoryBackend, MemoryCapabilities
    from memcore.backends.shared import SharedKnowledgeStore
    from memcore.chat_message import ChatMessage, MessageRole
    from memcore.client import (
        AppliedReceipt,
        AsyncMemoryClient,
        DistillReceipt,
        ExperienceReceipt,
        JobReceipt,
        JobState,
        JobStatus,
        MemoryClient,
        Scope,
        StoreReceipt,
    )
    from memcore.config.fusion import FusionStrategy
    from memcore.config.injection import InjectionPoint, InjectionStrategy
    from memcore.config.retrieval import MemoryRetrievalConfig
    from memcore.config.write_access import OrgFactCategory, SeniorityLevel
    from memcore.errors import (
        AnswerMissingError,
        ApprovalClosedError,
        BudgetExceededError,
        CheckpointConflictError,
        CheckpointCorruptError,
        CheckpointNotFoundError,
        CheckpointRollbackCorruptError,
        CheckpointRollbackUnavailableError,
        FineTuneCancelledError,
        FineTuneDependencyError,
        FineTuneRunActiveError,
        FineTuneRunNotFoundError,
        FineTuneRunNotResumableError,
        FineTuneStageError,
        FineTuneTrainingDataError,
        LeaseLostError,
        MaintenancePausedError,
        MalformedAnswerError,
        MemoryBackendUnsupportedError,
        MemoryCapabilityError,
        MemoryConfigError,
        MemoryConnectionError,
        MemoryDiskFullError,
        MemoryEmbeddingError,
        MemoryError,  # noqa: A004  # the reference fixes the name
        MemoryInputError,
        MemoryNotFoundError,
        MemoryQueueFullError,
        MemoryRetrievalError,
        MemoryStoreError,
        MissingExtraError,
        OrgMemoryAccessDeniedError,
        OrgMemoryConnectionError,
        OrgMemoryError,
        OrgMemoryQueryError,
        OrgMemoryWriteError,
        ProviderError,
        ProviderUnavailableError,
        RetryExhaustedError,
        SkillLimitError,
    )
    from memcore.execution_trace import ExecutionTrace, Recovery, TerminationReason, Turn
    from memcore.experience_models import CompressedExperience, DetailedExperience
    from memcore.jobs.use_payload import Use
    from memcore.maintenance.archival_store import ArchivalStore, LedgerArchivalStore
    from memcore.maintenance.density import ContentDensity, DensityClassifier
    from memcore.maintenance.extractive import ExtractivePreserver
    from memcore.models import (
        ConsolidationInterval,
        MemoryCategory,
        MemoryEntry,
        MemoryLevel,
        MemoryMetadata,
        MemoryQuery,
        MemoryStoreRequest,
    )
    from memcore.org.access import check_write_access, require_write_access
    from memcore.org.ledger_org_memory import LedgerOrgMemory
    from memcore.org.protocol import OrgMemoryBackend
    from memcore.org_models import (
        AutonomyLevel,
        OperationLogEntry,
        OperationLogSnapshot,
        OrgFact,
        OrgFactAuthor,
        OrgFactWriteRequest,
        OrgMemoryQuery,
    )
    from memcore.retrieval.blocking import BlockingContextInjection
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
    "AnswerMissingError",
    "AppliedReceipt",
    "Approval",
    "ApprovalClosedError",
    "ApprovalEffects",
    "ApprovalRisk",
    "ApprovalService",
    "ApprovalState",
    "ArchivalEntry",
    "ArchivalIndexEntry",
    "ArchivalMode",
    "ArchivalModeAssignment",
    "ArchivalStore",
    "AsyncMemoryClient",
    "AutonomyLevel",
    "BatchBackend",
    "BlockingContextInjection",
    "BudgetExceededError",
    "BufferedUseRecorder",
    "ChatMessage",
    "CheckpointConflictError",
    "CheckpointCorruptError",
    "CheckpointNotFoundError",
    "CheckpointRollbackCorruptError",
    "CheckpointRollbackUnavailableError",
    "CompressedExperience",
    "ConsolidationInterval",
    "ConsolidationResult",
    "ContentDensity",
    "ContextInjectionStrategy",
    "DefaultTokenEstimator",
    "DensityClassifier",
    "DetailedExperience",
    "DistillReceipt",
    "EffectRegistry",
    "ExecutionTrace",
    "ExperienceReceipt",
    "ExtractivePreserver",
    "FineTuneCancelledError",
    "FineTuneDependencyError",
    "FineTuneRunActiveError",
    "FineTuneRunNotFoundError",
    "FineTuneRunNotResumableError",
    "FineTuneStageError",
    "FineTuneTrainingDataError",
    "FusionStrategy",
    "InjectionPoint",
    "InjectionStrategy",
    "JobReceipt",
    "JobState",
    "JobStatus",
    "LeaseLostError",
    "LedgerArchivalStore",
    "LedgerOrgMemory",
    "MaintenancePausedError",
    "MalformedAnswerError",
    "MemoryBackend",
    "MemoryBackendUnsupportedError",
    "MemoryCapabilities",
    "MemoryCapabilityError",
    "MemoryCategory",
    "MemoryClient",
    "MemoryConfigError",
    "MemoryConnectionError",
    "MemoryDiskFullError",
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
    "MissingExtraError",
    "OperationLogEntry",
    "OperationLogSnapshot",
    "OrgFact",
    "OrgFactAuthor",
    "OrgFactCategory",
    "OrgFactWriteRequest",
    "OrgMemoryAccessDeniedError",
    "OrgMemoryBackend",
    "OrgMemoryConnectionError",
    "OrgMemoryError",
    "OrgMemoryQuery",
    "OrgMemoryQueryError",
    "OrgMemoryWriteError",
    "PassthroughMemoryFilter",
    "Proposal",
    "ProviderError",
    "ProviderUnavailableError",
    "QuerySpecificReranker",
    "Recovery",
    "RetryExhaustedError",
    "Scope",
    "ScoredMemory",
    "SeniorityLevel",
    "SharedKnowledgeStore",
    "SkillLimitError",
    "StoreReceipt",
    "Superseded",
    "TagBasedMemoryFilter",
    "TerminationReason",
    "TokenEstimator",
    "ToolDefinition",
    "Turn",
    "Use",
    "UseRecorder",
    "Word",
    "apply_diversity_penalty",
    "bigram_jaccard",
    "check_write_access",
    "compute_combined_score",
    "compute_recency_score",
    "format_memory_context_with_directive",
    "fuse_ranked_lists",
    "rank_memories",
    "require_write_access",
]

#: Where the names that are not in the first four modules live.
_MODULE_OF = {
    name: f"memcore.{module}"
    for module, names in {
        "approval_models": ("Approval", "ApprovalRisk", "ApprovalState", "Proposal", "Superseded", "Word"),
        "approvals.effects": ("ApprovalEffects", "EffectRegistry"),
        "approvals.service": ("ApprovalService",),
        "archival_models": (
            "ArchivalEntry",
            "ArchivalIndexEntry",
            "ArchivalMode",
            "ArchivalModeAssignment",
            "ConsolidationResult",
        ),
        "backends.shared": ("SharedKnowledgeStore",),
        "config.fusion": ("FusionStrategy",),
        "config.injection": ("InjectionPoint", "InjectionStrategy"),
        "config.retrieval": ("MemoryRetrievalConfig",),
        "execution_trace": ("ExecutionTrace", "Recovery", "TerminationReason", "Turn"),
        "experience_models": ("CompressedExperience", "DetailedExperience"),
        "jobs.use_payload": ("Use",),
        "maintenance.archival_store": ("ArchivalStore", "LedgerArchivalStore"),
        "maintenance.density": ("ContentDensity", "DensityClassifier"),
        "maintenance.extractive": ("ExtractivePreserver",),
        "config.write_access": ("OrgFactCategory", "SeniorityLevel"),
        "org.access": ("check_write_access", "require_write_access"),
        "org.ledger_org_memory": ("LedgerOrgMemory",),
        "org.protocol": ("OrgMemoryBackend",),
        "org_models": (
            "AutonomyLevel",
            "OperationLogEntry",
            "OperationLogSnapshot",
            "OrgFact",
            "OrgFactAuthor",
            "OrgFactWriteRequest",
            "OrgMemoryQuery",
        ),
        "retrieval.blocking": ("BlockingContextInjection",),
        "chat_message": ("ChatMessage", "MessageRole"),
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
    if name in __all__:
        from memcore.extras import naming_extras  # noqa: PLC0415  # with the first name, as all modules

        with naming_extras():
            for module in [_MODULE_OF[name]] if name in _MODULE_OF else _MODULES:
                found = getattr(import_module(module), name, None)
                if found is not None:
                    return found
    msg = f"module 'memcore' has no attribute {name!r}"
    raise AttributeError(msg)
