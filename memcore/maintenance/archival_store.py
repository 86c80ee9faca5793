"""The archival store: the reference's protocol (memory-api-reference, archival), and the ledger's archive behind it."""

import asyncio
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import Protocol, runtime_checkable

from memcore.backends.protocol import ArchiveIndex
from memcore.ledger.archive import Archive
from memcore.models.archival import ArchivalEntry
from memcore.models.memory import MemoryEntry, MemoryQuery
from memcore.records import MemoryRecord


@runtime_checkable
class ArchivalStore(Protocol):
    """Keeps, finds and returns memories that left the store; an agent sees only its own."""

    async def archive(self, entry: ArchivalEntry) -> str:
        """Keep an entry and return its archival id; the same entry again is the same id."""
        ...

    async def search(self, agent_id: str, query: MemoryQuery) -> tuple[ArchivalEntry, ...]:
        """Return the agent's entries that match: best first by words, without a text the newest first."""
        ...

    async def restore(self, agent_id: str, entry_id: str) -> ArchivalEntry | None:
        """Return an entry by its archival id, or the last one by the memory's own id.

        None when the agent itself has no entry of that id.
        """
        ...

    async def count(self, agent_id: str) -> int:
        """Return how many of the agent's memories are archived."""
        ...


class LedgerArchivalStore:
    """The archival store of one company, over the ledger's archive.

    ``restore`` returns an entry and changes nothing; ``MemoryClient.restore`` brings the memory back into the store.
    A memory that came back is neither found nor counted here; ``restore`` still returns it.
    """

    def __init__(self, archive: Archive, *, company: str) -> None:
        self._archive = archive
        self._company = company

    async def archive(self, entry: ArchivalEntry) -> str:
        """Keep an entry, in the default namespace, without vectors; raises MemoryStoreError, MemoryConnectionError."""
        same = ("agent_id", "category", "content", "metadata", "created_at")
        memory = MemoryEntry(id=entry.original_id, **{name: getattr(entry, name) for name in same})
        record = MemoryRecord(entry=memory)
        return await asyncio.to_thread(
            self._archive.put, self._company, record, mode=entry.archival_mode, archived_at=entry.archived_at
        )

    async def search(self, agent_id: str, query: MemoryQuery) -> tuple[ArchivalEntry, ...]:
        """Return what matches; raises MemoryRetrievalError, MemoryConnectionError."""
        found = await asyncio.to_thread(self._archive.search, self._company, agent_id, query)
        return tuple(archived.entry for archived in found)

    async def restore(self, agent_id: str, entry_id: str) -> ArchivalEntry | None:
        """Return an entry; raises MemoryRetrievalError, MemoryConnectionError."""
        found = await asyncio.to_thread(self._archive.find, self._company, agent_id, entry_id)
        return None if found is None else found.entry

    async def count(self, agent_id: str) -> int:
        """Return the number; raises MemoryRetrievalError, MemoryConnectionError."""
        return await asyncio.to_thread(self._archive.count, self._company, agent_id)


async def expire_archive(
    archive: Archive,
    index: ArchiveIndex | None,
    *,
    company: str,
    returned_before: datetime,
    before: datetime | None = None,
) -> int:
    """Delete what a company's archive need not keep, each entry after its copy in the store; return how many.

    After a crash in between, the next call finds the entries again; see ``Archive.expired``.
    """
    total = 0
    while entries := archive.expired(company, returned_before=returned_before, before=before):
        if index is not None:
            for agent_id, theirs in groupby(sorted(entries), key=attrgetter("agent_id")):
                await index.unindex_archived(agent_id, entries=[each.archival_id for each in theirs])
        total += archive.drop(company, entries, returned_before=returned_before, before=before)
    return total
