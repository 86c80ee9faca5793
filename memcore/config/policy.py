"""The whole policy, warnings about keys without effect, and the models that its steps ask."""

import logging
from collections.abc import Iterator, Mapping
from functools import cache

from memcore.config.finetune import FineTuneExecutionConfig
from memcore.config.maintenance import ASKING_STRATEGIES, ConsolidationConfig, ConsolidationStrategyType
from memcore.config.memory import CompanyMemoryConfig, EmbedderOverrideConfig, MemoryStorageConfig
from memcore.config.organization import OrgMemoryConfig
from memcore.config.retrieval import FusionStrategy, InjectionStrategy, MemoryRetrievalConfig
from memcore.models.base import Frozen
from memcore.telemetry.events import Event

_log = logging.getLogger(__name__)


@cache
def log_once(sentence: str) -> None:
    """Log a sentence as a warning, once in this process however often the policy is loaded."""
    # With the sentence in the message: a process that has set up no logs shows nothing else of a record.
    _log.warning("%s: %s", Event.MEMORY_CONFIG_NO_EFFECT, sentence, extra={"key": sentence.partition(" ")[0]})


def _idle(section: Frozen, where: str, *names: str, because: str) -> Iterator[str]:
    for name in names:
        if getattr(section, name) != type(section).model_fields[name].default:
            yield f"memory.{where}.{name} has no effect: {because}"


def _on_storage(storage: MemoryStorageConfig) -> Iterator[str]:
    # Even the default: nothing is stored there.
    if "data_dir" in storage.model_fields_set:
        yield (
            "memory.storage.data_dir has no effect: data lie in the data folder "
            "(`memtend up --home`, MEMTEND_HOME), or on the servers that the settings name"
        )


def _on_fusion(retrieval: MemoryRetrievalConfig) -> Iterator[str]:
    fusion = retrieval.fusion_strategy
    because = f"fusion_strategy is {fusion}"
    if fusion is not FusionStrategy.RRF:
        yield from _idle(retrieval, "retrieval", "rrf_k", because=because)
    if fusion is not FusionStrategy.WEIGHTED:
        yield from _idle(retrieval, "retrieval", "dense_weight", because=because)
    if fusion is FusionStrategy.RRF:
        names = ("personal_boost", "relevance_weight", "recency_weight", "recency_decay_rate")
        yield from _idle(retrieval, "retrieval", *names, because=f"{because}, except when keywords find nothing")
    if fusion is not FusionStrategy.LINEAR and not retrieval.sparse:
        yield f"memory.retrieval.sparse is false: {fusion} has vectors alone to rank and does what linear does"


def _on_reranking(retrieval: MemoryRetrievalConfig) -> Iterator[str]:
    if not retrieval.diversity_penalty_enabled:
        because = "diversity_penalty_enabled is false"
        yield from _idle(retrieval, "retrieval", "diversity_lambda", "candidate_pool_multiplier", because=because)
    elif retrieval.strategy is not InjectionStrategy.CONTEXT:
        because = f"strategy {retrieval.strategy} ignores it"
        yield from _idle(retrieval, "retrieval", "diversity_penalty_enabled", because=because)
    if not retrieval.query_specific_rerank_enabled:
        because = "query_specific_rerank_enabled is false"
        yield from _idle(retrieval, "retrieval", "rerank_cache_ttl_seconds", because=because)


def _on_retriever(retrieval: MemoryRetrievalConfig) -> Iterator[str]:
    if retrieval.retriever == "flat":
        names = ("max_workers_per_query", "reflective_retry_enabled", "max_retry_count")
        yield from _idle(retrieval, "retrieval", *names, because="retriever is flat")
    elif not retrieval.reflective_retry_enabled:
        yield from _idle(retrieval, "retrieval", "max_retry_count", because="reflective_retry_enabled is false")
    if not retrieval.query_reformulation_enabled:
        because = "query_reformulation_enabled is false"
        yield from _idle(retrieval, "retrieval", "max_reformulation_rounds", because=because)


def _on_strategy(consolidation: ConsolidationConfig) -> Iterator[str]:
    strategy = consolidation.strategy
    dual_mode = consolidation.archival.dual_mode.enabled
    if dual_mode and strategy is not ConsolidationStrategyType.DUAL_MODE:
        yield (
            "memory.consolidation.archival.dual_mode.enabled has no effect: "
            f"strategy is {strategy}; set memory.consolidation.strategy to dual_mode"
        )
    if strategy is ConsolidationStrategyType.DUAL_MODE and not dual_mode:
        yield (
            "memory.consolidation.strategy is dual_mode, and archival.dual_mode.enabled is false: "
            "runs wait until it is enabled and names a summarization_model"
        )
    if strategy is ConsolidationStrategyType.LLM:
        because = "strategy llm has llm.group_threshold"
        yield from _idle(consolidation, "consolidation", "group_threshold", because=because)
    elif strategy is ConsolidationStrategyType.DEDUPE:
        names = ("group_threshold", "group_max_entries", "group_max_tokens", "llm")
        yield from _idle(consolidation, "consolidation", *names, because=f"strategy is {strategy}")
    else:
        yield from _idle(consolidation, "consolidation", "llm", because=f"strategy is {strategy}")
    if strategy is ConsolidationStrategyType.NONE:
        yield from _idle(consolidation, "consolidation", "categories", because="strategy is none")
    if "enabled" in consolidation.archival.model_fields_set and not consolidation.archival.enabled:
        yield (
            "memory.consolidation.archival.enabled has no effect: "
            "what the limit removes and what consolidation replaces is always archived"
        )
    if isinstance(strategy, ConsolidationStrategyType) and strategy not in ASKING_STRATEGIES:
        because = f"strategy {strategy} asks no model"
        yield from _idle(consolidation, "consolidation", "min_new", "max_tokens_per_run", because=because)
    if strategy is not ConsolidationStrategyType.DUAL_MODE:
        because = f"strategy is {strategy}, and dual_mode alone waits until memories are so old"
        yield from _idle(consolidation.archival, "consolidation.archival", "age_threshold_days", because=because)
    if strategy is not ConsolidationStrategyType.CONDENSE:
        yield from _idle(consolidation, "consolidation", "condense", because=f"strategy is {strategy}")


def _on_checkpoint(embedder: EmbedderOverrideConfig) -> Iterator[str]:
    checkpoint, where = embedder.fine_tune, "embedder.fine_tune"
    if checkpoint.enabled:
        yield from _idle(embedder, "embedder", "model", "dims", because="fine_tune.enabled is true")
    else:
        yield from _idle(checkpoint, where, "checkpoint_path", "base_model", because="enabled is false")
    because = "what a run is trained on is said when it is started"
    yield from _idle(checkpoint, where, "training_data_dir", because=because)


def _on_stages(config: FineTuneExecutionConfig) -> Iterator[str]:
    if config.backend != "docker":
        because = f"backend is {config.backend}, and that changes only where MEMTEND_FINE_TUNE_IMAGE names an image"
        yield from _idle(config, "fine_tune", "image", "gpu_enabled", "memory_limit", because=because)


class Policy(Frozen):
    """Hold the content of a policy file; a key that the file leaves out has its default.

    Attributes:
        memory: how the memories of agents are stored, found and maintained.
        org_memory: what all agents of the organisation share.
    """

    memory: CompanyMemoryConfig = CompanyMemoryConfig()
    org_memory: OrgMemoryConfig = OrgMemoryConfig()

    @property
    def warnings(self) -> tuple[str, ...]:
        """A sentence, its key first, for each setting that is valid and yet does not do what its writer may expect."""
        memory, retrieval = self.memory, self.memory.retrieval
        return (
            *_on_storage(memory.storage),
            *_on_fusion(retrieval),
            *_on_reranking(retrieval),
            *_on_retriever(retrieval),
            *_on_strategy(memory.consolidation),
            *_on_checkpoint(memory.embedder or EmbedderOverrideConfig()),
            *_on_stages(memory.fine_tune),
        )


def llm_consumers(memory: CompanyMemoryConfig) -> Mapping[str, str | None]:
    """Return the model of each step that asks one, by the dotted key that turns the step on; None where none is named.

    Steps of strategies that other packages register are not among them: nobody here knows what they ask.
    """
    consolidation, steps = memory.consolidation, dict[str, str | None]()
    if consolidation.strategy == ConsolidationStrategyType.LLM:
        steps["memory.consolidation.strategy"] = memory.llm.model
    dual_mode = consolidation.archival.dual_mode
    if consolidation.strategy == ConsolidationStrategyType.DUAL_MODE and dual_mode.enabled:
        steps["memory.consolidation.archival.dual_mode"] = dual_mode.summarization_model
    if consolidation.experience_compressor.enabled:
        steps["memory.consolidation.experience_compressor"] = (
            consolidation.experience_compressor.model or memory.llm.model
        )
    if consolidation.search_notes.enabled:
        steps["memory.consolidation.search_notes"] = consolidation.search_notes.model or memory.llm.model
    if consolidation.changes.enabled:
        steps["memory.consolidation.changes"] = consolidation.changes.model or memory.llm.model
    return steps
