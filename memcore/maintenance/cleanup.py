"""The retention step: memories whose time is over go, category by category."""

import logging
from collections.abc import Iterator
from dataclasses import replace

from memcore.backends.where import Where
from memcore.errors import LeaseLostError, MaintenancePausedError, MemoryError  # noqa: A004  # the reference's name
from memcore.ledger.booking import BookingReason
from memcore.maintenance.attempt import Attempt, View
from memcore.maintenance.events import MaintenanceEvent
from memcore.maintenance.over import find_over
from memcore.maintenance.pages import pages
from memcore.maintenance.retention import aged_filters, expired_filter

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
