"""Removals by rule and on request: what has ended, expired or is too old, pruned lessons, one memory by its id."""

import logging
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter

from memcore import errors
from memcore.backends.protocol import pages
from memcore.config.maintenance import PruningConfig
from memcore.errors import LeaseLostError, MaintenancePausedError
from memcore.ledger.journal import EntryReason, Journal
from memcore.ledger.runs import EndKind
from memcore.maintenance.removals import JournaledStore
from memcore.maintenance.rules import MOMENT, AgentSnapshot, end_filter, find_ended_scopes
from memcore.models.memory import MemoryCategory
from memcore.records import Where
from memcore.telemetry.events import Event

_log = logging.getLogger(__name__)


async def apply_retention(store: JournaledStore) -> None:
    """Remove all memories that are ended, expired or too old, in entries of one page each.

    A filter that fails stops no other; its error is raised at the end, so that a retry finds only its memories.
    """
    failures: list[errors.MemoryError] = []
    snapshot = replace(store.snapshot, ended_scopes=await find_ended_scopes(store.snapshot))
    for reason, where in snapshot.due():
        try:
            await _remove_all(store, reason, where)
        except (LeaseLostError, MaintenancePausedError):
            raise
        except errors.MemoryError as error:
            facts = {"agent_id": where.agent_id, "categories": sorted(where.categories or ())}
            _log.warning(Event.CONSOLIDATION_RETENTION_FAILED, extra={**facts, "error_type": type(error).__name__})
            failures.append(error)
    if failures:
        raise failures[0]


async def apply_end(store: JournaledStore, kind: EndKind) -> None:
    """Remove the memories that end with the scope and were made before the end was requested.

    A person or engine requests it, so neither the removal guard nor the hold of an undo applies.
    """
    run = store.run
    await _remove_all(store, "ended", end_filter(store.snapshot, kind, run.scope_id or "", at=run.planned_at))


async def _remove_all(store: JournaledStore, reason: EntryReason, where: Where) -> None:
    removed = 0
    async for page in pages(store.snapshot.backend, where):
        removed += await store.remove(where, [record.entry.id for record in page], reason=reason)
    facts = {"agent_id": where.agent_id, "reason": reason, "removed": removed}
    _log.info(Event.CONSOLIDATION_RETENTION_COMPLETE, extra=facts)


async def apply_removal(store: JournaledStore, journal: Journal) -> str | None:
    """Remove the memory ``scope_id``, whatever its rules; one that was stored anew since stays.

    Only the journal keeps it, not the archive: once its entry expires, the memory is gone. Returns one sentence why
    nothing was done; None when it was removed.
    """
    run = store.run
    if journal.next_seq(run.run_id):
        # An earlier attempt decided, and the journaled store has executed it.
        return None
    where = Where(agent_id=run.agent_id, created_before=run.planned_at + MOMENT)
    removed = await store.remove(where, [run.scope_id or ""], reason="deleted")
    return None if removed else f"memory {run.scope_id} is not there any more"


@dataclass(frozen=True, slots=True, kw_only=True)
class WeighedLesson:
    """A lesson without its text, for an agent may have thousands; it is as old as the last task that taught it."""

    id: str
    created_at: datetime
    tasks: int = 1
    relevance_score: float = 0.0


def to_prune(entries: Sequence[WeighedLesson], config: PruningConfig, *, now: datetime) -> tuple[str, ...]:
    """Return the ids that the policy forgets, in the order of the entries.

    ``hybrid`` forgets by age first, and what is left down to ``max_entries``.
    """
    gone: set[str] = set()
    if config.type in {"ttl", "hybrid"}:
        gone.update(expired(entries, max_age=timedelta(days=config.max_age_days), now=now))
    if config.type in {"pareto", "hybrid"}:
        gone.update(surpassed([each for each in entries if each.id not in gone], max_entries=config.max_entries))
    return tuple(each.id for each in entries if each.id in gone)


def expired(entries: Iterable[WeighedLesson], *, max_age: timedelta, now: datetime) -> tuple[str, ...]:
    """Return the ids of those that are older than ``max_age``; who is exactly as old stays."""
    return tuple(each.id for each in entries if now - each.created_at > max_age)


def surpassed(entries: Sequence[WeighedLesson], *, max_entries: int) -> tuple[str, ...]:
    """Return the ids beyond the best ``max_entries``, so that exactly so many are left, or all if there are fewer.

    An entry beats another that it equals or exceeds in relevance and in recency, and exceeds in one. Layer after layer
    is kept: those that nobody beats, then those that only these beat, and so on; of the layer that does not fit, the
    newest. The reference keeps the first layer alone, which is a single entry when nobody has a relevance.
    """
    layer_of = _layers(entries)
    order = sorted(
        entries, key=lambda each: (layer_of[each.id], -each.created_at.timestamp(), -each.relevance_score, each.id)
    )
    kept = {each.id for each in order[:max_entries]}
    return tuple(each.id for each in entries if each.id not in kept)


def _layers(entries: Sequence[WeighedLesson]) -> dict[str, int]:
    """Return the layer of each: the length of the longest chain of entries of which each beats the next, up to it."""
    layer_of: dict[str, int] = {}
    # The highest relevance of each layer so far, negated: it never falls from one layer to the next.
    tops: list[float] = []
    # Newest first: an entry that beats another comes before it.
    place = attrgetter("created_at", "relevance_score")
    for (_, relevance), equals in groupby(sorted(entries, key=place, reverse=True), key=place):
        layer = bisect_right(tops, -relevance)
        if layer == len(tops):
            tops.append(-relevance)
        else:
            tops[layer] = -relevance
        layer_of.update({each.id: layer for each in equals})
    return layer_of


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
    found: list[WeighedLesson] = []
    async for page in pages(snapshot.backend, wanted):
        staying = [record.entry for record in page if snapshot.survives_retention(record)]
        found.extend(WeighedLesson(id=each.id, created_at=each.created_at) for each in staying)
    if not found:
        return ()
    found = _taught(snapshot, found)
    if config.type != "ttl":
        found = _ranked(snapshot, found)
    return to_prune(found, config, now=snapshot.now)


async def apply_pruning(store: JournaledStore) -> None:
    """Remove the pruned lessons, in entries of one page each; one that was pinned meanwhile stays."""
    if pruned := await find_pruned(store.snapshot):
        removed = await store.remove(_prunable(store.snapshot), pruned, reason="pruned")
        _log.info(Event.PROCEDURAL_PRUNING_COMPLETE, extra={"agent_id": store.run.agent_id, "removed": removed})


def _prunable(snapshot: AgentSnapshot) -> Where:
    return Where(
        agent_id=snapshot.agent_id,
        categories=frozenset({MemoryCategory.PROCEDURAL}),
        lessons=True,
        without_tags=snapshot.kept_tags,
        without_ids=snapshot.protected_by_undo,
    )


async def _checked_at(snapshot: AgentSnapshot, config: PruningConfig, lessons: Where) -> Where | None:
    """Return the lessons to read, or None when the store's counts say that all of them stay."""
    aged = lessons.model_copy(update={"created_before": snapshot.now - timedelta(days=config.max_age_days)})
    if config.type == "ttl":
        return aged
    if await snapshot.backend.count_where(lessons) > config.max_entries:
        return lessons
    return aged if config.type == "hybrid" and await snapshot.backend.count_where(aged) else None


def _taught(snapshot: AgentSnapshot, found: Sequence[WeighedLesson]) -> list[WeighedLesson]:
    """Return the lessons with what taught them: a task that taught one again keeps it young."""
    taught = snapshot.ledger.lessons.taught(snapshot.company, snapshot.agent_id, [each.id for each in found])
    return [
        replace(each, created_at=max(each.created_at, again.last_at), tasks=again.tasks)
        if (again := taught.get(each.id))
        else each
        for each in found
    ]


def _ranked(snapshot: AgentSnapshot, found: Sequence[WeighedLesson]) -> list[WeighedLesson]:
    """Rank lessons by their outcomes: what surely helps most, then what may help most, then by tasks and uses."""
    ids = [each.id for each in found]
    applied = snapshot.ledger.skills.applications(snapshot.company, ids)
    used = snapshot.ledger.uses.of(snapshot.company, snapshot.agent_id, ids)

    def use_of(lesson: WeighedLesson) -> tuple[float, float, int, int]:
        times, shown = applied.get(lesson.id), used.get(lesson.id)
        bounds = times.bounds if times else (0.0, 1.0)
        return *bounds, lesson.tasks, shown.uses if shown else 0

    # Only the order matters, so a rank replaces the four figures.
    order = {use: rank for rank, use in enumerate(sorted({use_of(each) for each in found}))}
    return [replace(each, relevance_score=float(order[use_of(each)])) for each in found]
