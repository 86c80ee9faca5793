"""Consolidation strategies: a selector with an op; and the questions that an op asks a model."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from memcore.llm.protocol import CompletionRequest
from memcore.maintenance.consolidation.selection import ChunkLimits, EntrySelector, SummaryCandidate, SummaryGroup
from memcore.models.archival import ArchivalMode
from memcore.records import MemoryRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryDraft:
    """The text of a summary, and how it was made.

    Attributes:
        tags: say how it was made, beside those of its sources.
        mode: how its sources are archived: abstractive where a model wrote the text; None for word by word.
    """

    content: str
    tags: tuple[str, ...] = ()
    mode: ArchivalMode | None = None


class ConsolidationOp(Protocol):
    """Writes the text of one summary; the journaled store stores and deletes."""

    async def write(self, sources: Sequence[MemoryRecord], *, kept: MemoryRecord | None = None) -> SummaryDraft:
        """Return a text that replaces the sources.

        Args:
            sources: of one category, oldest first; they will be removed.
            kept: the memory of their group that stays; None when it is gone or the group has none.
        """
        ...


class ConsolidationStrategy(Protocol):
    """Chooses the memories to merge and writes their summary; it never touches the store."""

    @property
    def name(self) -> str:
        """Part of the summaries' ids: two strategies never claim the same summary."""
        ...

    def parts(self, members: Iterable[SummaryCandidate]) -> Iterator[SummaryGroup]:
        """Yield the memories behind each summary; no member is in two."""
        ...

    async def write(self, sources: Sequence[MemoryRecord], *, kept: MemoryRecord | None = None) -> SummaryDraft:
        """Return the summary's text.

        Raises:
            AnswerMissingError: a model has to be asked first.
        """
        ...


class CompositeConsolidationStrategy:
    """A strategy of a selector and an op.

    Args:
        selector: which memories are merged.
        op: writes the summary.
        limits: how many memories one summary replaces.
        name: distinguishes its summaries from those of another pair.
    """

    def __init__(
        self, selector: EntrySelector, op: ConsolidationOp, *, name: str, limits: ChunkLimits | None = None
    ) -> None:
        self._selector = selector
        self._op = op
        self._limits = limits or ChunkLimits()
        self._name = name

    @property
    def name(self) -> str:
        """The name given."""
        return self._name

    def parts(self, members: Iterable[SummaryCandidate]) -> Iterator[SummaryGroup]:
        """Yield what the selector removes, cut to the limits."""
        for group in self._selector.select(members):
            for cut in self._limits.cut(group.removed):
                yield SummaryGroup(members=cut, kept=group.kept)

    async def write(self, sources: Sequence[MemoryRecord], *, kept: MemoryRecord | None = None) -> SummaryDraft:
        """Return what the op writes."""
        return await self._op.write(sources, kept=kept)


#: Most characters of an answer for each token that it may have: no tokenizer makes longer tokens on average, so a
#: longer answer comes from a server that heeds no limit.
_CHARS_PER_TOKEN = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question to a model; questions of the same purpose, model and subject have one answer.

    Attributes:
        purpose: what for, as ``system:memory:consolidate:semantic``.
        model: who is asked; None takes the provider's default.
        about: all that the answer depends on: ids and digests of texts, never the texts.
        max_tokens: longest answer.
        request: makes the prompt; called only when the model is really asked.
    """

    purpose: str
    model: str | None
    about: tuple[str, ...]
    max_tokens: int
    request: Callable[[], Awaitable[CompletionRequest]]

    @property
    def max_chars(self) -> int:
        """Longest text that counts as an answer."""
        return self.max_tokens * _CHARS_PER_TOKEN


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The answer to a question, or the reason why there is none.

    Attributes:
        text: the answer, stripped and not blank; None when there is none that can be used.
        reason: why there is none.
    """

    text: str | None = None
    reason: str = ""


class AnswerSource(Protocol):
    """Answers an op's questions: from the ledger in a maintenance run, from a model in a synthesis job."""

    async def ask(self, question: Question) -> Reply:
        """Return the reply to the question.

        Raises:
            AnswerMissingError: the model has not been asked yet, or is being asked now.
            ProviderError: the model's server refuses, and will again.
            BudgetExceededError: the agent has nothing left today.
        """
        ...
