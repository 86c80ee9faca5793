"""The archive: memories that left the store whole; list, search, show and restore them."""

from typing import Any, Self

from memcore.client.results import JobReceipt
from memcore.errors import MemoryNotFoundError
from memcore.ledger.access.keys import Verb
from memcore.ledger.archive import Archived
from memcore.ledger.erasure.hidden import Hidden
from memcore.models.archival import ArchivalMode
from memcore.models.base import Frozen
from memcore.models.memory import BoundedTime, MemoryCategory, MemoryMetadata, MemoryQuery
from memcore.service.operation import JobAccepted, operation
from memcore.service.resources import CompanyPart, ServiceResources

_ONE = "/agents/{agent_id}/archive/{entry_id}"

#: Most entries that a search reads to find enough that may be shown.
_MOST_READ = 10_000


class ArchivedMemory(Frozen):
    """An archived memory as people and programs are shown it.

    Attributes:
        original_id: its id in the store.
        mode: how the summary that replaced it was written.
        returned_at: when it came back into the store; None while it is out.
        run_id: the run that removed it; None for one archived outside of runs.
    """

    archival_id: str
    original_id: str
    agent_id: str
    mode: ArchivalMode
    category: MemoryCategory
    namespace: str
    created_at: BoundedTime
    archived_at: BoundedTime
    expires_at: BoundedTime | None
    returned_at: BoundedTime | None
    run_id: str | None
    metadata: MemoryMetadata
    text: str

    @classmethod
    def of(cls, archived: Archived) -> Self:
        """Return what is shown of an entry."""
        entry = archived.record.entry
        own = {
            name: getattr(archived, name) for name in ("archival_id", "mode", "archived_at", "returned_at", "run_id")
        }
        names = ("agent_id", "category", "namespace", "created_at", "expires_at", "metadata")
        return cls(
            **own,
            **{name: getattr(entry, name) for name in names},
            original_id=entry.id,
            text=entry.content,
        )

    def facts(self) -> dict[str, Any]:
        """Return its fields with plain words for names of kinds."""
        metadata = self.metadata.model_dump(mode="json")
        return {**dict(self), "mode": str(self.mode), "category": str(self.category), "metadata": metadata}


class ArchiveOperations(CompanyPart):
    """Reads an agent's archive and brings memories back. Every call raises MemoryConnectionError."""

    def __init__(self, resources: ServiceResources) -> None:
        super().__init__(resources)
        self._archive = resources.ledger.archive

    async def search(self, agent_id: str, query: MemoryQuery) -> tuple[ArchivedMemory, ...]:
        """Return archived memories that are out and match: best first by words, newest first without a text."""
        hidden, limit = await self._resources.hidden(), query.limit
        while True:
            found = await self._ask(self._archive.search, agent_id, query.model_copy(update={"limit": limit}))
            shown = [each for each in found if self._shows(each, hidden)][: query.limit]
            # What is not shown keeps nothing else from the first places.
            if len(shown) == query.limit or len(found) < limit or limit >= _MOST_READ:
                return tuple(map(ArchivedMemory.of, shown))
            limit = min(8 * limit, _MOST_READ)

    async def count(self, agent_id: str) -> int:
        """Return how many of an agent's memories are out."""
        if agent_id in (await self._resources.hidden()).agents:
            return 0
        return await self._ask(self._archive.count, agent_id)

    @operation(f"GET {_ONE}", Verb.READ)
    async def get(self, agent_id: str, entry_id: str) -> ArchivedMemory:
        """Return one archived memory whole, by its archival id or the memory's own, even if it was restored since.

        Raises MemoryNotFoundError.
        """
        archived = await self._ask(self._archive.find, agent_id, entry_id)
        if archived is None or not self._shows(archived, await self._resources.hidden()):
            raise MemoryNotFoundError("entry_id: names nothing in this agent's archive; see `memtend archive list`")
        return ArchivedMemory.of(archived)

    @operation(f"POST {_ONE}/restore", Verb.MAINTAIN, status=202, shows=JobAccepted)
    async def restore(
        self, agent_id: str, entry_id: str, *, by: str | None = None, reason: str | None = None
    ) -> JobReceipt:
        """Restore a memory to the store as it was, in a run that can be undone; the job's id is the run's.

        Raises MemoryNotFoundError. With a name or a reason, the audit has it.
        """
        await self.get(agent_id, entry_id)
        receipt = await self._resources.client.restore(agent_id, entry_id)
        await self._resources.note_given(by, "archive.restore", entry_id, reason=reason)
        return receipt

    def _shows(self, archived: Archived, hidden: Hidden) -> bool:
        entry = hidden.with_raised(archived.record.entry)
        return not hidden.hides_memory(entry) and entry.is_shown(self._resources.policy.memory.origins.authority)
