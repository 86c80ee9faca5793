"""A strategy is a selector and an op; the configuration names the shipped pairs, and any other pair is as valid."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from memcore.backends.record import MemoryRecord
from memcore.config.consolidation import ConsolidationConfig, ConsolidationStrategyType
from memcore.errors import MemoryConfigError
from memcore.maintenance.chunks import ChunkLimits
from memcore.maintenance.concatenation import ConcatenationOp
from memcore.maintenance.draft import ConsolidationOp, Draft
from memcore.maintenance.member import Member
from memcore.maintenance.selection import EntrySelector, HighestRelevanceSelector


class ConsolidationStrategy(Protocol):
    """Say what is merged and what the summary reads; it never touches the store."""

    @property
    def name(self) -> str:
        """Part of the summaries' ids: two strategies never claim the same summary."""
        ...

    def chunks(self, members: Iterable[Member]) -> Iterator[tuple[Member, ...]]:
        """Yield the members behind each summary, of one category, oldest first."""
        ...

    async def write(self, sources: Sequence[MemoryRecord]) -> Draft:
        """Return the summary's text."""
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

    def chunks(self, members: Iterable[Member]) -> Iterator[tuple[Member, ...]]:
        """Yield what the selector removes, cut to the limits."""
        for group in self._selector.select(members):
            yield from self._limits.cut(group.removed)

    async def write(self, sources: Sequence[MemoryRecord]) -> Draft:
        """Return what the op writes."""
        return await self._op.write(sources)


def build_consolidation_strategy(config: ConsolidationConfig) -> ConsolidationStrategy | None:
    """Return the configured strategy; None when nothing is consolidated.

    Raises:
        MemoryConfigError: the strategy needs a language model, and none is connected.
    """
    match config.strategy:
        case ConsolidationStrategyType.NONE:
            return None
        case ConsolidationStrategyType.SIMPLE:
            return CompositeConsolidationStrategy(
                HighestRelevanceSelector(group_threshold=config.selection_threshold),
                ConcatenationOp(),
                name=str(config.strategy),
                limits=ChunkLimits(max_entries=config.group_max_entries, max_tokens=config.group_max_tokens),
            )
        case ConsolidationStrategyType.DUAL_MODE | ConsolidationStrategyType.LLM:
            raise MemoryConfigError(
                f"consolidation.strategy: {config.strategy} needs a completion provider, and this version connects "
                "none; choose simple or none"
            )
