"""The retention step: memories whose time is over go, category by category."""

import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from memcore.backends.protocol import pages
from memcore.config.maintenance import PruningConfig
from memcore.errors import (
    LeaseLostError,
    MaintenancePausedError,
    MemoryError,  # noqa: A004  # the reference's name
)
from memcore.ledger.journal_entries import BookingReason
from memcore.maintenance.consolidation.selection import MAX_BOOKING
from memcore.maintenance.context import Attempt, View
from memcore.maintenance.enforcement import PROTECTED_FROM_ENFORCEMENT
from memcore.maintenance.events import MaintenanceEvent
from memcore.maintenance.rules import aged_filters, expired_filter, find_over
from memcore.models.memory import MemoryCategory
from memcore.procedural.pruning import to_prune
from memcore.records import Where

_log = logging.getLogger(__name__)


def rules(view: View) -> Iterator[tuple[BookingReason, Where]]:
    """Yield every filter of the step: what is over, then what expires by itself, then each category that has a rule."""
    for where in view.over.filters(view.agent_id, held=view.held):
        yield "ended", where
    yield "expired", expired_filter(view.agent_id, view.now, held=view.held)
    for where in aged_filters(view.agent_id, view.cutoffs, held=view.held).values():
        yield "retention", where


async def apply_retention(attempt: Attempt) -> None:
    """Remove what is over, too old or expired, all of it, in bookings of one page each.

    A filter that fails stops no other; its error is raised at the end, so that the step is done again and the
    retry finds only its memories left.
    """
    failures: list[MemoryError] = []
    view = replace(attempt.view, over=await find_over(attempt.view))
    for reason, where in rules(view):
        try:
            await remove_all(attempt, reason, where)
        except (LeaseLostError, MaintenancePausedError):
            raise
        except MemoryError as error:
            _log.warning(
                MaintenanceEvent.RETENTION_FAILED,
                extra={
                    "agent_id": where.agent_id,
                    "categories": sorted(where.categories or ()),
                    "error_type": type(error).__name__,
                },
            )
            failures.append(error)
    if failures:
        raise failures[0]


async def remove_all(attempt: Attempt, reason: BookingReason, where: Where) -> None:
    """Remove every match, in bookings of one page each."""
    removed = 0
    async for page in pages(attempt.view.backend, where):
        ids = frozenset(record.entry.id for record in page)
        booked = await attempt.books.remove(where.model_copy(update={"ids": ids}), reason=reason)
        removed += booked.outgoing
    _log.info(
        MaintenanceEvent.RETENTION_COMPLETED,
        extra={"agent_id": where.agent_id, "reason": reason, "removed": removed},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Weighed:
    """A lesson without its text: an agent may have thousands."""

    id: str
    created_at: datetime
    relevance_score: float | None = None


async def find_pruned(view: View) -> tuple[str, ...]:
    """Return the lessons that are forgotten, oldest first; where none is, the store counts and shows no memory.

    Lessons that someone has pinned, and those that an undo has just brought back, are neither counted nor taken.
    """
    config, lessons = view.pruning, _forgettable(view)
    if config is None:
        return ()
    wanted = await _looked_at(view, config, lessons)
    if wanted is None:
        return ()
    stays, found = view.stays, list[_Weighed]()
    async for page in pages(view.backend, wanted):
        found.extend(_Weighed(id=each.entry.id, created_at=each.entry.created_at) for each in page if stays(each))
    if config.type != "ttl":
        found = _ranked(view, found)
    return to_prune(found, config, now=view.now)


async def apply_pruning(attempt: Attempt) -> None:
    """Remove the lessons that are forgotten, in bookings of one page each; one that was pinned meanwhile stays."""
    view, removed = attempt.view, 0
    pruned = await find_pruned(view)
    for start in range(0, len(pruned), MAX_BOOKING):
        ids = frozenset(pruned[start : start + MAX_BOOKING])
        booked = await attempt.books.remove(_forgettable(view).model_copy(update={"ids": ids}), reason="pruned")
        removed += booked.outgoing
    if pruned:
        _log.info(MaintenanceEvent.PRUNED, extra={"agent_id": view.agent_id, "removed": removed})


def _forgettable(view: View) -> Where:
    return Where(
        agent_id=view.agent_id,
        categories=frozenset({MemoryCategory.PROCEDURAL}),
        lessons=True,
        without_tags=PROTECTED_FROM_ENFORCEMENT,
        without_ids=view.held,
    )


async def _looked_at(view: View, config: PruningConfig, lessons: Where) -> Where | None:
    """Return which lessons must be looked at, or None when the store's counts say that all of them stay."""
    aged = lessons.model_copy(update={"created_before": view.now - timedelta(days=config.max_age_days)})
    if config.type == "ttl":
        return aged
    old = await view.backend.count_where(aged) if config.type == "hybrid" else 0
    if await view.backend.count_where(lessons) - old > config.max_entries:
        return lessons
    return aged if old else None


def _ranked(view: View, found: Sequence[_Weighed]) -> list[_Weighed]:
    """Weigh lessons by what came of them: successes, then few failures, then how often the agent was shown them."""
    ids: Collection[str] = [each.id for each in found]
    applied, used = view.applications(ids), view.uses(ids)

    def use_of(memory_id: str) -> tuple[int, int, int]:
        times, shown = applied.get(memory_id), used.get(memory_id)
        successes = times.successes if times else 0
        return successes, successes - (times.applications if times else 0), shown.uses if shown else 0

    # Only the order matters, so a rank stands for the three figures.
    order = {use: rank for rank, use in enumerate(sorted({use_of(each) for each in ids}))}
    return [replace(each, relevance_score=float(order[use_of(each.id)])) for each in found]
