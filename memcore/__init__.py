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
    from memcore.backends.factory import (
        WorkerBackend,
        create_engine_backend,
        create_memory_backend,
        create_worker_backend,
    )
    from memcore.backends.inmemory import InMemoryBackend
    from memcore.backends.mem0.place import Mem0Place
    from memcore.backends.protocol import BatchBackend, MemoryBackend, MemoryCapabilities
    from memcore.backends.record import MemoryRecord
    from memcore.backends.registry import BackendEntry, BackendParts, BackendRegistry
    from memcore.backends.shared import SharedKnowledgeStore
    from memcore.chat_message import ChatMessage, MessageRole
    from memcore.client.async_client import AsyncMemoryClient
    from memcore.client.client import MemoryClient
    from memcore.client.envelope import ImportRecord, Scope
    from memcore.client.receipts import (
        AppliedReceipt,
        DistillReceipt,
        ExperienceReceipt,
        JobReceipt,
        JobState,
        JobStatus,
        StoreReceipt,
    )
    from memcore.config.agent import MemoryConfig
    from memcore.config.archival import ArchivalConfig, DualModeConfig
    from memcore.config.capture import CaptureConfig
    from memcore.config.company import CompanyMemoryConfig
    from memcore.config.composite import CompositeBackendConfig
    from memcore.config.consolidation import ConsolidationConfig, ConsolidationStrategyType
    from memcore.config.embedder import EmbedderOverrideConfig
    from memcore.config.evolver import EvolverConfig
    from memcore.config.experience import ExperienceCompressorConfig
    from memcore.config.finetune import EmbeddingFineTuneConfig, FineTuneExecutionConfig
    from memcore.config.fusion import FusionStrategy
    from memcore.config.injection import InjectionPoint, InjectionStrategy
    from memcore.config.llm_consolidation import LLMConsolidationConfig
    from memcore.config.loader import effective_policy, load_policy
    from memcore.config.options import MemoryOptionsConfig
    from memcore.config.org import ExtendedStoreConfig, OrgMemoryConfig
    from memcore.config.policy import Policy
    from memcore.config.procedural import ProceduralMemoryConfig
    from memcore.config.retention import RetentionConfig, RetentionRule
    from memcore.config.retrieval import MemoryRetrievalConfig
    from memcore.config.self_editing import SelfEditingMemoryConfig
    from memcore.config.settings import Settings
    from memcore.config.storage import MemoryStorageConfig
    from memcore.config.wiki import WikiExportConfig
    from memcore.config.write_access import CategoryWriteRule, OrgFactCategory, SeniorityLevel, WriteAccessConfig
    from memcore.distillation.request import DistillationRequest, MemoryToolName
    from memcore.embedding.choice import EmbedderChoice
    from memcore.embedding.factory import create_embedder
    from memcore.embedding.protocol import Embedder
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
    from memcore.experience.compressor import ExperienceCompressor
    from memcore.experience_models import CompressedExperience, DetailedExperience
    from memcore.fence import untrusted_content_directive, wrap_untrusted
    from memcore.finetune.active_embedder import ActiveEmbedderSnapshot
    from memcore.finetune.metrics import EvalMetrics
    from memcore.finetune.plan import FineTunePlan
    from memcore.finetune.preflight import PreflightResult
    from memcore.finetune_models import FineTuneStatus
    from memcore.jobs.use_payload import Use
    from memcore.ledger.finetune_run import FineTuneRun
    from memcore.llm.protocol import CompletionProvider
    from memcore.maintenance.abstractive import AbstractiveSummarizationOp, AbstractiveSummarizer
    from memcore.maintenance.archival_store import ArchivalStore, LedgerArchivalStore
    from memcore.maintenance.concatenation import ConcatenationOp
    from memcore.maintenance.density import ContentDensity, DensityClassifier
    from memcore.maintenance.density_routing import DensityRoutingOp
    from memcore.maintenance.draft import ConsolidationOp, Draft
    from memcore.maintenance.extractive import ExtractivePreserver
    from memcore.maintenance.extractive_preservation import ExtractivePreservationOp
    from memcore.maintenance.factory import ConsolidationDeps, build_consolidation_strategy
    from memcore.maintenance.llm_synthesis import LLMSynthesisOp
    from memcore.maintenance.member import Member
    from memcore.maintenance.selection import EntrySelector, HighestRelevanceSelector
    from memcore.maintenance.strategy import CompositeConsolidationStrategy, ConsolidationStrategy
    from memcore.maintenance.value import Candidate, MemoryValue, usual_value
    from memcore.memory.async_memory import AsyncMemory
    from memcore.memory.fields import SearchFields, StoreFields
    from memcore.memory.memory import Memory
    from memcore.memory_service.service import MemoryService
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
    from memcore.procedural.payloads import FailureAnalysisPayload
    from memcore.procedural.proposal import ProceduralMemoryProposal
    from memcore.procedural.scope import ProceduralMemoryScope
    from memcore.retrieval.blocking import BlockingContextInjection
    from memcore.retrieval.context import ContextInjectionStrategy
    from memcore.retrieval.diversity import apply_diversity_penalty, bigram_jaccard
    from memcore.retrieval.formatter import format_memory_context_with_directive
    from memcore.retrieval.hierarchical import HierarchicalRetriever
    from memcore.retrieval.injection import MemoryInjectionStrategy, ToolDefinition
    from memcore.retrieval.linear import compute_combined_score, rank_memories
    from memcore.retrieval.memory_filter import MemoryFilterStrategy, PassthroughMemoryFilter, TagBasedMemoryFilter
    from memcore.retrieval.recency import compute_recency_score
    from memcore.retrieval.reranker import QuerySpecificReranker
    from memcore.retrieval.rrf import fuse_ranked_lists
    from memcore.retrieval.scored_memory import ScoredMemory
    from memcore.retrieval.token_estimator import DefaultTokenEstimator, TokenEstimator
    from memcore.retrieval.use import BufferedUseRecorder, UseRecorder
    from memcore.skills.report import EvolverReport

__all__ = [
    "AbstractiveSummarizationOp",
    "AbstractiveSummarizer",
    "ActiveEmbedderSnapshot",
    "AnswerMissingError",
    "AppliedReceipt",
    "Approval",
    "ApprovalClosedError",
    "ApprovalEffects",
    "ApprovalRisk",
    "ApprovalService",
    "ApprovalState",
    "ArchivalConfig",
    "ArchivalEntry",
    "ArchivalIndexEntry",
    "ArchivalMode",
    "ArchivalModeAssignment",
    "ArchivalStore",
    "AsyncMemory",
    "AsyncMemoryClient",
    "AutonomyLevel",
    "BackendEntry",
    "BackendParts",
    "BackendRegistry",
    "BatchBackend",
    "BlockingContextInjection",
    "BudgetExceededError",
    "BufferedUseRecorder",
    "Candidate",
    "CaptureConfig",
    "CategoryWriteRule",
    "ChatMessage",
    "CheckpointConflictError",
    "CheckpointCorruptError",
    "CheckpointNotFoundError",
    "CheckpointRollbackCorruptError",
    "CheckpointRollbackUnavailableError",
    "CompanyMemoryConfig",
    "CompletionProvider",
    "CompositeBackendConfig",
    "CompositeConsolidationStrategy",
    "CompressedExperience",
    "ConcatenationOp",
    "ConsolidationConfig",
    "ConsolidationDeps",
    "ConsolidationInterval",
    "ConsolidationOp",
    "ConsolidationResult",
    "ConsolidationStrategy",
    "ConsolidationStrategyType",
    "ContentDensity",
    "ContextInjectionStrategy",
    "DefaultTokenEstimator",
    "DensityClassifier",
    "DensityRoutingOp",
    "DetailedExperience",
    "DistillReceipt",
    "DistillationRequest",
    "Draft",
    "DualModeConfig",
    "EffectRegistry",
    "Embedder",
    "EmbedderChoice",
    "EmbedderOverrideConfig",
    "EmbeddingFineTuneConfig",
    "EntrySelector",
    "EvalMetrics",
    "EvolverConfig",
    "EvolverReport",
    "ExecutionTrace",
    "ExperienceCompressor",
    "ExperienceCompressorConfig",
    "ExperienceReceipt",
    "ExtendedStoreConfig",
    "ExtractivePreservationOp",
    "ExtractivePreserver",
    "FailureAnalysisPayload",
    "FineTuneCancelledError",
    "FineTuneDependencyError",
    "FineTuneExecutionConfig",
    "FineTunePlan",
    "FineTuneRun",
    "FineTuneRunActiveError",
    "FineTuneRunNotFoundError",
    "FineTuneRunNotResumableError",
    "FineTuneStageError",
    "FineTuneStatus",
    "FineTuneTrainingDataError",
    "FusionStrategy",
    "HierarchicalRetriever",
    "HighestRelevanceSelector",
    "ImportRecord",
    "InMemoryBackend",
    "InjectionPoint",
    "InjectionStrategy",
    "JobReceipt",
    "JobState",
    "JobStatus",
    "LLMConsolidationConfig",
    "LLMSynthesisOp",
    "LeaseLostError",
    "LedgerArchivalStore",
    "LedgerOrgMemory",
    "MaintenancePausedError",
    "MalformedAnswerError",
    "Mem0Place",
    "Member",
    "Memory",
    "MemoryBackend",
    "MemoryBackendUnsupportedError",
    "MemoryCapabilities",
    "MemoryCapabilityError",
    "MemoryCategory",
    "MemoryClient",
    "MemoryConfig",
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
    "MemoryOptionsConfig",
    "MemoryQuery",
    "MemoryQueueFullError",
    "MemoryRecord",
    "MemoryRetrievalConfig",
    "MemoryRetrievalError",
    "MemoryService",
    "MemoryStorageConfig",
    "MemoryStoreError",
    "MemoryStoreRequest",
    "MemoryToolName",
    "MemoryValue",
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
    "OrgMemoryConfig",
    "OrgMemoryConnectionError",
    "OrgMemoryError",
    "OrgMemoryQuery",
    "OrgMemoryQueryError",
    "OrgMemoryWriteError",
    "PassthroughMemoryFilter",
    "Policy",
    "PreflightResult",
    "ProceduralMemoryConfig",
    "ProceduralMemoryProposal",
    "ProceduralMemoryScope",
    "Proposal",
    "ProviderError",
    "ProviderUnavailableError",
    "QuerySpecificReranker",
    "Recovery",
    "RetentionConfig",
    "RetentionRule",
    "RetryExhaustedError",
    "Scope",
    "ScoredMemory",
    "SearchFields",
    "SelfEditingMemoryConfig",
    "SeniorityLevel",
    "Settings",
    "SharedKnowledgeStore",
    "SkillLimitError",
    "StoreFields",
    "StoreReceipt",
    "Superseded",
    "TagBasedMemoryFilter",
    "TerminationReason",
    "TokenEstimator",
    "ToolDefinition",
    "Turn",
    "Use",
    "UseRecorder",
    "WikiExportConfig",
    "Word",
    "WorkerBackend",
    "WriteAccessConfig",
    "apply_diversity_penalty",
    "bigram_jaccard",
    "build_consolidation_strategy",
    "check_write_access",
    "compute_combined_score",
    "compute_recency_score",
    "create_embedder",
    "create_engine_backend",
    "create_memory_backend",
    "create_worker_backend",
    "effective_policy",
    "format_memory_context_with_directive",
    "fuse_ranked_lists",
    "load_policy",
    "rank_memories",
    "require_write_access",
    "untrusted_content_directive",
    "usual_value",
    "wrap_untrusted",
]

#: The module of each public name; a test holds this table, ``__all__`` and the imports for type checkers equal.
_MODULE_OF = {
    "AbstractiveSummarizationOp": "memcore.maintenance.abstractive",
    "AbstractiveSummarizer": "memcore.maintenance.abstractive",
    "ActiveEmbedderSnapshot": "memcore.finetune.active_embedder",
    "AnswerMissingError": "memcore.errors",
    "AppliedReceipt": "memcore.client.receipts",
    "Approval": "memcore.approval_models",
    "ApprovalClosedError": "memcore.errors",
    "ApprovalEffects": "memcore.approvals.effects",
    "ApprovalRisk": "memcore.approval_models",
    "ApprovalService": "memcore.approvals.service",
    "ApprovalState": "memcore.approval_models",
    "ArchivalConfig": "memcore.config.archival",
    "ArchivalEntry": "memcore.archival_models",
    "ArchivalIndexEntry": "memcore.archival_models",
    "ArchivalMode": "memcore.archival_models",
    "ArchivalModeAssignment": "memcore.archival_models",
    "ArchivalStore": "memcore.maintenance.archival_store",
    "AsyncMemory": "memcore.memory.async_memory",
    "AsyncMemoryClient": "memcore.client.async_client",
    "AutonomyLevel": "memcore.org_models",
    "BackendEntry": "memcore.backends.registry",
    "BackendParts": "memcore.backends.registry",
    "BackendRegistry": "memcore.backends.registry",
    "BatchBackend": "memcore.backends.protocol",
    "BlockingContextInjection": "memcore.retrieval.blocking",
    "BudgetExceededError": "memcore.errors",
    "BufferedUseRecorder": "memcore.retrieval.use",
    "Candidate": "memcore.maintenance.value",
    "CaptureConfig": "memcore.config.capture",
    "CategoryWriteRule": "memcore.config.write_access",
    "ChatMessage": "memcore.chat_message",
    "CheckpointConflictError": "memcore.errors",
    "CheckpointCorruptError": "memcore.errors",
    "CheckpointNotFoundError": "memcore.errors",
    "CheckpointRollbackCorruptError": "memcore.errors",
    "CheckpointRollbackUnavailableError": "memcore.errors",
    "CompanyMemoryConfig": "memcore.config.company",
    "CompletionProvider": "memcore.llm.protocol",
    "CompositeBackendConfig": "memcore.config.composite",
    "CompositeConsolidationStrategy": "memcore.maintenance.strategy",
    "CompressedExperience": "memcore.experience_models",
    "ConcatenationOp": "memcore.maintenance.concatenation",
    "ConsolidationConfig": "memcore.config.consolidation",
    "ConsolidationDeps": "memcore.maintenance.factory",
    "ConsolidationInterval": "memcore.models",
    "ConsolidationOp": "memcore.maintenance.draft",
    "ConsolidationResult": "memcore.archival_models",
    "ConsolidationStrategy": "memcore.maintenance.strategy",
    "ConsolidationStrategyType": "memcore.config.consolidation",
    "ContentDensity": "memcore.maintenance.density",
    "ContextInjectionStrategy": "memcore.retrieval.context",
    "DefaultTokenEstimator": "memcore.retrieval.token_estimator",
    "DensityClassifier": "memcore.maintenance.density",
    "DensityRoutingOp": "memcore.maintenance.density_routing",
    "DetailedExperience": "memcore.experience_models",
    "DistillReceipt": "memcore.client.receipts",
    "DistillationRequest": "memcore.distillation.request",
    "Draft": "memcore.maintenance.draft",
    "DualModeConfig": "memcore.config.archival",
    "EffectRegistry": "memcore.approvals.effects",
    "Embedder": "memcore.embedding.protocol",
    "EmbedderChoice": "memcore.embedding.choice",
    "EmbedderOverrideConfig": "memcore.config.embedder",
    "EmbeddingFineTuneConfig": "memcore.config.finetune",
    "EntrySelector": "memcore.maintenance.selection",
    "EvalMetrics": "memcore.finetune.metrics",
    "EvolverConfig": "memcore.config.evolver",
    "EvolverReport": "memcore.skills.report",
    "ExecutionTrace": "memcore.execution_trace",
    "ExperienceCompressor": "memcore.experience.compressor",
    "ExperienceCompressorConfig": "memcore.config.experience",
    "ExperienceReceipt": "memcore.client.receipts",
    "ExtendedStoreConfig": "memcore.config.org",
    "ExtractivePreservationOp": "memcore.maintenance.extractive_preservation",
    "ExtractivePreserver": "memcore.maintenance.extractive",
    "FailureAnalysisPayload": "memcore.procedural.payloads",
    "FineTuneCancelledError": "memcore.errors",
    "FineTuneDependencyError": "memcore.errors",
    "FineTuneExecutionConfig": "memcore.config.finetune",
    "FineTunePlan": "memcore.finetune.plan",
    "FineTuneRun": "memcore.ledger.finetune_run",
    "FineTuneRunActiveError": "memcore.errors",
    "FineTuneRunNotFoundError": "memcore.errors",
    "FineTuneRunNotResumableError": "memcore.errors",
    "FineTuneStageError": "memcore.errors",
    "FineTuneStatus": "memcore.finetune_models",
    "FineTuneTrainingDataError": "memcore.errors",
    "FusionStrategy": "memcore.config.fusion",
    "HierarchicalRetriever": "memcore.retrieval.hierarchical",
    "HighestRelevanceSelector": "memcore.maintenance.selection",
    "ImportRecord": "memcore.client.envelope",
    "InMemoryBackend": "memcore.backends.inmemory",
    "InjectionPoint": "memcore.config.injection",
    "InjectionStrategy": "memcore.config.injection",
    "JobReceipt": "memcore.client.receipts",
    "JobState": "memcore.client.receipts",
    "JobStatus": "memcore.client.receipts",
    "LLMConsolidationConfig": "memcore.config.llm_consolidation",
    "LLMSynthesisOp": "memcore.maintenance.llm_synthesis",
    "LeaseLostError": "memcore.errors",
    "LedgerArchivalStore": "memcore.maintenance.archival_store",
    "LedgerOrgMemory": "memcore.org.ledger_org_memory",
    "MaintenancePausedError": "memcore.errors",
    "MalformedAnswerError": "memcore.errors",
    "Mem0Place": "memcore.backends.mem0.place",
    "Member": "memcore.maintenance.member",
    "Memory": "memcore.memory.memory",
    "MemoryBackend": "memcore.backends.protocol",
    "MemoryBackendUnsupportedError": "memcore.errors",
    "MemoryCapabilities": "memcore.backends.protocol",
    "MemoryCapabilityError": "memcore.errors",
    "MemoryCategory": "memcore.models",
    "MemoryClient": "memcore.client.client",
    "MemoryConfig": "memcore.config.agent",
    "MemoryConfigError": "memcore.errors",
    "MemoryConnectionError": "memcore.errors",
    "MemoryDiskFullError": "memcore.errors",
    "MemoryEmbeddingError": "memcore.errors",
    "MemoryEntry": "memcore.models",
    "MemoryError": "memcore.errors",
    "MemoryFilterStrategy": "memcore.retrieval.memory_filter",
    "MemoryInjectionStrategy": "memcore.retrieval.injection",
    "MemoryInputError": "memcore.errors",
    "MemoryLevel": "memcore.models",
    "MemoryMetadata": "memcore.models",
    "MemoryNotFoundError": "memcore.errors",
    "MemoryOptionsConfig": "memcore.config.options",
    "MemoryQuery": "memcore.models",
    "MemoryQueueFullError": "memcore.errors",
    "MemoryRecord": "memcore.backends.record",
    "MemoryRetrievalConfig": "memcore.config.retrieval",
    "MemoryRetrievalError": "memcore.errors",
    "MemoryService": "memcore.memory_service.service",
    "MemoryStorageConfig": "memcore.config.storage",
    "MemoryStoreError": "memcore.errors",
    "MemoryStoreRequest": "memcore.models",
    "MemoryToolName": "memcore.distillation.request",
    "MemoryValue": "memcore.maintenance.value",
    "MessageRole": "memcore.chat_message",
    "MissingExtraError": "memcore.errors",
    "OperationLogEntry": "memcore.org_models",
    "OperationLogSnapshot": "memcore.org_models",
    "OrgFact": "memcore.org_models",
    "OrgFactAuthor": "memcore.org_models",
    "OrgFactCategory": "memcore.config.write_access",
    "OrgFactWriteRequest": "memcore.org_models",
    "OrgMemoryAccessDeniedError": "memcore.errors",
    "OrgMemoryBackend": "memcore.org.protocol",
    "OrgMemoryConfig": "memcore.config.org",
    "OrgMemoryConnectionError": "memcore.errors",
    "OrgMemoryError": "memcore.errors",
    "OrgMemoryQuery": "memcore.org_models",
    "OrgMemoryQueryError": "memcore.errors",
    "OrgMemoryWriteError": "memcore.errors",
    "PassthroughMemoryFilter": "memcore.retrieval.memory_filter",
    "Policy": "memcore.config.policy",
    "PreflightResult": "memcore.finetune.preflight",
    "ProceduralMemoryConfig": "memcore.config.procedural",
    "ProceduralMemoryProposal": "memcore.procedural.proposal",
    "ProceduralMemoryScope": "memcore.procedural.scope",
    "Proposal": "memcore.approval_models",
    "ProviderError": "memcore.errors",
    "ProviderUnavailableError": "memcore.errors",
    "QuerySpecificReranker": "memcore.retrieval.reranker",
    "Recovery": "memcore.execution_trace",
    "RetentionConfig": "memcore.config.retention",
    "RetentionRule": "memcore.config.retention",
    "RetryExhaustedError": "memcore.errors",
    "Scope": "memcore.client.envelope",
    "ScoredMemory": "memcore.retrieval.scored_memory",
    "SearchFields": "memcore.memory.fields",
    "SelfEditingMemoryConfig": "memcore.config.self_editing",
    "SeniorityLevel": "memcore.config.write_access",
    "Settings": "memcore.config.settings",
    "SharedKnowledgeStore": "memcore.backends.shared",
    "SkillLimitError": "memcore.errors",
    "StoreFields": "memcore.memory.fields",
    "StoreReceipt": "memcore.client.receipts",
    "Superseded": "memcore.approval_models",
    "TagBasedMemoryFilter": "memcore.retrieval.memory_filter",
    "TerminationReason": "memcore.execution_trace",
    "TokenEstimator": "memcore.retrieval.token_estimator",
    "ToolDefinition": "memcore.retrieval.injection",
    "Turn": "memcore.execution_trace",
    "Use": "memcore.jobs.use_payload",
    "UseRecorder": "memcore.retrieval.use",
    "WikiExportConfig": "memcore.config.wiki",
    "Word": "memcore.approval_models",
    "WorkerBackend": "memcore.backends.factory",
    "WriteAccessConfig": "memcore.config.write_access",
    "apply_diversity_penalty": "memcore.retrieval.diversity",
    "bigram_jaccard": "memcore.retrieval.diversity",
    "build_consolidation_strategy": "memcore.maintenance.factory",
    "check_write_access": "memcore.org.access",
    "compute_combined_score": "memcore.retrieval.linear",
    "compute_recency_score": "memcore.retrieval.recency",
    "create_embedder": "memcore.embedding.factory",
    "create_engine_backend": "memcore.backends.factory",
    "create_memory_backend": "memcore.backends.factory",
    "create_worker_backend": "memcore.backends.factory",
    "effective_policy": "memcore.config.loader",
    "format_memory_context_with_directive": "memcore.retrieval.formatter",
    "fuse_ranked_lists": "memcore.retrieval.rrf",
    "load_policy": "memcore.config.loader",
    "rank_memories": "memcore.retrieval.linear",
    "require_write_access": "memcore.org.access",
    "untrusted_content_directive": "memcore.fence",
    "usual_value": "memcore.maintenance.value",
    "wrap_untrusted": "memcore.fence",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        msg = f"module 'memcore' has no attribute {name!r}"
        raise AttributeError(msg)
    from memcore.extras import naming_extras  # noqa: PLC0415  # with the first name, as all modules

    with naming_extras():
        found = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
