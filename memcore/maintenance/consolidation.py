"""The consolidation step: groups of old memories become summaries, one booking a summary."""

import logging
from collections.abc import AsyncIterator

from memcore.backends.record import MemoryRecord
from memcore.backends.where import Where
from memcore.maintenance.attempt import Attempt, View
from memcore.maintenance.eligibility import CONSOLIDATED_CATEGORIES
from memcore.maintenance.events import MaintenanceEvent
from memcore.maintenance.member import Member
from memcore.maintenance.pages import pages
from memcore.maintenance.strategy import ConsolidationStrategy
from memcore.maintenance.summary import summary_record

#: Fewer sources than this need no summary: the others were changed or removed since they were chosen.
_LEAST_SOURCES = 2

_log = logging.getLogger(__name__)


async def chunks(view: View, strategy: ConsolidationStrategy) -> AsyncIterator[tuple[Where, tuple[Member, ...]]]:
    """Yield what stands behind each summary, with the filter that its members met; one category at a time."""
    eligibility = view.eligibility
    for category in CONSOLIDATED_CATEGORIES:
        where = eligibility.where(view.agent_id, category)
        if where is None:
            continue
        members: list[Member] = []
        async for page in pages(view.backend, where):
            members.extend(Member.of(record) for record in page if eligibility.allows(record))
        for chunk in strategy.chunks(members):
            yield where, chunk


async def apply_consolidation(attempt: Attempt, strategy: ConsolidationStrategy) -> None:
    """Replace each chunk by its summary; a chunk that has shrunk to one since it was chosen stays as it is."""

    async def replace(sources: tuple[MemoryRecord, ...]) -> MemoryRecord | None:
        if len(sources) < _LEAST_SOURCES:
            return None
        draft = await strategy.write(sources)
        return summary_record(sources, draft, company=attempt.view.company, strategy=strategy.name)

    removed = summaries = 0
    async for where, chunk in chunks(attempt.view, strategy):
        ids = frozenset(member.id for member in chunk)
        booked = await attempt.books.remove(
            where.model_copy(update={"ids": ids}), reason="consolidated", replace=replace
        )
        removed += booked.outgoing
        summaries += booked.incoming
    _log.info(
        MaintenanceEvent.STRATEGY_COMPLETED,
        extra={
            "agent_id": attempt.view.agent_id,
            "strategy": strategy.name,
            "removed": removed,
            "summaries": summaries,
        },
    )
