"""A strategy is a selector and an op; any pair is as valid as the shipped ones."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from memcore.backends.record import MemoryRecord
from memcore.maintenance.chunks import ChunkLimits
from memcore.maintenance.draft import ConsolidationOp, Draft
from memcore.maintenance.member import Member
from memcore.maintenance.part import Part
from memcore.maintenance.selection import EntrySelector


class ConsolidationStrategy(Protocol):
    """Say what is merged and what the summary reads; it never touches the store."""

    @property
    def name(self) -> str:
        """Part of the summaries' ids: two strategies never claim the same summary."""
        ...

    def parts(self, members: Iterable[Member]) -> Iterator[Part]:
        """Yield what stands behind each summary; no member stands in two."""
        ...

    async def write(self, sources: Sequence[MemoryRecord], *, kept: MemoryRecord | None = None) -> Draft:
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

    def parts(self, members: Iterable[Member]) -> Iterator[Part]:
        """Yield what the selector removes, cut to the limits."""
        for group in self._selector.select(members):
            for cut in self._limits.cut(group.removed):
                yield Part(members=cut, kept=group.kept)

    async def write(self, sources: Sequence[MemoryRecord], *, kept: MemoryRecord | None = None) -> Draft:
        """Return what the op writes."""
        return await self._op.write(sources, kept=kept)
