"""A consolidation strategy of your own: a summary keeps the first sentence of each memory. Needs no stack.

A package offers it to every worker by an entry point, and the policy names it: ``consolidation.strategy: headlines``::

    [project.entry-points."memtend.consolidation"]
    headlines = "our_package.memories:headlines"
"""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from memcore import (
    CompositeConsolidationStrategy,
    ConsolidationConfig,
    ConsolidationDeps,
    HighestRelevanceSelector,
    MemoryCategory,
    MemoryEntry,
    MemoryRecord,
    SummaryCandidate,
    SummaryDraft,
)


class HeadlineOp:
    """Write a summary of the first sentences; memtend journals, archives, stores and deletes around it."""

    async def write(self, sources: Sequence[MemoryRecord], *, kept: MemoryRecord | None = None) -> SummaryDraft:
        """Return the text that stands for the sources, which are of one category, oldest first."""
        del kept  # the memory of the group that stays
        return SummaryDraft(
            content="\n".join(first_sentence(each.entry.content) for each in sources), tags=("headlines",)
        )


def first_sentence(text: str) -> str:
    """Return a text up to its first full stop."""
    head, stop, _ = text.partition(". ")
    return head + stop.rstrip()


def headlines(deps: ConsolidationDeps) -> CompositeConsolidationStrategy:
    """Build the strategy: the entry point names this function."""
    selector = HighestRelevanceSelector(group_threshold=deps.policy.group_threshold)
    return CompositeConsolidationStrategy(selector, HeadlineOp(), name="headlines")


def memory(number: int, text: str) -> MemoryRecord:
    """Return a memory as a maintenance run reads it."""
    made = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number)
    return MemoryRecord(
        entry=MemoryEntry(
            id=f"memory-{number}", agent_id="oncall", category=MemoryCategory.EPISODIC, content=text, created_at=made
        )
    )


async def main() -> None:
    texts = (
        "The import stopped at row 4711. The disk was full.",
        "The import ran through. It took an hour.",
        "The import stopped again. A column was missing.",
        "The import ran through again. It took two hours.",
    )
    records = {record.entry.id: record for record in map(memory, range(len(texts)), texts)}
    strategy = headlines(ConsolidationDeps(policy=ConsolidationConfig()))
    for part in strategy.parts(map(SummaryCandidate.of, records.values())):
        draft = await strategy.write([records[member.id] for member in part.members])
        print(f"{len(part.members)} memories become one summary:\n{draft.content}")


if __name__ == "__main__":
    asyncio.run(main())
