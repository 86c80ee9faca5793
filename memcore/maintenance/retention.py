"""The retention step: removes memories that are ended, expired or too old, and lessons that are pruned."""

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
from memcore.ledger.journal import EntryReason
from memcore.maintenance.consolidation.selection import MAX_ENTRY
from memcore.maintenance.context import AgentSnapshot, RunContext
from memcore.maintenance.enforcement import PROTECTED_FROM_ENFORCEMENT
from memcore.maintenance.events import MaintenanceEvent
from memcore.maintenance.rules import aged_filters, expired_filter, find_ended_scopes
from memcore.models.memory import MemoryCategory
from memcore.procedural.pruning import to_prune
from memcore.records import Where

_log = logging.getLogger(__name__)


def rules(snapshot: AgentSnapshot) -> Iterator[tuple[EntryReason, Where]]:
    """Yield every filter of the step: ended scopes, own expiries, then each category that has a rule."""
    for where in snapshot.ended_scopes.filters(snapshot.agent_id, protected_by_undo=snapshot.protected_by_undo):
        yield "ended", where
    yield "expired", expired_filter(snapshot.agent_id, snapshot.now, protected_by_undo=snapshot.protected_by_undo)
    for where in aged_filters(
        snapshot.agent_id, snapshot.retention_cutoffs, protected_by_undo=snapshot.protected_by_undo
    ).values():
        yield "retention", where


async def apply_retention(run_context: RunContext) -> None:
    """Remove all memories that are ended, expired or too old, in entries of one page each.

    A filter that fails stops no other; its error is raised at the end, so that a retry finds only its memories.
    """
    failures: list[MemoryError] = []
    snapshot = replace(run_context.snapshot, ended_scopes=await find_ended_scopes(run_context.snapshot))
    for reason, where in rules(snapshot):
        try:
            await remove_all(run_context, reason, where)
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


async def remove_all(run_context: RunContext, reason: EntryReason, where: Where) -> None:
    """Remove every match, in entries of one page each."""
    removed = 0
    async for page in pages(run_context.snapshot.backend, where):
        ids = frozenset(record.entry.id for record in page)
        entry_counts = await run_context.journaled_store.remove(where.model_copy(update={"ids": ids}), reason=reason)
        removed += entry_counts.outgoing
    _log.info(
        MaintenanceEvent.RETENTION_COMPLETED,
        extra={"agent_id": where.agent_id, "reason": reason, "removed": removed},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Weighed:
    """A lesson in the ranking, without its text: an agent may have thousands."""

    id: str
    created_at: datetime
    relevance_score: float | None = None


async def find_pruned(snapshot: AgentSnapshot) -> tuple[str, ...]:
    """Return the ids of the lessons to prune, oldest first; where there is none, the store only counts.

    Pinned lessons, and those that an undo has just brought back, are neither counted nor pruned.
    """
    config, lessons = snapshot.pruning, _prunable(snapshot)
    if config is None:
        return ()
    wanted = await _checked_at(snapshot, config, lessons)
    if wanted is None:
        return ()
    survives_retention, found = snapshot.survives_retention, list[_Weighed]()
    async for page in pages(snapshot.backend, wanted):
        found.extend(
            _Weighed(id=each.entry.id, created_at=each.entry.created_at) for each in page if survives_retention(each)
        )
    if config.type != "ttl":
        found = _ranked(snapshot, found)
    return to_prune(found, config, now=snapshot.now)


async def apply_pruning(run_context: RunContext) -> None:
    """Remove the pruned lessons, in entries of one page each; one that was pinned meanwhile stays."""
    snapshot, removed = run_context.snapshot, 0
    pruned = await find_pruned(snapshot)
    for start in range(0, len(pruned), MAX_ENTRY):
        ids = frozenset(pruned[start : start + MAX_ENTRY])
        entry_counts = await run_context.journaled_store.remove(
            _prunable(snapshot).model_copy(update={"ids": ids}), reason="pruned"
        )
        removed += entry_counts.outgoing
    if pruned:
        _log.info(MaintenanceEvent.PRUNED, extra={"agent_id": snapshot.agent_id, "removed": removed})


def _prunable(snapshot: AgentSnapshot) -> Where:
    return Where(
        agent_id=snapshot.agent_id,
        categories=frozenset({MemoryCategory.PROCEDURAL}),
        lessons=True,
        without_tags=PROTECTED_FROM_ENFORCEMENT,
        without_ids=snapshot.protected_by_undo,
    )


async def _checked_at(snapshot: AgentSnapshot, config: PruningConfig, lessons: Where) -> Where | None:
    """Return the lessons to read, or None when the store's counts say that all of them stay."""
    aged = lessons.model_copy(update={"created_before": snapshot.now - timedelta(days=config.max_age_days)})
    if config.type == "ttl":
        return aged
    old = await snapshot.backend.count_where(aged) if config.type == "hybrid" else 0
    if await snapshot.backend.count_where(lessons) - old > config.max_entries:
        return lessons
    return aged if old else None


def _ranked(snapshot: AgentSnapshot, found: Sequence[_Weighed]) -> list[_Weighed]:
    """Rank lessons by their outcomes: most successes, then fewest failures, then most uses."""
    ids: Collection[str] = [each.id for each in found]
    applied, used = snapshot.applications(ids), snapshot.uses(ids)

    def use_of(memory_id: str) -> tuple[int, int, int]:
        times, shown = applied.get(memory_id), used.get(memory_id)
        successes = times.successes if times else 0
        return successes, successes - (times.applications if times else 0), shown.uses if shown else 0

    # Only the order matters, so a rank replaces the three figures.
    order = {use: rank for rank, use in enumerate(sorted({use_of(each) for each in ids}))}
    return [replace(each, relevance_score=float(order[use_of(each.id)])) for each in found]
