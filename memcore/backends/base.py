"""What memtend's own backends share: records of requests, calls that are made of others, and cursors by age."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from datetime import datetime

from pydantic import ValidationError

from memcore import ids
from memcore.backends.deletion import Deletion
from memcore.backends.protocol import BatchBackend, SharedKnowledgeStore, scanned
from memcore.backends.succession import current, mark_superseded
from memcore.clock import Clock
from memcore.errors import MemoryInputError
from memcore.models.memory import (
    SUPERSEDED_TAG,
    Excluded,
    MemoryCategory,
    MemoryEntry,
    MemoryQuery,
    MemoryStoreRequest,
    memory_ids,
    require_new_agent_id,
    require_path_name,
)
from memcore.models.origin import Origin, current_writer
from memcore.records import MemoryRecord, Where


def fresh_record(
    agent_id: str,
    request: MemoryStoreRequest,
    *,
    company: str,
    now: datetime,
    id_of: Callable[..., str] = ids.memory_id,
    origin: Origin | None = None,
) -> MemoryRecord:
    """Return the record of this request. Its id is made from the content, so storing it twice is one memory.

    What is published has ``id_of=ids.fact_id``. The origin is the current writer's where none is given. Raises
    MemoryInputError when the agent id is reserved or the expiry lies before now.
    """
    if id_of is ids.fact_id and request.supersedes:
        raise MemoryInputError("supersedes", "is for an agent's own memories; retract what a publication replaces")
    origin = current_writer().origin(request.channel) if origin is None else origin
    memory_id = id_of(
        company=company,
        agent_id=require_new_agent_id(agent_id),
        category=request.category,
        namespace=request.namespace,
        content=request.content,
        source=request.metadata.source,
        holding=(*request.holding, *origin.part_of_id),
    )
    try:
        return MemoryRecord.of(memory_id, agent_id, request, created_at=now, origin=origin)
    except ValidationError as error:
        raise MemoryInputError.of(error) from error


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
    """Makes the calls for one memory of those for many, and hands those for shared knowledge on.

    The company is part of every id. Without a deletion, which journals what ``delete`` removes, that is gone for good,
    with no tombstone and no undo.
    """

    def __init__(self, *, company: str, deletion: Deletion | None, clock: Clock) -> None:
        self._company = company
        self._deletion = deletion
        self._clock = clock
        #: Where a memory's successor may be: in itself, or in all of the backend that this one is a part of.
        self._whole: BatchBackend = self

    def join(self, whole: BatchBackend) -> None:
        """Make this a part of another backend, among whose memories those may be that supersede memories of this."""
        self._whole = whole

    async def _current(
        self, agent_id: str, entries: Sequence[MemoryEntry], as_of: datetime | None = None
    ) -> tuple[MemoryEntry, ...]:
        return await current(self._whole, agent_id, entries, now=as_of or self._clock())

    async def _standing(self, agent_id: str, query: MemoryQuery) -> frozenset[str]:
        """Return the ids of what is marked as superseded and is not, for a filter by time; none without one."""
        if query.as_of is None:
            return frozenset()
        marked = Where(agent_id=agent_id, tags=(SUPERSEDED_TAG,))
        entries = [record.entry async for page in scanned(self, marked) for record in page]
        shown = await self._current(agent_id, entries, query.as_of)
        return frozenset(each.id for each in shown if each.superseded_by is None)

    @abstractmethod
    def _sharing(self) -> SharedKnowledgeStore:
        """Return what keeps the shared knowledge; raises MemoryConnectionError, MemoryCapabilityError."""

    async def store(self, agent_id: str, request: MemoryStoreRequest) -> str:
        """Store one memory and return its id; the same memory again is the same id, stated again."""
        record = fresh_record(require_path_name(agent_id), request, company=self._company, now=self._clock())
        await self.store_many([record])
        if record.supersedes:
            await mark_superseded(self, record)
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

    async def publish(self, agent_id: str, request: MemoryStoreRequest, *, once: bool = False) -> str:
        return await self._sharing().publish(agent_id, request, once=once)

    async def search_shared(
        self, query: MemoryQuery, *, exclude_agent: Excluded = None, version: int | None = None
    ) -> tuple[MemoryEntry, ...]:
        return await self._sharing().search_shared(query, exclude_agent=exclude_agent, version=version)

    async def search_shared_sparse(
        self, query: MemoryQuery, *, exclude_agent: Excluded = None, version: int | None = None
    ) -> tuple[MemoryEntry, ...]:
        return await self._sharing().search_shared_sparse(query, exclude_agent=exclude_agent, version=version)

    async def retract(self, agent_id: str, memory_id: str) -> bool:
        return await self._sharing().retract(agent_id, memory_id)

    async def shared_version(self) -> int:
        return await self._sharing().shared_version()
