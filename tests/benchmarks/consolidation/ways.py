"""The ways to shrink an agent's memories that are compared."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from memcore.backends.factory import WorkerBackend
from memcore.config.maintenance import (
    ArchivalConfig,
    CondenseConfig,
    ConsolidationConfig,
    ConsolidationStrategyType,
    DualModeConfig,
)
from memcore.maintenance.consolidation.condense import CondensingOp
from memcore.maintenance.consolidation.strategy import (
    BYTES_PER_TOKEN,
    ChunkLimits,
    CompositeConsolidationStrategy,
    ConcatenationOp,
    ConsolidationOp,
    HighestRelevanceSelector,
    SummaryCandidate,
)
from memcore.records import MemoryRecord

#: Makes a strategy for one agent whose memories are given.
Build = Callable[[WorkerBackend, Sequence[MemoryRecord]], Awaitable[CompositeConsolidationStrategy]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One way.

    Attributes:
        name: its row in the table.
        key: part of its agents' names.
        share: of the tokens that shall be left; None leaves what comes of it.
        build: makes its strategy; None removes the oldest instead.
        policy: a policy to follow as it stands, instead of a strategy.
        by_run: a run for each day that has become old enough, not one run for all.
    """

    name: str
    key: str
    share: float | None = None
    build: Build | None = None
    policy: ConsolidationConfig | None = None
    by_run: bool = False


def condensing(share: float) -> ConsolidationConfig:
    """Return the default policy, told what to keep; a run may take everything at once."""
    return ConsolidationConfig(
        strategy=ConsolidationStrategyType.CONDENSE, max_removed_fraction=1.0, condense=CondenseConfig(keep_share=share)
    )


def unread(share: float) -> Build:
    """Return the default strategy without the words of the agent's other memories."""

    async def build(_backend: WorkerBackend, _records: Sequence[MemoryRecord]) -> CompositeConsolidationStrategy:
        return _strategy(CondensingOp(keep_share=share), target_tokens=CondenseConfig().target_tokens)

    return build


def concatenation(share: float | None) -> Build:
    """Return the strategy that keeps the beginnings, so short that the share is met; None leaves them at 200."""

    async def build(_backend: WorkerBackend, records: Sequence[MemoryRecord]) -> CompositeConsolidationStrategy:
        if share is None:
            return _strategy(ConcatenationOp())
        low, high = 1, 2_000
        while low < high:
            middle = (low + high + 1) // 2
            if await tokens_left(_strategy(ConcatenationOp(max_entry_chars=middle)), records) <= share * tokens(
                records
            ):
                low = middle
            else:
                high = middle - 1
        return _strategy(ConcatenationOp(max_entry_chars=low))

    return build


def own_ways() -> list[Variant]:
    """Return the ways that need no model."""
    return [
        *(
            way
            for key, share in (("50", 0.5), ("25", 0.25))
            for way in (
                Variant(name="condense", key=f"condense-{key}", share=share, policy=condensing(share)),
                Variant(
                    name="condense, a run for each day",
                    key=f"nights-{key}",
                    share=share,
                    policy=condensing(share),
                    by_run=True,
                ),
                Variant(
                    name="concatenation, cut to the share", key=f"simple-{key}", share=share, build=concatenation(share)
                ),
                Variant(name="oldest removed first", key=f"oldest-{key}", share=share),
            )
        ),
        Variant(
            name="condense, rarity in the sources alone",
            key="alone",
            share=0.5,
            build=unread(0.5),
        ),
        Variant(name="concatenation as shipped (200 characters)", key="shipped", build=concatenation(None)),
    ]


def modelled(model: str) -> list[Variant]:
    """Return the ways that ask a language model."""
    dual_mode = ArchivalConfig(age_threshold_days=1, dual_mode=DualModeConfig(enabled=True, summarization_model=model))
    return [
        Variant(
            name=f"{strategy}, {model}",
            key=str(strategy),
            policy=ConsolidationConfig(strategy=strategy, max_removed_fraction=1.0, archival=dual_mode),
        )
        for strategy in (ConsolidationStrategyType.DUAL_MODE, ConsolidationStrategyType.LLM)
    ]


async def tokens_left(strategy: CompositeConsolidationStrategy, records: Sequence[MemoryRecord]) -> int:
    """Return the tokens that a strategy would leave of these memories."""
    by_id = {record.entry.id: record for record in records}
    left = tokens(records)
    for part in strategy.parts(SummaryCandidate.of(record) for record in records):
        sources = [by_id[member.id] for member in part.members]
        left += text_tokens((await strategy.write(sources)).content) - tokens(sources)
    return left


def tokens(records: Sequence[MemoryRecord]) -> int:
    """Return the estimated tokens of the texts."""
    return sum(text_tokens(record.entry.content) for record in records)


def text_tokens(text: str) -> int:
    """Return the estimated tokens of a text, as consolidation counts them."""
    return -(-len(text.encode()) // BYTES_PER_TOKEN)


def _strategy(op: ConsolidationOp, *, target_tokens: int | None = None) -> CompositeConsolidationStrategy:
    limits = ChunkLimits(target_tokens=target_tokens)
    return CompositeConsolidationStrategy(HighestRelevanceSelector(), op, name="measured", limits=limits)
