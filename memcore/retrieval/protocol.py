"""The contracts of retrieval: injection strategies, scored memories, re-rankers, estimators, and degradation."""

import builtins
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import Protocol, TypeAlias, runtime_checkable

from pydantic import Field

from memcore import errors
from memcore.backends.protocol import ORGANISATION
from memcore.config.retrieval import FusionStrategy
from memcore.deadline.breaker import Part
from memcore.errors import MemoryRetrievalError
from memcore.models.base import Frozen
from memcore.models.execution import ChatMessage, ToolDefinition
from memcore.models.memory import MemoryCategory, MemoryEntry
from memcore.models.organization import OrgFactAuthor
from memcore.models.origin import Authority
from memcore.telemetry.events import Event


@runtime_checkable
class MemoryInjectionStrategy(Protocol):
    """Makes memories available to an agent: as messages before its turn, as tools during it, or both."""

    @property
    def strategy_name(self) -> str:
        """The name that the configuration uses."""
        ...

    async def prepare_messages(self, agent_id: str, query_text: str, token_budget: int) -> tuple[ChatMessage, ...]:
        """Return the messages to inject before a turn about a text; the budget is memories and policies together."""
        ...

    def get_tool_definitions(self) -> tuple[ToolDefinition, ...]:
        """Return the tools that this strategy gives the agent."""
        ...


class ScoredMemory(Frozen):
    """A memory on its way into a prompt; all scores are 0.0 to 1.0.

    Attributes:
        relevance_score: ``linear``: with the personal boost; ``weighted``: the same, and it compares between questions;
            ``rrf``: the similarity, or 0.0.
        recency_score: decay by age; 0.0 under ``rrf``, which knows ranks alone.
        combined_score: what the order follows.
        author: of a fact of the organisation, who wrote the text that stands now.
        summary_id: of an archived memory, the summary in the store that replaced it.
        older_id: of a newer memory that is shown beside the best one, which it may end, the id of that one.
        is_part: whether the content is a part of the memory, with marks where the rest was left out.
        count: of how many memories that say the same it is the one that is shown.
        counted_days: the days of those counted, where they only say nearly the same.
        authority: how far it may be trusted; what is of ``reference`` is shown apart.
        place_in_subject: its place by date, from 1, among the ``subject_size`` shown memories about one subject.
    """

    entry: MemoryEntry
    relevance_score: float = Field(ge=0.0, le=1.0)
    recency_score: float = Field(ge=0.0, le=1.0)
    combined_score: float = Field(ge=0.0, le=1.0)
    is_shared: bool = False
    author: OrgFactAuthor | None = None
    summary_id: str | None = None
    older_id: str | None = None
    is_part: bool = False
    count: int = Field(default=1, ge=1)
    counted_days: str | None = None
    place_in_subject: int = Field(default=1, ge=1)
    subject_size: int = Field(default=1, ge=1)
    scoring_strategy: FusionStrategy | None = None
    authority: Authority = Authority.INFORM

    @property
    def is_reference(self) -> bool:
        """Whether it is somebody else's words, which never stand for what was told, or hide it."""
        return not self.authority.reaches(Authority.INFORM)

    @property
    def shown_score(self) -> float:
        """The score that a prompt shows: the relevance, which compares between questions; ``rrf`` knows ranks alone."""
        return self.combined_score if self.scoring_strategy is FusionStrategy.RRF else self.relevance_score

    @property
    def is_fact(self) -> bool:
        """Whether it is a fact of the organisation: what agents publish is never in its name."""
        return self.is_shared and self.entry.agent_id == ORGANISATION

    @property
    def publisher(self) -> str | None:
        """The agent that published it; None for the agent's own memories, and for what a person wrote."""
        if self.is_fact:
            return None if self.author is None else self.author.agent_id
        return self.entry.agent_id if self.is_shared else None


def best_first(memory: ScoredMemory) -> tuple[float, float, str]:
    """Return a sort key: best combined score, then newest, then by id, so that equal scores always come out alike."""
    return -memory.combined_score, -memory.entry.last_stated_at.timestamp(), memory.entry.id


@runtime_checkable
class QuerySpecificReranker(Protocol):
    """Orders memories by how well they answer a question; used when query_specific_rerank_enabled is true."""

    async def rerank(self, query_text: str, memories: tuple[ScoredMemory, ...]) -> tuple[ScoredMemory, ...]:
        """Return the same memories in a new order; anything else, and any error, keeps the old one."""
        ...


@runtime_checkable
class PerAgentReranker(Protocol):
    """A re-ranker that asks a model on an agent's account: ``of`` returns it for one agent."""

    def of(self, agent_id: str) -> QuerySpecificReranker:
        """Return the re-ranker whose questions this agent pays for."""
        ...


#: A re-ranker, or what makes one for each agent.
Reranker: TypeAlias = QuerySpecificReranker | PerAgentReranker


def reordered(given: Sequence[ScoredMemory], reranked: Sequence[ScoredMemory]) -> tuple[ScoredMemory, ...]:
    """Return the memories given in the order of the re-ranked ones, each place with its score.

    The best combined score goes to the first place, the next to the second, and so on: later steps, diversity above
    all, follow combined scores, and with the old ones they would undo the new order. Raises MemoryRetrievalError when
    the re-ranked are not the same memories.
    """
    by_id = {each.entry.id: each for each in given}
    order = [each.entry.id for each in reranked]
    if sorted(order) != sorted(by_id):
        raise MemoryRetrievalError("the re-ranker returned other memories than it was given")
    scores = sorted((each.combined_score for each in given), reverse=True)
    return tuple(
        by_id[key].model_copy(update={"combined_score": score}) for key, score in zip(order, scores, strict=True)
    )


@runtime_checkable
class HierarchicalRetriever(Protocol):
    """Finds and ranks memories by routing a question; used when ``retriever`` is ``hierarchical``."""

    async def retrieve(
        self, agent_id: str, query_text: str, *, limit: int, categories: frozenset[MemoryCategory] | None = None
    ) -> tuple[ScoredMemory, ...]:
        """Return at most ``limit`` memories, best first."""
        ...


#: Characters of a token, roughly, in English text.
_CHARS_PER_TOKEN = 4


@runtime_checkable
class TokenEstimator(Protocol):
    """Estimates tokens; pass the tokenizer of the engine's own model for an exact budget."""

    def estimate_tokens(self, text: str) -> int:
        """Return the number of tokens, 0 or more."""
        ...


class DefaultTokenEstimator:
    """Estimates one token for four characters."""

    def estimate_tokens(self, text: str) -> int:
        """Return 0 for the empty text, else a quarter of its characters, 1 at least."""
        return max(1, len(text) // _CHARS_PER_TOKEN) if text else 0


_log = logging.getLogger(__name__)


class Source(StrEnum):
    """A part that a prompt can do without."""

    BACKEND = "backend"
    KEYWORDS = "keywords"
    SHARED_STORE = "shared_store"
    #: What the organisation wrote: its policies, or which facts still stand.
    ORGANISATION = "organisation"
    HIERARCHICAL = "hierarchical"
    RERANKER = "reranker"
    FILTER = "filter"
    DIVERSITY = "diversity"
    USE_RECORDER = "use_recorder"
    QUERY_RECORDER = "query_recorder"
    #: Any other part: a question or an estimator that breaks its contract.
    PIPELINE = "pipeline"


class Degrading:
    """Logs that a part failed in its ``with`` block, and goes on after it; see :func:`degrade`."""

    def __init__(self, source: Source, agent_id: str) -> None:
        self._source = source
        self._agent_id = agent_id

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        degrade(error, source=self._source, agent_id=self._agent_id)
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A source that a result was made without, and the part of the installation that failed, as far as it is known."""

    source: Source
    part: str


#: What a result can be made without, and is as true as with it.
UNNEEDED = frozenset({Source.USE_RECORDER, Source.QUERY_RECORDER, Source.RERANKER, Source.DIVERSITY})

_noted: ContextVar[list[Failure] | None] = ContextVar("_noted", default=None)


@contextmanager
def noting_degraded() -> Iterator[list[Failure]]:
    """Yield a list that each failure in the block is added to: an empty prompt may be one that was not made."""
    failed: list[Failure] = []
    outer = _noted.get()
    token = _noted.set(failed)
    try:
        yield failed
    finally:
        _noted.reset(token)
        if outer is not None:
            outer += failed


def degrade(error: Exception, *, source: Source, agent_id: str) -> None:
    """Log that a part failed: its name and the error's type, never the error's text.

    Python's own MemoryError and RecursionError, also in an exception group, are raised: no result should hide that the
    process is out of memory.
    """
    fatal = fatal_in(error)
    if fatal is not None:
        raise fatal
    facts = {"source": str(source), "agent_id": agent_id, "error": type(error).__name__}
    _log.warning(Event.MEMORY_RETRIEVAL_DEGRADED, extra=facts)
    if (failed := _noted.get()) is not None:
        failed.append(Failure(source=source, part=_part_of(error, source)))


def _part_of(error: Exception, source: Source) -> str:
    """Return the part of the installation that an error names, else the source."""
    if isinstance(error, errors.MemoryConnectionError) and error.part is not None:
        return error.part
    if isinstance(error, errors.MemoryEmbeddingError):
        return Part.EMBEDDER
    if source is Source.ORGANISATION:
        return Part.LEDGER
    is_stores = source in {Source.BACKEND, Source.KEYWORDS, Source.SHARED_STORE}
    return Part.STORE if is_stores and isinstance(error, errors.MemoryError) else source


def fatal_in(error: BaseException) -> BaseException | None:
    """Return Python's own MemoryError or RecursionError, also out of an exception group; None for any other error."""
    if isinstance(error, builtins.MemoryError | RecursionError):
        return error
    if isinstance(error, BaseExceptionGroup):
        return next((fatal for each in error.exceptions if (fatal := fatal_in(each)) is not None), None)
    return None
