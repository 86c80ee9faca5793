"""A strategy is a selector and an op; any pair is as valid as the shipped ones."""

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
    """Turn memories into the text of one summary; storing and deleting is the journaled store's."""

    async def write(self, sources: Sequence[MemoryRecord], *, kept: MemoryRecord | None = None) -> SummaryDraft:
        """Return a text that stands for the sources.

        Args:
            sources: of one category, oldest first; they will be removed.
            kept: the memory of their group that stays; None when it is gone or the group has none.
        """
        ...


class ConsolidationStrategy(Protocol):
    """Say what is merged and what the summary reads; it never touches the store."""

    @property
    def name(self) -> str:
        """Part of the summaries' ids: two strategies never claim the same summary."""
        ...

    def parts(self, members: Iterable[SummaryCandidate]) -> Iterator[SummaryGroup]:
        """Yield what stands behind each summary; no member stands in two."""
        ...

    async def write(self, sources: Sequence[MemoryRecord], *, kept: MemoryRecord | None = None) -> SummaryDraft:
        """Return the summary's text.

        Raises:
            AnswerMissingError: a model has to be asked first.
        """
        ...


class CompositeConsolidationStrategy:
    """Pair a selector with an op.

    Args:
        selector: which memories are merged.
        op: what becomes of them.
        limits: how many stand behind one summary.
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
    """One question; two with the same purpose, model and subject are one, and have one answer.

    Attributes:
        purpose: what for, as ``system:memory:consolidate:semantic``.
        model: whose answer; None takes the provider's default.
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
    """What came of a question.

    Attributes:
        text: the answer, stripped and not blank; None when there is none that can be used.
        reason: why there is none.
    """

    text: str | None = None
    reason: str = ""


class AnswerSource(Protocol):
    """Where an op gets its answers: the ledger in a maintenance run, a model in the job that asks."""

    async def ask(self, question: Question) -> Reply:
        """Return what came of the question.

        Raises:
            AnswerMissingError: the model has not been asked yet, or is being asked now.
            ProviderError: the model's server refuses, and will again.
            BudgetExceededError: the agent has nothing left today.
        """
        ...
