"""The mem0 backend as readers have it: what is being erased, or is distrusted, is not found or listed.

What a person has raised says so, and is found where its channel is not.
"""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import partial

from qdrant_client.models import Condition

from memcore.backends.fusion import Hit, RankedLists
from memcore.backends.mem0.backend import Mem0Backend
from memcore.backends.mem0.filters import SharedView, of_distrusted, of_published, with_ids
from memcore.backends.protocol import MAX_PAGE
from memcore.ledger.erasure.hidden import Hidden, shows_all
from memcore.models.memory import Excluded, MemoryEntry, MemoryQuery
from memcore.models.origin import came_through
from memcore.records import ArchivedCopy, Facet, MemoryRecord, Page, Where

#: What the call that is going on has read as hidden, and the backend that it was made on: one call asks once.
_READ: ContextVar["tuple[HidingBackend, Hidden] | None"] = ContextVar("memtend_hidden_read", default=None)


class HidingBackend(Mem0Backend):
    """Hides what an erasure will remove, and what is distrusted; workers, which see to both, have the plain backend."""

    async def retrieve(self, agent_id: str, query: MemoryQuery) -> tuple[MemoryEntry, ...]:
        async with self._hiding() as hidden:
            return _found(hidden, await super().retrieve(agent_id, query), query)

    async def retrieve_sparse(self, agent_id: str, query: MemoryQuery) -> tuple[MemoryEntry, ...]:
        async with self._hiding() as hidden:
            return _found(hidden, await super().retrieve_sparse(agent_id, query), query)

    async def retrieve_rankings(
        self,
        agent_id: str,
        query: MemoryQuery,
        *,
        include_shared: bool = False,
        exclude_agents: Collection[str] = (),
        include_archived: bool = False,
    ) -> RankedLists:
        async with self._hiding() as hidden:
            found = await super().retrieve_rankings(
                agent_id,
                query,
                include_shared=include_shared,
                exclude_agents=exclude_agents,
                include_archived=include_archived,
            )

        def shown(hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
            entries = {entry.id: entry for entry in _found(hidden, [hit.entry for hit in hits], query)}
            return tuple(replace(hit, entry=entries[hit.entry.id]) for hit in hits if hit.entry.id in entries)

        return replace(
            found,
            dense=shown(found.dense),
            sparse=shown(found.sparse),
            shared_dense=shown(found.shared_dense),
            shared_sparse=shown(found.shared_sparse),
            archived_dense=shown(found.archived_dense),
            archived_sparse=shown(found.archived_sparse),
        )

    async def search_shared(
        self, query: MemoryQuery, *, exclude_agent: Excluded = None, version: int | None = None
    ) -> tuple[MemoryEntry, ...]:
        async with self._hiding() as hidden:
            return _shown(hidden, await super().search_shared(query, exclude_agent=exclude_agent, version=version))

    async def search_shared_sparse(
        self, query: MemoryQuery, *, exclude_agent: Excluded = None, version: int | None = None
    ) -> tuple[MemoryEntry, ...]:
        async with self._hiding() as hidden:
            found = await super().search_shared_sparse(query, exclude_agent=exclude_agent, version=version)
            return _shown(hidden, found)

    async def get(self, agent_id: str, memory_id: str) -> MemoryEntry | None:
        async with self._hiding() as hidden:
            found = await super().get(agent_id, memory_id)
            return None if found is None else next(iter(_shown(hidden, [found])), None)

    async def get_many(
        self, agent_id: str, ids: Sequence[str], *, with_vectors: bool = False
    ) -> tuple[MemoryRecord, ...]:
        async with self._hiding() as hidden:
            return _kept(hidden, await super().get_many(agent_id, ids, with_vectors=with_vectors))

    async def scan(
        self, where: Where, *, cursor: str | None = None, limit: int = MAX_PAGE, with_vectors: bool = False
    ) -> Page:
        async with self._hiding() as hidden:
            page = await super().scan(where, cursor=cursor, limit=limit, with_vectors=with_vectors)
            return replace(page, records=_kept(hidden, page.records))

    async def count_where(self, where: Where) -> int:
        async with self._hiding() as hidden:
            if where.agent_id in hidden.agents:
                return 0
            counted = await super().count_where(where)
            subjects = hidden.subjects(where.agent_id)
            if gone := subjects if where.namespaces is None else subjects & where.namespaces:
                counted -= await super().count_where(where.model_copy(update={"namespaces": gone}))
            return counted

    async def scopes(self, where: Where, scope: Facet) -> frozenset[str]:
        async with self._hiding() as hidden:
            if where.agent_id in hidden.agents:
                return frozenset()
            found = await super().scopes(where, scope)
            return found - hidden.subjects(where.agent_id) if scope == "namespace" else found

    async def indexed_archived(self, agent_id: str) -> tuple[ArchivedCopy, ...]:
        hidden = await self._hidden()
        found = () if agent_id in hidden.agents else await super().indexed_archived(agent_id)
        return tuple(each for each in found if not hidden.hides_memory(each.record.entry))

    async def _apart(self, agent_id: str) -> Sequence[Condition]:
        hidden = await self._hidden()
        # Left out behind the search, many memories of one source would keep others from the first places.
        return of_distrusted(hidden.rules_of(agent_id), hidden.distrusted.get(agent_id, ()))

    async def _raised(self, agent_id: str, query: MemoryQuery) -> Collection[str]:
        if not query.hidden_channels or query.min_authority is None:
            return ()
        raised = (await self._hidden()).raised.get(agent_id, {})
        return [memory_id for memory_id, each in raised.items() if each.to.reaches(query.min_authority)]

    async def _in_shared(self) -> SharedView:
        hidden = await self._hidden()
        apart = of_published([each.rule for each in hidden.distrusts])
        apart += [with_ids(hidden.skills)] if hidden.skills else []
        return SharedView(apart=apart, returned=hidden.returned)

    @asynccontextmanager
    async def _hiding(self) -> AsyncIterator[Hidden]:
        """Yield what is hidden; the calls that the block makes on this backend ask no further time."""
        hidden = await self._hidden()
        token = _READ.set((self, hidden))
        try:
            yield hidden
        finally:
            _READ.reset(token)

    async def _hidden(self) -> Hidden:
        opened, read = self._connected(), _READ.get()
        if opened.hidden is None or shows_all():
            return Hidden()
        if read is not None and read[0] is self:
            return read[1]
        return await opened.serving.calls.read("hidden", partial(opened.hidden.of, self._company))


def _shown(hidden: Hidden, entries: Sequence[MemoryEntry]) -> tuple[MemoryEntry, ...]:
    return tuple(hidden.with_raised(entry) for entry in entries if not hidden.hides_memory(entry))


def _found(hidden: Hidden, entries: Sequence[MemoryEntry], query: MemoryQuery) -> tuple[MemoryEntry, ...]:
    """Return what a search shows: the store finds what is raised by its id, and its text may be another since."""
    shown, apart = _shown(hidden, entries), query.hidden_channels
    if not apart or not hidden.raised:
        return shown
    return tuple(each for each in shown if each.raised or not came_through(each.origin, apart))


def _kept(hidden: Hidden, records: Sequence[MemoryRecord]) -> tuple[MemoryRecord, ...]:
    shown = [each for each in records if not hidden.hides_memory(each.entry)]
    if not hidden.raised:
        return tuple(shown)
    return tuple(replace(each, entry=hidden.with_raised(each.entry)) for each in shown)
