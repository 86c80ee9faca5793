"""memcore: what a memory is, and what may happen to it. The library that agent engines and workers share.

The names below are the public face; each loads its module when it is first asked for.
"""

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # One line a name: type checkers follow it, and _modules reads it.
    from .approvals import ApprovalEffects as ApprovalEffects
    from .approvals import ApprovalService as ApprovalService
    from .approvals import EffectRegistry as EffectRegistry
    from .backends.factory import BackendEntry as BackendEntry
    from .backends.factory import BackendParts as BackendParts
    from .backends.factory import BackendRegistry as BackendRegistry
    from .backends.factory import WorkerBackend as WorkerBackend
    from .backends.factory import create_engine_backend as create_engine_backend
    from .backends.factory import create_memory_backend as create_memory_backend
    from .backends.factory import create_worker_backend as create_worker_backend
    from .backends.inmemory import InMemoryBackend as InMemoryBackend
    from .backends.mem0.config import Mem0Config as Mem0Config
    from .backends.protocol import BatchBackend as BatchBackend
    from .backends.protocol import MemoryBackend as MemoryBackend
    from .backends.protocol import MemoryCapabilities as MemoryCapabilities
    from .backends.protocol import SharedKnowledgeStore as SharedKnowledgeStore
    from .client.async_client import AsyncMemoryClient as AsyncMemoryClient
    from .client.client import MemoryClient as MemoryClient
    from .client.envelopes import ImportRecord as ImportRecord
    from .client.envelopes import Scope as Scope
    from .client.results import AppliedReceipt as AppliedReceipt
    from .client.results import DistillReceipt as DistillReceipt
    from .client.results import ExperienceReceipt as ExperienceReceipt
    from .client.results import JobReceipt as JobReceipt
    from .client.results import JobState as JobState
    from .client.results import JobStatus as JobStatus
    from .client.results import StoreReceipt as StoreReceipt
    from .client.results import TurnReceipt as TurnReceipt
    from .config.finetune import EmbeddingFineTuneConfig as EmbeddingFineTuneConfig
    from .config.finetune import FineTuneExecutionConfig as FineTuneExecutionConfig
    from .config.learning import CaptureConfig as CaptureConfig
    from .config.learning import EvolverConfig as EvolverConfig
    from .config.learning import ProceduralMemoryConfig as ProceduralMemoryConfig
    from .config.loader import effective_policy as effective_policy
    from .config.loader import load_policy as load_policy
    from .config.maintenance import ArchivalConfig as ArchivalConfig
    from .config.maintenance import ConsolidationConfig as ConsolidationConfig
    from .config.maintenance import ConsolidationStrategyType as ConsolidationStrategyType
    from .config.maintenance import DualModeConfig as DualModeConfig
    from .config.maintenance import ExperienceCompressorConfig as ExperienceCompressorConfig
    from .config.maintenance import LLMConsolidationConfig as LLMConsolidationConfig
    from .config.maintenance import RetentionConfig as RetentionConfig
    from .config.maintenance import RetentionRule as RetentionRule
    from .config.maintenance import WikiExportConfig as WikiExportConfig
    from .config.memory import CompanyMemoryConfig as CompanyMemoryConfig
    from .config.memory import CompositeBackendConfig as CompositeBackendConfig
    from .config.memory import EmbedderOverrideConfig as EmbedderOverrideConfig
    from .config.memory import MemoryConfig as MemoryConfig
    from .config.memory import MemoryOptionsConfig as MemoryOptionsConfig
    from .config.memory import MemoryStorageConfig as MemoryStorageConfig
    from .config.organization import CategoryWriteRule as CategoryWriteRule
    from .config.organization import ExtendedStoreConfig as ExtendedStoreConfig
    from .config.organization import OrgMemoryConfig as OrgMemoryConfig
    from .config.organization import WriteAccessConfig as WriteAccessConfig
    from .config.policy import Policy as Policy
    from .config.retrieval import FusionStrategy as FusionStrategy
    from .config.retrieval import InjectionPoint as InjectionPoint
    from .config.retrieval import InjectionStrategy as InjectionStrategy
    from .config.retrieval import MemoryRetrievalConfig as MemoryRetrievalConfig
    from .config.retrieval import SelfEditingMemoryConfig as SelfEditingMemoryConfig
    from .config.settings import Settings as Settings
    from .conversation.entries import EpisodicWorkingMemoryEntry as EpisodicWorkingMemoryEntry
    from .conversation.entries import LoadReason as LoadReason
    from .conversation.entries import ProceduralWorkingMemoryEntry as ProceduralWorkingMemoryEntry
    from .conversation.entries import SemanticWorkingMemoryEntry as SemanticWorkingMemoryEntry
    from .conversation.entries import TurnContext as TurnContext
    from .conversation.entries import format_working_memory_entries as format_working_memory_entries
    from .distillation import DistillationRequest as DistillationRequest
    from .distillation import MemoryToolName as MemoryToolName
    from .embedding.factory import create_embedder as create_embedder
    from .embedding.protocol import Embedder as Embedder
    from .embedding.selection import EmbedderChoice as EmbedderChoice
    from .errors import AnswerMissingError as AnswerMissingError
    from .errors import ApprovalClosedError as ApprovalClosedError
    from .errors import ApprovalLimitError as ApprovalLimitError
    from .errors import BudgetExceededError as BudgetExceededError
    from .errors import CheckpointConflictError as CheckpointConflictError
    from .errors import CheckpointCorruptError as CheckpointCorruptError
    from .errors import CheckpointNotFoundError as CheckpointNotFoundError
    from .errors import CheckpointRollbackCorruptError as CheckpointRollbackCorruptError
    from .errors import CheckpointRollbackUnavailableError as CheckpointRollbackUnavailableError
    from .errors import FineTuneCancelledError as FineTuneCancelledError
    from .errors import FineTuneDependencyError as FineTuneDependencyError
    from .errors import FineTuneRunActiveError as FineTuneRunActiveError
    from .errors import FineTuneRunNotFoundError as FineTuneRunNotFoundError
    from .errors import FineTuneRunNotResumableError as FineTuneRunNotResumableError
    from .errors import FineTuneStageError as FineTuneStageError
    from .errors import FineTuneTrainingDataError as FineTuneTrainingDataError
    from .errors import LeaseLostError as LeaseLostError
    from .errors import MaintenancePausedError as MaintenancePausedError
    from .errors import MalformedAnswerError as MalformedAnswerError
    from .errors import MemoryBackendUnsupportedError as MemoryBackendUnsupportedError
    from .errors import MemoryBrokerFullError as MemoryBrokerFullError
    from .errors import MemoryBrokerUnsafeError as MemoryBrokerUnsafeError
    from .errors import MemoryCapabilityError as MemoryCapabilityError
    from .errors import MemoryChannelError as MemoryChannelError
    from .errors import MemoryConfigError as MemoryConfigError
    from .errors import MemoryConflictError as MemoryConflictError
    from .errors import MemoryConnectionError as MemoryConnectionError
    from .errors import MemoryDiskFullError as MemoryDiskFullError
    from .errors import MemoryEmbeddingError as MemoryEmbeddingError
    from .errors import MemoryError as MemoryError  # noqa: A004  # the reference fixes the name
    from .errors import MemoryInputError as MemoryInputError
    from .errors import MemoryNotFoundError as MemoryNotFoundError
    from .errors import MemoryQueueFullError as MemoryQueueFullError
    from .errors import MemoryRefusedError as MemoryRefusedError
    from .errors import MemoryRetrievalError as MemoryRetrievalError
    from .errors import MemoryStoreError as MemoryStoreError
    from .errors import MissingExtraError as MissingExtraError
    from .errors import OrgMemoryAccessDeniedError as OrgMemoryAccessDeniedError
    from .errors import OrgMemoryConnectionError as OrgMemoryConnectionError
    from .errors import OrgMemoryError as OrgMemoryError
    from .errors import OrgMemoryQueryError as OrgMemoryQueryError
    from .errors import OrgMemoryWriteError as OrgMemoryWriteError
    from .errors import ProviderError as ProviderError
    from .errors import ProviderUnavailableError as ProviderUnavailableError
    from .errors import RetryExhaustedError as RetryExhaustedError
    from .errors import SkillLimitError as SkillLimitError
    from .experience import ExperienceCompressor as ExperienceCompressor
    from .finetune.deployment import ActiveEmbedderSnapshot as ActiveEmbedderSnapshot
    from .finetune.evaluate import EvalMetrics as EvalMetrics
    from .finetune.preflight import PreflightResult as PreflightResult
    from .jobs import RecordedQuery as RecordedQuery
    from .jobs import Use as Use
    from .ledger.finetune_runs import FineTuneRun as FineTuneRun
    from .llm.protocol import CompletionProvider as CompletionProvider
    from .maintenance.archival_store import ArchivalStore as ArchivalStore
    from .maintenance.archival_store import LedgerArchivalStore as LedgerArchivalStore
    from .maintenance.consolidation.density import ContentDensity as ContentDensity
    from .maintenance.consolidation.density import DensityClassifier as DensityClassifier
    from .maintenance.consolidation.density import DensityRoutingOp as DensityRoutingOp
    from .maintenance.consolidation.dual_mode import AbstractiveSummarizationOp as AbstractiveSummarizationOp
    from .maintenance.consolidation.dual_mode import AbstractiveSummarizer as AbstractiveSummarizer
    from .maintenance.consolidation.dual_mode import ExtractivePreservationOp as ExtractivePreservationOp
    from .maintenance.consolidation.dual_mode import ExtractivePreserver as ExtractivePreserver
    from .maintenance.consolidation.factory import ConsolidationDeps as ConsolidationDeps
    from .maintenance.consolidation.factory import build_consolidation_strategy as build_consolidation_strategy
    from .maintenance.consolidation.llm import LLMSynthesisOp as LLMSynthesisOp
    from .maintenance.consolidation.strategy import CompositeConsolidationStrategy as CompositeConsolidationStrategy
    from .maintenance.consolidation.strategy import ConcatenationOp as ConcatenationOp
    from .maintenance.consolidation.strategy import ConsolidationOp as ConsolidationOp
    from .maintenance.consolidation.strategy import ConsolidationStrategy as ConsolidationStrategy
    from .maintenance.consolidation.strategy import EntrySelector as EntrySelector
    from .maintenance.consolidation.strategy import HighestRelevanceSelector as HighestRelevanceSelector
    from .maintenance.consolidation.strategy import SummaryCandidate as SummaryCandidate
    from .maintenance.consolidation.strategy import SummaryDraft as SummaryDraft
    from .maintenance.enforcement import Candidate as Candidate
    from .maintenance.enforcement import MemoryValue as MemoryValue
    from .maintenance.enforcement import usual_value as usual_value
    from .memory.async_memory import AsyncMemory as AsyncMemory
    from .memory.fields import AskFields as AskFields
    from .memory.fields import SearchFields as SearchFields
    from .memory.fields import StoreFields as StoreFields
    from .memory.memory import Memory as Memory
    from .memory_tests.files import read_memory_tests as read_memory_tests
    from .memory_tests.report import MemoryTestReport as MemoryTestReport
    from .memory_tests.running import run_memory_tests as run_memory_tests
    from .models.approval import Approval as Approval
    from .models.approval import ApprovalRisk as ApprovalRisk
    from .models.approval import ApprovalState as ApprovalState
    from .models.approval import Proposal as Proposal
    from .models.approval import Superseded as Superseded
    from .models.approval import Word as Word
    from .models.archival import ArchivalEntry as ArchivalEntry
    from .models.archival import ArchivalIndexEntry as ArchivalIndexEntry
    from .models.archival import ArchivalMode as ArchivalMode
    from .models.archival import ArchivalModeAssignment as ArchivalModeAssignment
    from .models.archival import ConsolidationResult as ConsolidationResult
    from .models.asking import Answer as Answer
    from .models.asking import AnsweredBy as AnsweredBy
    from .models.asking import AnswerPassage as AnswerPassage
    from .models.asking import AnswerSentence as AnswerSentence
    from .models.asking import FoundPassages as FoundPassages
    from .models.asking import NoSentences as NoSentences
    from .models.conversation import Arc as Arc
    from .models.conversation import Fact as Fact
    from .models.conversation import LayerCounts as LayerCounts
    from .models.conversation import ProfileRule as ProfileRule
    from .models.conversation import resolve_owner_id as resolve_owner_id
    from .models.execution import ChatMessage as ChatMessage
    from .models.execution import ExecutionTrace as ExecutionTrace
    from .models.execution import MessageRole as MessageRole
    from .models.execution import Recovery as Recovery
    from .models.execution import TerminationReason as TerminationReason
    from .models.execution import ToolDefinition as ToolDefinition
    from .models.execution import Turn as Turn
    from .models.experience import CompressedExperience as CompressedExperience
    from .models.experience import DetailedExperience as DetailedExperience
    from .models.finetune import FineTunePlan as FineTunePlan
    from .models.finetune import FineTuneStatus as FineTuneStatus
    from .models.memory import ConsolidationInterval as ConsolidationInterval
    from .models.memory import MemoryCategory as MemoryCategory
    from .models.memory import MemoryEntry as MemoryEntry
    from .models.memory import MemoryLevel as MemoryLevel
    from .models.memory import MemoryMetadata as MemoryMetadata
    from .models.memory import MemoryQuery as MemoryQuery
    from .models.memory import MemoryStoreRequest as MemoryStoreRequest
    from .models.memory_test import MemoryTest as MemoryTest
    from .models.memory_test import MemoryTestResult as MemoryTestResult
    from .models.memory_test import NamedMemory as NamedMemory
    from .models.memory_test import PersonFact as PersonFact
    from .models.organization import AutonomyLevel as AutonomyLevel
    from .models.organization import OperationLogEntry as OperationLogEntry
    from .models.organization import OperationLogSnapshot as OperationLogSnapshot
    from .models.organization import OrgFact as OrgFact
    from .models.organization import OrgFactAuthor as OrgFactAuthor
    from .models.organization import OrgFactCategory as OrgFactCategory
    from .models.organization import OrgFactWriteRequest as OrgFactWriteRequest
    from .models.organization import OrgMemoryQuery as OrgMemoryQuery
    from .models.organization import SeniorityLevel as SeniorityLevel
    from .org.protocol import OrgMemoryBackend as OrgMemoryBackend
    from .org.protocol import check_write_access as check_write_access
    from .org.protocol import require_write_access as require_write_access
    from .org.service import LedgerOrgMemory as LedgerOrgMemory
    from .procedural.proposer import FailureAnalysisPayload as FailureAnalysisPayload
    from .procedural.records import ProceduralMemoryProposal as ProceduralMemoryProposal
    from .procedural.records import ProceduralMemoryScope as ProceduralMemoryScope
    from .records import MemoryRecord as MemoryRecord
    from .remote.async_remote_memory import AsyncRemoteMemory as AsyncRemoteMemory
    from .remote.problems import RemoteRefusedError as RemoteRefusedError
    from .remote.remote_memory import RemoteMemory as RemoteMemory
    from .retrieval.context import BlockingContextInjection as BlockingContextInjection
    from .retrieval.context import ContextInjectionStrategy as ContextInjectionStrategy
    from .retrieval.filters import MemoryFilterStrategy as MemoryFilterStrategy
    from .retrieval.filters import PassthroughMemoryFilter as PassthroughMemoryFilter
    from .retrieval.filters import TagBasedMemoryFilter as TagBasedMemoryFilter
    from .retrieval.formatting import format_memory_context_with_directive as format_memory_context_with_directive
    from .retrieval.protocol import DefaultTokenEstimator as DefaultTokenEstimator
    from .retrieval.protocol import HierarchicalRetriever as HierarchicalRetriever
    from .retrieval.protocol import MemoryInjectionStrategy as MemoryInjectionStrategy
    from .retrieval.protocol import QuerySpecificReranker as QuerySpecificReranker
    from .retrieval.protocol import ScoredMemory as ScoredMemory
    from .retrieval.protocol import TokenEstimator as TokenEstimator
    from .retrieval.ranking import apply_diversity_penalty as apply_diversity_penalty
    from .retrieval.ranking import bigram_jaccard as bigram_jaccard
    from .retrieval.ranking import compute_combined_score as compute_combined_score
    from .retrieval.ranking import compute_recency_score as compute_recency_score
    from .retrieval.ranking import fuse_ranked_lists as fuse_ranked_lists
    from .retrieval.ranking import rank_memories as rank_memories
    from .retrieval.strategies.asking import QueryReformulator as QueryReformulator
    from .retrieval.strategies.asking import SufficiencyChecker as SufficiencyChecker
    from .retrieval.strategies.factory import create_injection_strategy as create_injection_strategy
    from .retrieval.strategies.self_editing import SelfEditingMemoryStrategy as SelfEditingMemoryStrategy
    from .retrieval.strategies.tool_based import ToolBasedInjectionStrategy as ToolBasedInjectionStrategy
    from .retrieval.usage import BufferedUseRecorder as BufferedUseRecorder
    from .retrieval.usage import QueryRecorder as QueryRecorder
    from .retrieval.usage import UseRecorder as UseRecorder
    from .service.service import MemoryService as MemoryService
    from .skills.report import EvolverReport as EvolverReport
    from .untrusted_text import untrusted_content_directive as untrusted_content_directive
    from .untrusted_text import wrap_untrusted as wrap_untrusted


@cache
def _modules() -> dict[str, str]:
    """Return the module of each public name; the lines above alone say it."""
    source = __spec__.loader.get_source(__name__)  # type: ignore[union-attr]  # a loader of files has it
    words = [line.split() for line in source.splitlines() if line.startswith("    from .")]
    return {name: module for _, module, _, name, *_ in words}


def __getattr__(name: str) -> Any:
    # Not assigned above: type checkers take an ``__all__`` that is computed for an empty one.
    if name == "__all__":
        return sorted(_modules())
    if name not in _modules():
        msg = f"module 'memcore' has no attribute {name!r}"
        raise AttributeError(msg)
    from memcore.extras import naming_extras  # noqa: PLC0415  # with the first name, as all modules

    with naming_extras():
        found = getattr(import_module(_modules()[name], __name__), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_modules()})
