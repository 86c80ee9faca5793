"""What memtend's own backends share: records of requests, the calls for one memory, and cursors by age."""

from collections.abc import Callable, Sequence
from datetime import datetime

from pydantic import ValidationError

from memcore import ids
from memcore.backends.deletion import Deletion
from memcore.backends.protocol import BatchBackend
from memcore.clock import Clock
from memcore.errors import MemoryInputError
from memcore.models.memory import MemoryCategory, MemoryEntry, MemoryStoreRequest, memory_ids, require_new_agent_id
from memcore.records import MemoryRecord, Where


def fresh_record(agent_id: str, request: MemoryStoreRequest, *, company: str, now: datetime) -> MemoryRecord:
    """Return the record of this request. Its id is made from the content, so storing it twice is one memory.

    Raises MemoryInputError when the agent id is reserved or the expiry lies before now.
    """
    return _record(ids.memory_id, agent_id, request, company=company, now=now)


def fact_record(agent_id: str, request: MemoryStoreRequest, *, company: str, now: datetime) -> MemoryRecord:
    """Return the record of what an agent publishes, under the id of its fact; raises what fresh_record raises."""
    return _record(ids.fact_id, agent_id, request, company=company, now=now)


def _record(
    id_of: Callable[..., str], agent_id: str, request: MemoryStoreRequest, *, company: str, now: datetime
) -> MemoryRecord:
    memory_id = id_of(
        company=company,
        agent_id=require_new_agent_id(agent_id),
        category=request.category,
        namespace=request.namespace,
        content=request.content,
        source=request.metadata.source,
    )
    try:
        entry = MemoryEntry(
            id=memory_id,
            agent_id=agent_id,
            namespace=request.namespace,
            category=request.category,
            content=request.content,
            metadata=request.metadata,
            created_at=now,
            expires_at=request.expires_at,
        )
    except ValidationError as error:
        raise MemoryInputError.of(error) from error
    return MemoryRecord(entry=entry)


#: The age of a memory: its creation time, and its id among those of one time.
Age = tuple[datetime, str]


def age(record: MemoryRecord) -> Age:
    """Return the age by which a scan is ordered."""
    return record.entry.created_at, record.entry.id


def cursor_after(record: MemoryRecord) -> str:
    """Return the cursor of a page that ends with this record."""
    return f"{record.entry.created_at.isoformat()} {record.entry.id}"


def age_at(cursor: str) -> Age:
    """Return the age behind which a cursor goes on; MemoryInputError when no page gave it."""
    at, _, memory_id = cursor.partition(" ")
    try:
        time = datetime.fromisoformat(at)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None or not memory_id:
        raise MemoryInputError("cursor", "must be one that a page of the same scan gave")
    return time, memory_id


class RecordBackend(BatchBackend):
    """Makes the calls for one memory of those for many.

    The company is part of every id. Without a deletion, which journals what ``delete`` removes, that is gone for good,
    with no tombstone and no undo.
    """

    def __init__(self, *, company: str, deletion: Deletion | None, clock: Clock) -> None:
        self._company = company
        self._deletion = deletion
        self._clock = clock

    async def store(self, agent_id: str, request: MemoryStoreRequest) -> str:
        """Store one memory and return its id; the same memory again is the same id and changes nothing."""
        record = fresh_record(agent_id, request, company=self._company, now=self._clock())
        await self.store_many([record])
        return record.entry.id

    async def delete(self, agent_id: str, memory_id: str) -> bool:
        if self._deletion is not None:
            return await self._deletion.delete(self, agent_id, memory_id)
        return await self.delete_many(agent_id, [memory_id]) > 0

    async def count(self, agent_id: str, *, category: MemoryCategory | None = None) -> int:
        """Return the exact number of memories stored, expired ones included until retention removes them."""
        categories = None if category is None else frozenset({category})
        return await self.count_where(Where(agent_id=agent_id, categories=categories))

    async def delete_many(self, agent_id: str, ids: Sequence[str]) -> int:
        return await self.delete_where(Where(agent_id=agent_id, ids=frozenset(memory_ids(ids))))
