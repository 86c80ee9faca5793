"""Succession: which memory replaced which. What was replaced stays, ranks behind what replaced it, and says so."""

from collections.abc import Sequence
from datetime import datetime

from memcore.backends.protocol import BatchBackend, scanned
from memcore.errors import MemoryInputError
from memcore.models.memory import MAX_SUPERSEDED, MAX_TAGS, SUPERSEDED_TAG, MemoryEntry
from memcore.records import SUCCESSION_KEY, SUPERSEDES_KEY, MemoryRecord, Where


async def current(
    backend: BatchBackend, agent_id: str, entries: Sequence[MemoryEntry], *, now: datetime
) -> tuple[MemoryEntry, ...]:
    """Return the entries as they stand: each is superseded only while what replaced it is there, and has not expired.

    What takes the successor's place, such as its next version or what it was merged into, supersedes in its stead. The
    mark in the store stays, so that a successor that is brought back supersedes again. Raises MemoryRetrievalError.
    """
    marked = {entry.id: entry.superseded_by for entry in entries if entry.superseded_by is not None}
    if not marked:
        return tuple(entries)
    named = sorted({successor for successor in marked.values() if successor is not None})
    there = {each.entry.id for each in await backend.get_many(agent_id, named) if _is_there(each.entry, now)}
    found: dict[str, str | None] = {key: by for key, by in marked.items() if by in there}
    if orphans := marked.keys() - found.keys():
        async for page in scanned(backend, Where(agent_id=agent_id, supersedes=frozenset(orphans))):
            for record in page:
                if _is_there(record.entry, now):
                    found |= dict.fromkeys(orphans.intersection(record.supersedes), record.entry.id)
    return tuple(
        entry if entry.superseded_by == found.get(entry.id) else _standing(entry, found.get(entry.id))
        for entry in entries
    )


def _is_there(entry: MemoryEntry, now: datetime) -> bool:
    return entry.expires_at is None or entry.expires_at > now


def _standing(entry: MemoryEntry, successor: str | None) -> MemoryEntry:
    if successor is not None:
        return entry.model_copy(update={"superseded_by": successor})
    tags = tuple(tag for tag in entry.metadata.tags if tag != SUPERSEDED_TAG)
    metadata = entry.metadata.model_copy(update={"tags": tags})
    return entry.model_copy(update={"superseded_by": None, "superseded_at": None, "metadata": metadata})


async def mark_superseded(backend: BatchBackend, successor: MemoryRecord) -> int:
    """Mark the memories that a stored memory replaces, and return how many of those that it names there are.

    Of two that replace one memory the newer is its successor, in whatever order they come. To do it again changes
    nothing. Raises MemoryRetrievalError, MemoryStoreError, MemoryConnectionError.
    """
    new = successor.entry
    known = await backend.get_many(new.agent_id, successor.supersedes)
    for record in known:
        old = record.entry
        if old.id == new.id or (old.superseded_at is not None and old.superseded_at > new.last_stated_at):
            continue
        if old.stated_at is not None and old.stated_at > new.last_stated_at:
            continue  # it was said again since
        if old.superseded_by != new.id:
            tags = old.metadata.tags if len(old.metadata.tags) == MAX_TAGS else (*old.metadata.tags, SUPERSEDED_TAG)
            await backend.set_metadata_many(
                old.agent_id,
                [old.id],
                old.metadata.model_copy(update={"tags": tuple(dict.fromkeys(tags))}),
                extra={SUCCESSION_KEY: {"by": new.id, "at": new.last_stated_at.timestamp()}},
            )
    return len(known)


async def inherit(backend: BatchBackend, agent_id: str, old_id: str, new_id: str) -> None:
    """Let what takes a memory's place supersede what that superseded. Raises as mark_superseded."""
    known = {each.entry.id: each for each in await backend.get_many(agent_id, [old_id, new_id])}
    if old_id in known and new_id in known and (replaced := known[old_id].supersedes):
        new = known[new_id]
        every = list(dict.fromkeys((*replaced, *new.supersedes)))[-MAX_SUPERSEDED:]
        await backend.set_metadata_many(agent_id, [new_id], new.entry.metadata, extra={SUPERSEDES_KEY: every})


async def supersede(backend: BatchBackend, old: MemoryRecord, new: MemoryRecord) -> None:
    """Let one stored memory of an agent replace another.

    Raises MemoryInputError where they are one, or the old one replaced the new; else as mark_superseded does.
    """
    if await is_replaced_by(backend, new, old.entry.id):
        raise MemoryInputError("new_id", "is the memory that it would replace, or was replaced by that")
    # No more than an import takes: it reads what an export wrote.
    replaced = tuple(dict.fromkeys((*new.supersedes, old.entry.id)))[-MAX_SUPERSEDED:]
    # First what stands in the successor: a redelivery reads it, and marks again.
    await backend.set_metadata_many(
        new.entry.agent_id, [new.entry.id], new.entry.metadata, extra={SUPERSEDES_KEY: list(replaced)}
    )
    for stored in await backend.get_many(new.entry.agent_id, [new.entry.id]):
        await mark_superseded(backend, stored)


async def is_replaced_by(backend: BatchBackend, record: MemoryRecord, memory_id: str) -> bool:
    """Return whether a memory is that one, or was replaced by it, or by what it replaced in turn: none would hold."""
    met: set[str] = set()
    while record.entry.id != memory_id:
        met.add(record.entry.id)
        following = record.entry.superseded_by
        if following is None or following in met:
            return False
        found = await backend.get_many(record.entry.agent_id, [following])
        if not found:
            return False
        (record,) = found
    return True


async def reinstate(backend: BatchBackend, old: MemoryRecord) -> bool:
    """Let a memory that was replaced hold again; False where nothing had replaced it. Raises as mark_superseded."""
    entry = old.entry
    if entry.superseded_by is None:
        return False
    for new in await backend.get_many(entry.agent_id, [entry.superseded_by]):
        left = [each for each in new.supersedes if each != entry.id]
        await backend.set_metadata_many(
            entry.agent_id, [new.entry.id], new.entry.metadata, extra={SUPERSEDES_KEY: left}
        )
    tags = tuple(tag for tag in entry.metadata.tags if tag != SUPERSEDED_TAG)
    await backend.set_metadata_many(
        entry.agent_id, [entry.id], entry.metadata.model_copy(update={"tags": tags}), extra={SUCCESSION_KEY: None}
    )
    return True
