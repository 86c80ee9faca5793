"""Where and MemoryQuery as tests on one memory, for backends that hold their memories in the process."""

from datetime import datetime

from memcore.backends.record import MemoryRecord
from memcore.backends.where import Where
from memcore.models import MemoryEntry, MemoryQuery


def is_expired(entry: MemoryEntry, now: datetime) -> bool:
    """Return whether the entry's expiry has come."""
    return entry.expires_at is not None and entry.expires_at <= now


def is_match(where: Where, record: MemoryRecord, mark: str | None) -> bool:
    """Return whether a record meets every condition but the owner's; ``mark`` is the claim mark that it carries."""
    entry = record.entry
    return (
        _is_in(where, entry)
        and _is_tagged(where, entry)
        and _is_dated(where, entry)
        and _is_placed(where, record)
        and where.lessons in {None, record.is_lesson}
        and where.token in {None, mark}
    )


def is_hit(query: MemoryQuery, entry: MemoryEntry, now: datetime) -> bool:
    """Return whether an entry answers a query: its filters, its text as a substring whatever the case, not expired."""
    return (
        not is_expired(entry, now)
        and (query.text is None or query.text.casefold() in entry.content.casefold())
        and (query.namespaces is None or entry.namespace in query.namespaces)
        and (query.categories is None or entry.category in query.categories)
        and set(query.tags) <= set(entry.metadata.tags)
        and (query.since is None or entry.created_at >= query.since)
        and (query.until is None or entry.created_at < query.until)
    )


def _is_in(where: Where, entry: MemoryEntry) -> bool:
    return (
        (where.categories is None or entry.category in where.categories)
        and (where.namespaces is None or entry.namespace in where.namespaces)
        and (where.ids is None or entry.id in where.ids)
        and entry.id not in where.without_ids
    )


def _is_tagged(where: Where, entry: MemoryEntry) -> bool:
    tags = set(entry.metadata.tags)
    return set(where.tags) <= tags and tags.isdisjoint(where.without_tags)


def _is_dated(where: Where, entry: MemoryEntry) -> bool:
    return (
        (where.created_since is None or entry.created_at >= where.created_since)
        and (where.created_before is None or entry.created_at < where.created_before)
        and (where.expires_by is None or is_expired(entry, where.expires_by))
    )


def _is_placed(where: Where, record: MemoryRecord) -> bool:
    lineage = record.lineage
    return (
        where.session_id in {None, lineage.session_id}
        and where.project_id in {None, lineage.project_id}
        and where.task_id in {None, lineage.task_id}
        and (where.outside is None or getattr(lineage, where.outside) is None)
    )
