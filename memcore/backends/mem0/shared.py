"""Shared knowledge and organisation facts: the log's line first, then the point, then the head that searches see."""

import logging
from collections.abc import Collection, Mapping
from datetime import timedelta
from functools import partial

from memcore import errors, ids
from memcore.backends.base import fresh_record
from memcore.backends.fusion import RankedLists
from memcore.backends.mem0.collection import ServingCollection
from memcore.backends.mem0.filters import WHOLE, SearchScope, SharedView
from memcore.backends.mem0.search import Reader
from memcore.backends.mem0.writer import Writer
from memcore.backends.protocol import ORGANISATION
from memcore.clock import Clock
from memcore.errors import MemoryInputError
from memcore.ledger.organization.facts import OrgLog
from memcore.ledger.organization.shared_log import SharedEntry, SharedLog
from memcore.models.memory import (
    SHARED_OWNER,
    Excluded,
    MemoryEntry,
    MemoryQuery,
    MemoryStoreRequest,
    is_uuid,
    require_agent_id,
)
from memcore.models.organization import OrgFact, OrgFactCategory
from memcore.records import MemoryRecord, Vectors
from memcore.telemetry.events import Event

#: How long a line may be open before a search executes it: a writer needs milliseconds, so this one is dead.
_OVERDUE = timedelta(seconds=5)

_log = logging.getLogger(__name__)


class SharedKnowledge:
    """Publishes, searches and retracts for one company.

    A line of the log that a dead process left open is executed by the next publication or retraction, and by any search
    once it is older than five seconds; until then searches see the version before it.
    """

    def __init__(self, serving: ServingCollection, log: SharedLog, *, company: str, clock: Clock) -> None:
        self._serving = serving
        self._log = log
        self._company = company
        self._clock = clock

    async def publish(self, agent_id: str, request: MemoryStoreRequest, *, once: bool = False) -> str:
        record = fresh_record(agent_id, request, company=self._company, now=self._clock(), id_of=ids.fact_id)
        return await self.put(record, once=once)

    async def put(self, record: MemoryRecord, *, once: bool) -> str:
        """Publish a record of any agent, and return the id once searches see it."""

        def write() -> tuple[SharedEntry, Vectors | None]:
            # Before the log: a text that the embedder refuses would stay open there, and stop all that follow it.
            vectors = self._serving.reading().writer.embedded([record])[0].vectors
            return self._log.publish(self._company, record, once=once), vectors

        line, vectors = await self._serving.calls.write("publish", write)
        await self._follow("publish", line.version, {line.version: vectors})
        return line.memory_id

    async def retract(self, agent_id: str, memory_id: str) -> bool:
        return await self.take(require_agent_id(agent_id), memory_id)

    async def take(self, agent_id: str, memory_id: str) -> bool:
        """Take back what was published in this name, also in one that no agent has."""
        if not is_uuid(memory_id):
            return False
        line = await self._serving.calls.write("retract", lambda: self._log.retract(self._company, agent_id, memory_id))
        if line is not None:
            await self._follow("retract", line.version, {})
        return line is not None

    async def search_shared(
        self,
        query: MemoryQuery,
        *,
        exclude_agent: Excluded = None,
        version: int | None = None,
        view: SharedView = WHOLE,
    ) -> tuple[MemoryEntry, ...]:
        scope = await self.search_scope(query, exclude_agent=exclude_agent, version=version, view=view)
        return await self._serving.read("search_shared", Reader.by_text, scope, query, now=query.as_of or self._clock())

    async def search_shared_sparse(
        self,
        query: MemoryQuery,
        *,
        exclude_agent: Excluded = None,
        version: int | None = None,
        view: SharedView = WHOLE,
    ) -> tuple[MemoryEntry, ...]:
        scope = await self.search_scope(query, exclude_agent=exclude_agent, version=version, view=view)
        return await self._serving.read(
            "search_shared_sparse", Reader.by_words, scope, query, now=query.as_of or self._clock()
        )

    async def search_scope(
        self,
        query: MemoryQuery,
        *,
        exclude_agent: Excluded,
        version: int | None = None,
        view: SharedView = WHOLE,
    ) -> SearchScope:
        """Return what a query may find of a version, now without one; MemoryInputError when it is not there yet."""
        head = await self.shared_version()
        at = head if version is None else version
        if not 0 <= at <= head:
            raise MemoryInputError("version", f"is {version}; it must be 0 to {head}, the newest")
        return SearchScope.of_shared(query, version=at, exclude_agent=exclude_agent, view=view)

    async def shared_version(self) -> int:
        """Return the version that searches see, after executing the lines that a dead process left open."""
        position = await self._serving.calls.read("shared_version", partial(self._log.standing, self._company))
        if position.open_since is None or self._clock() - position.open_since < _OVERDUE:
            return position.head
        try:
            # A reader does not wait: while a reindex stops the writes, the version before it serves.
            await self._follow("shared_version", position.last, {}, waits=False)
        except errors.MemoryError as error:
            # The version before it is complete and still serves.
            facts = {"company": self._company, "version": position.head + 1, "error": type(error).__name__}
            _log.warning(Event.MEMORY_SHARED_OVERDUE, extra=facts)
            return position.head
        return position.last

    async def _follow(
        self, what: str, version: int, known: Mapping[int, Vectors | None], *, waits: bool = True
    ) -> None:
        """Bring the store, and then the head, to a version; all lines before it are executed too."""
        position = partial(self._log.standing, self._company)
        while (head := (await self._serving.calls.read(what, position)).head) < version:
            found = await self._serving.calls.read(what, partial(self._log.lines, self._company, after=head))
            lines = [line for line in found if line.version <= version]
            # Before the head: it means that every collection that will serve has these lines.
            carried = partial(Writer.execute, lines=lines, known=known)
            await self._serving.write(what, [SHARED_OWNER], carried, waits=waits)
            await self._serving.calls.write(what, partial(self._log.advance, self._company, lines[-1].version))


class Facts:
    """Publishes, retracts and searches facts as shared knowledge, and reads them from the ledger."""

    def __init__(
        self, serving: ServingCollection, log: OrgLog, *, shared: SharedKnowledge, company: str, clock: Clock
    ) -> None:
        self._serving = serving
        self._log = log
        self._shared = shared
        self._company = company
        self._clock = clock

    @property
    def dense_weight(self) -> float:
        return self._serving.last().plan.dense_weight

    async def show(self, record: MemoryRecord) -> None:
        if record.entry.agent_id != ORGANISATION:
            raise MemoryInputError("agent_id", f"must be {ORGANISATION}: this shows facts and nothing else")
        await self._shared.put(record, once=True)

    async def hide(self, memory_id: str) -> None:
        await self._shared.take(ORGANISATION, memory_id)

    async def rankings(self, query: MemoryQuery) -> RankedLists:
        version = await self._shared.shared_version()
        if version == 0:
            return RankedLists()
        scope = SearchScope.of_shared(query, version=version, publisher=ORGANISATION)
        return await self._serving.read("facts", Reader.rankings, scope, None, query, now=query.as_of or self._clock())

    async def standing(self, fact_ids: Collection[str]) -> dict[str, tuple[int, OrgFact]]:
        return await self._serving.calls.read(
            "standing",
            lambda: self._log.standing(self._company, fact_ids, view=self._log.view(self._company)),
        )

    async def policies(self, *, offset: int) -> tuple[OrgFact, ...]:
        only = frozenset({OrgFactCategory.CORE_POLICY})
        return await self._serving.calls.read(
            "policies",
            lambda: self._log.facts(self._company, categories=only, offset=offset, view=self._log.view(self._company)),
        )
