"""Makes the injection strategy that a policy names, and the tools that servers give agents."""

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias

from memcore.backends.protocol import MemoryBackend
from memcore.clock import Clock, utc_now
from memcore.config.policy import Policy
from memcore.config.retrieval import InjectionStrategy
from memcore.errors import MemoryConfigError
from memcore.llm.protocol import Model
from memcore.retrieval.context import ContextInjectionStrategy
from memcore.retrieval.pipeline import MemoryPipeline, PipelineParts, parts_of
from memcore.retrieval.protocol import TokenEstimator
from memcore.retrieval.strategies.answering import Answering
from memcore.retrieval.strategies.asking import LLMQueryReformulator, LLMSufficiencyChecker, SearchAndAsk
from memcore.retrieval.strategies.hierarchical import LLMHierarchicalRetriever
from memcore.retrieval.strategies.reranker import LLMQuerySpecificReranker, OrderCache
from memcore.retrieval.strategies.self_editing import CoreMemory, SelfEditingMemoryStrategy
from memcore.retrieval.strategies.tool_based import MemorySearch, ToolBasedInjectionStrategy
from memcore.retrieval.strategies.tools import AgentTools
from memcore.retrieval.strategies.writing import MemoryChanges, MemoryWriter, writing_tools
from memcore.retrieval.usage import QueryRecorder, UseRecorder

if TYPE_CHECKING:
    from memcore.ledger.ledger import Ledger

#: A strategy of memtend's own.
Strategy: TypeAlias = ContextInjectionStrategy | ToolBasedInjectionStrategy | SelfEditingMemoryStrategy


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyParts:
    """What strategies are made of.

    Attributes:
        backend: connected before the strategy is used.
        changes: updates and removes memories; self-editing needs it.
        model: asked for routes, orders and other questions, where the policy wants them.
        ledger: counts core memories, and keeps orders for every process.
    """

    policy: Policy
    backend: MemoryBackend
    company: str = "default"
    changes: MemoryChanges | None = None
    model: Model | None = None
    ledger: "Ledger | None" = None
    token_estimator: TokenEstimator | None = None
    use_recorder: UseRecorder | None = None
    query_recorder: QueryRecorder | None = None
    clock: Clock = utc_now

    def pipeline_parts(self) -> PipelineParts:
        """Return the pipeline's parts, with the retriever and the re-ranker that the policy asks for.

        Raises MemoryConfigError where the policy asks for a model, and none is there.
        """
        config = self.policy.memory.retrieval
        parts = parts_of(
            self.policy,
            backend=self.backend,
            token_estimator=self.token_estimator,
            use_recorder=self.use_recorder,
            query_recorder=self.query_recorder,
            clock=self.clock,
        )
        if config.retriever == "hierarchical":
            flat = config.model_copy(update={"retriever": "flat", "query_specific_rerank_enabled": False})
            parts["hierarchical_retriever"] = LLMHierarchicalRetriever(
                flat=MemoryPipeline(backend=self.backend, config=flat, **parts),
                backend=self.backend,
                model=self.asked_model("retriever: hierarchical"),
                config=config,
                company=self.company,
                clock=self.clock,
            )
        if config.query_specific_rerank_enabled:
            cache = None
            if self.ledger is not None:
                ttl = timedelta(seconds=config.rerank_cache_ttl_seconds)
                cache = OrderCache(self.ledger.answers, ttl=ttl, clock=self.clock)
            model = self.asked_model("query_specific_rerank_enabled")
            parts["reranker"] = LLMQuerySpecificReranker(model, company=self.company, cache=cache)
        return parts

    def asked_model(self, key: str) -> Model:
        """Return the model. Raises MemoryConfigError, which names the key that needs it."""
        if self.model is None:
            raise MemoryConfigError(
                f"memory.retrieval.{key} needs a language model: set MEMTEND_LLM_URL, or pass a model"
            )
        return self.model

    def writer(self) -> MemoryWriter:
        """Return what tools write with. Raises MemoryConfigError without ledger or changes."""
        if self.ledger is None or self.changes is None:
            raise MemoryConfigError(
                "memory.retrieval.strategy: self_editing needs the ledger: set MEMTEND_DATABASE_URL"
            )
        return MemoryWriter(
            ledger=self.ledger,
            changes=self.changes,
            policy=self.policy,
            company=self.company,
            clock=self.clock,
        )

    def self_editing(self) -> SelfEditingMemoryStrategy:
        """Return the self-editing strategy. Raises MemoryConfigError without ledger or changes."""
        config, writer = self.policy.memory.retrieval, self.writer()
        assert self.ledger is not None  # noqa: S101  # for the type checker: the writer has it
        core = CoreMemory(
            backend=self.backend,
            writer=writer,
            slots=self.ledger.core_slots,
            config=config,
            company=self.company,
        )
        return SelfEditingMemoryStrategy(
            backend=self.backend, config=config, writer=writer, core=core, **self.pipeline_parts()
        )

    def strategy(self) -> Strategy:
        """Return the strategy that ``memory.retrieval.strategy`` names; see create_injection_strategy."""
        config = self.policy.memory.retrieval
        match config.strategy:
            case InjectionStrategy.CONTEXT:
                return ContextInjectionStrategy(backend=self.backend, config=config, **self.pipeline_parts())
            case InjectionStrategy.TOOL_BASED:
                return _tool_based(self)
            case InjectionStrategy.SELF_EDITING:
                return self.self_editing()

    def pipeline(self) -> MemoryPipeline:
        """Return the pipeline, without a strategy; raises as ``pipeline_parts``."""
        return MemoryPipeline(backend=self.backend, config=self.policy.memory.retrieval, **self.pipeline_parts())

    def answering(self) -> Answering:
        """Return what answers questions; without a model it shows what was found. Raises as ``pipeline_parts``."""
        return Answering(self.pipeline(), model=self.model, company=self.company)

    def asking(self) -> SearchAndAsk | None:
        """Return Search-and-Ask where the policy turns it on. Raises MemoryConfigError without a model."""
        config = self.policy.memory.retrieval
        if not config.query_reformulation_enabled:
            return None
        model = self.asked_model("query_reformulation_enabled")
        return SearchAndAsk(
            LLMQueryReformulator(model, company=self.company),
            LLMSufficiencyChecker(model, company=self.company),
            rounds=config.max_reformulation_rounds,
        )


def create_injection_strategy(
    policy: Policy,
    *,
    backend: MemoryBackend,
    company: str = "default",
    memories: MemoryChanges | None = None,
    model: Model | None = None,
    ledger: "Ledger | None" = None,
    token_estimator: TokenEstimator | None = None,
    use_recorder: UseRecorder | None = None,
    query_recorder: QueryRecorder | None = None,
    clock: Clock = utc_now,
) -> Strategy:
    """Return the strategy that ``memory.retrieval.strategy`` names; connect the backend before it is used.

    ``memories`` and ``ledger`` are needed for ``self_editing``; ``model`` for a hierarchical retriever, a re-ranker and
    Search-and-Ask, which raise MemoryConfigError without it. Agents pay for its questions from their budgets.
    """
    return StrategyParts(
        policy=policy,
        backend=backend,
        company=company,
        changes=memories,
        model=model,
        ledger=ledger,
        token_estimator=token_estimator,
        use_recorder=use_recorder,
        query_recorder=query_recorder,
        clock=clock,
    ).strategy()


def _tool_based(parts: StrategyParts) -> ToolBasedInjectionStrategy:
    config = parts.policy.memory.retrieval
    model = parts.asked_model("query_reformulation_enabled") if config.query_reformulation_enabled else None
    return ToolBasedInjectionStrategy(
        backend=parts.backend,
        config=config,
        reformulator=None if model is None else LLMQueryReformulator(model, company=parts.company),
        sufficiency_checker=None if model is None else LLMSufficiencyChecker(model, company=parts.company),
        changes=parts.changes,
        **parts.pipeline_parts(),
    )


def create_agent_tools(parts: StrategyParts, *, writes: bool = True) -> AgentTools:
    """Return the tools that a server gives agents, whatever the strategy: search_memory, recall_memory, ask_memory.

    With ``writes`` and a ledger also the six of self-editing, and add_memory, update_memory, forget_memory. Raises
    MemoryConfigError where the policy asks for a model, and none is there.
    """
    search = MemorySearch(parts.pipeline(), parts.backend, asking=parts.asking(), changes=parts.changes)
    tools = AgentTools((*search.tools(), parts.answering().tool()))
    if not writes or parts.ledger is None or parts.changes is None:
        return tools
    return tools + parts.self_editing().tools + AgentTools(writing_tools(parts.writer()))


def tools_of(strategy: Strategy, parts: StrategyParts) -> AgentTools:
    """Return a strategy's own tools; context injection, which has none, has those that read."""
    if isinstance(strategy, ContextInjectionStrategy):
        return create_agent_tools(parts, writes=False)
    return strategy.tools
