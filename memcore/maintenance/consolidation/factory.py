"""Builds consolidation strategies by name: the shipped ones, and those that a package registers."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import entry_points

from memcore.backends.protocol import MemoryBackend
from memcore.config.maintenance import (
    STRATEGY_GROUP,
    ConsolidationConfig,
    ConsolidationStrategyType,
    LLMConsolidationConfig,
)
from memcore.embedding.bm25 import Vocabulary
from memcore.errors import MemoryConfigError
from memcore.maintenance.consolidation.condense import CondensingOp, VocabularyOf, no_vocabulary
from memcore.maintenance.consolidation.dedupe import DedupeStrategy
from memcore.maintenance.consolidation.density import DensityClassifier, DensityRoutingOp
from memcore.maintenance.consolidation.dual_mode import (
    AbstractiveSummarizationOp,
    AbstractiveSummarizer,
    ExtractivePreservationOp,
    ExtractivePreserver,
)
from memcore.maintenance.consolidation.llm import AnswerSource, LLMSynthesisOp, Trajectories, no_trajectories
from memcore.maintenance.consolidation.strategy import (
    BYTES_PER_TOKEN,
    ChunkLimits,
    CompositeConsolidationStrategy,
    ConcatenationOp,
    ConsolidationOp,
    ConsolidationStrategy,
    HighestRelevanceSelector,
)
from memcore.models.memory import MemoryQuery

#: Memories whose words are counted: one query of the store, 0.1 s, and enough to know which words are rare.
ENOUGH_MEMORIES = 1_000


class CorpusVocabulary:
    """The vocabulary of an agent's newest memories, read at the first use; one instance per run.

    A run sees only memories that have just become old enough, and among twenty of them every word looks rare. So the
    others are counted too, summaries included.
    """

    def __init__(self, backend: MemoryBackend) -> None:
        self._backend = backend
        self._read: dict[str, Vocabulary] = {}

    async def __call__(self, agent_id: str) -> Vocabulary:
        """Return the agent's vocabulary. Raises MemoryRetrievalError, MemoryConnectionError."""
        if agent_id not in self._read:
            newest = await self._backend.retrieve(agent_id, MemoryQuery(limit=ENOUGH_MEMORIES))
            self._read[agent_id] = Vocabulary([entry.content for entry in newest])
        return self._read[agent_id]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationDeps:
    """The parts from which strategies are built; no ``answers`` when no model is connected."""

    policy: ConsolidationConfig
    answers: AnswerSource | None = None
    trajectories: Trajectories = no_trajectories
    vocabulary: VocabularyOf = no_vocabulary


#: Makes a strategy; None when nothing is consolidated.
StrategyBuilder = Callable[[ConsolidationDeps], ConsolidationStrategy | None]


def build_consolidation_strategy(deps: ConsolidationDeps) -> ConsolidationStrategy | None:
    """Return the strategy that the policy names; None when nothing is consolidated.

    Raises MemoryConfigError when it needs a language model that is not there, or its package is gone.
    """
    name = str(deps.policy.strategy)
    if name in _BUILDERS:
        return _BUILDERS[name](deps)
    for entry_point in entry_points(group=STRATEGY_GROUP, name=name):
        builder: StrategyBuilder = entry_point.load()
        return builder(deps)
    raise MemoryConfigError(f"consolidation.strategy: {name} is registered by no installed package")


def _simple(deps: ConsolidationDeps) -> ConsolidationStrategy:
    return _composite(deps, ConcatenationOp())


def _condense(deps: ConsolidationDeps) -> ConsolidationStrategy:
    config = deps.policy.condense
    op = CondensingOp(keep_share=config.keep_share, vocabulary=deps.vocabulary)
    return _composite(deps, op, target_tokens=config.target_tokens)


def _dual_mode(deps: ConsolidationDeps) -> ConsolidationStrategy:
    mode = deps.policy.archival.dual_mode
    if not mode.enabled or mode.summarization_model is None:
        raise MemoryConfigError(
            "consolidation.strategy: dual_mode needs archival.dual_mode.enabled and its summarization_model"
        )
    summarizer = AbstractiveSummarizer(
        _answers(deps), model=mode.summarization_model, max_summary_tokens=mode.max_summary_tokens
    )
    op = DensityRoutingOp(
        DensityClassifier(dense_threshold=mode.dense_threshold),
        dense=ExtractivePreservationOp(ExtractivePreserver(max_facts=mode.max_facts, anchor_length=mode.anchor_length)),
        sparse=AbstractiveSummarizationOp(summarizer),
    )
    return _composite(deps, op)


def _llm(deps: ConsolidationDeps) -> ConsolidationStrategy:
    config = deps.policy.llm or LLMConsolidationConfig()
    op = LLMSynthesisOp(_answers(deps), config=config, trajectories=deps.trajectories)
    # No group may be longer than the prompt: what does not fit goes into the next one.
    longest = config.max_total_user_content_chars // BYTES_PER_TOKEN
    return _composite(deps, op, max_tokens=longest, group_threshold=config.group_threshold)


def _answers(deps: ConsolidationDeps) -> AnswerSource:
    if deps.answers is None:
        raise MemoryConfigError(
            f"consolidation.strategy: {deps.policy.strategy} needs a language model; set MEMTEND_LLM_URL, "
            "or choose a strategy without one"
        )
    return deps.answers


def _composite(
    deps: ConsolidationDeps,
    op: ConsolidationOp,
    *,
    group_threshold: int | None = None,
    max_tokens: int | None = None,
    target_tokens: int | None = None,
) -> CompositeConsolidationStrategy:
    policy = deps.policy
    longest = policy.group_max_tokens if max_tokens is None else min(policy.group_max_tokens, max_tokens)
    return CompositeConsolidationStrategy(
        HighestRelevanceSelector(group_threshold=group_threshold or policy.group_threshold),
        op,
        name=str(policy.strategy),
        limits=ChunkLimits(max_entries=policy.group_max_entries, max_tokens=longest, target_tokens=target_tokens),
    )


_BUILDERS: dict[str, StrategyBuilder] = {
    ConsolidationStrategyType.NONE: lambda _: None,
    ConsolidationStrategyType.DEDUPE: lambda _: DedupeStrategy(),
    ConsolidationStrategyType.CONDENSE: _condense,
    ConsolidationStrategyType.SIMPLE: _simple,
    ConsolidationStrategyType.DUAL_MODE: _dual_mode,
    ConsolidationStrategyType.LLM: _llm,
}
