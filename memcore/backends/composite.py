"""The composite backend: both protocols over several children, chosen by the namespace of each memory.

The reference writes the child's name before the id. Here an id stays one UUID, whichever child keeps the memory: it is
made from the content before the child is known, so that a memory sent twice is one; and journal and undo use it across
a change of the routes. So calls by id ask every child.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol, TypeVar, runtime_checkable

from memcore import errors
from memcore.backends.base import Age, RecordBackend, age, age_at, cursor_after
from memcore.backends.deletion import Deletion
from memcore.backends.fusion import best_first
from memcore.backends.protocol import (
    MAX_PAGE,
    BatchBackend,
    FactStore,
    MemoryBackend,
    MemoryCapabilities,
    SharedKnowledgeStore,
    facts_of,
    sharing_of,
)
from memcore.clock import Clock, utc_now
from memcore.errors import MemoryCapabilityError, MemoryConfigError, MemoryConnectionError, MemoryRetrievalError
from memcore.models.memory import (
    MemoryCategory,
    MemoryEntry,
    MemoryMetadata,
    MemoryQuery,
    require_ids,
    require_owner_id,
)
from memcore.records import Facet, MemoryRecord, Page, SearchNotes, Where
from memcore.telemetry.events import Event


@runtime_checkable
class Child(MemoryBackend, BatchBackend, MemoryCapabilities, Protocol):
    """A backend with both protocols and the capabilities."""


Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


async def fan_out(
    children: Mapping[str, Asked], call: Callable[[Asked], Awaitable[Answer]]
) -> tuple[dict[str, Answer], dict[str, errors.MemoryError]]:
    """Make a call of each child at once, and return answers and failures by child when all are done, in their order.

    Only memory errors count as a child's failure; anything else, the builtin MemoryError above all, is raised.
    """
    given: dict[str, Answer] = {}
    failed: dict[str, errors.MemoryError] = {}
    outcomes = await asyncio.gather(*map(call, children.values()), return_exceptions=True)
    for name, outcome in zip(children, outcomes, strict=True):
        if isinstance(outcome, errors.MemoryError):
            failed[name] = outcome
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            given[name] = outcome
    return given, failed


async def all_answers(children: Mapping[str, Asked], call: Callable[[Asked], Awaitable[Answer]]) -> list[Answer]:
    """Make a call of each child at once and return every answer; a failure is raised when all are done."""
    given, failed = await fan_out(children, call)
    for error in failed.values():
        raise error
    return list(given.values())


# A child's own cursor is at the end of that child's page, and a merged page ends somewhere in the middle of it. So the
# cursor here is the time and the id of the last memory that was returned. Each child is asked for memories created then
# or later, and those returned before are skipped. That reads one memory twice a page, needs no state in this process,
# and holds whatever is written or removed between two pages.


async def merged_page(
    children: Mapping[str, Child], where: Where, *, cursor: str | None, limit: int, with_vectors: bool
) -> Page:
    """Return the next page over all children. Raises MemoryInputError for a cursor that no page gave."""
    size = max(1, min(limit, MAX_PAGE))
    after = None if cursor is None else age_at(cursor)
    rests = await all_answers(children, lambda child: _rest(child, where, after, size, with_vectors=with_vectors))
    found = sorted((record for records, _ in rests for record in records), key=age)
    is_last = len(found) <= size and not any(goes_on for _, goes_on in rests)
    page = found[:size]
    return Page(records=tuple(page), cursor=None if is_last or not page else cursor_after(page[-1]))


async def _rest(
    child: Child, where: Where, after: Age | None, size: int, *, with_vectors: bool
) -> tuple[list[MemoryRecord], bool]:
    # At least `size` of the child's memories that follow, fewer only when there are no more; and whether there are.
    if after is not None and (where.created_since is None or where.created_since < after[0]):
        where = where.model_copy(update={"created_since": after[0]})
    found: list[MemoryRecord] = []
    cursor: str | None = None
    while True:
        page = await child.scan(where, cursor=cursor, limit=min(size + 1, MAX_PAGE), with_vectors=with_vectors)
        found += [record for record in page.records if after is None or age(record) > after]
        cursor = page.cursor
        if cursor is None or len(found) >= size:
            return found, cursor is not None


_log = logging.getLogger(__name__)


class CompositeBackend(RecordBackend):
    """Keeps each namespace in the backend of its route; queries ask all children that can match, concurrently.

    ``retrieve`` leaves out a child that fails, and logs it; every other call fails with it, because a count, a page
    or a removal that leaves out a child would be wrong. Changing a route moves no memory: export and import those of
    the namespace, or its old memories are found only by queries that name no namespace, and by id.

    ``routes`` names a child for each namespace, ``default`` the one for all others; MemoryConfigError for another name.
    """

    backend_name = "composite"

    def __init__(
        self,
        children: Mapping[str, Child],
        *,
        routes: Mapping[str, str],
        default: str,
        company: str,
        deletion: Deletion | None = None,
        clock: Clock = utc_now,
    ) -> None:
        super().__init__(company=company, deletion=deletion, clock=clock)
        named = {"default": default, **{f"routes.{namespace}": name for namespace, name in routes.items()}}
        for key, name in named.items():
            if name not in children:
                known = ", ".join(sorted(children)) or "none"
                raise MemoryConfigError(f"memory.composite.{key}: {name!r} is no backend of it, choose one of {known}")
        self._children = MappingProxyType(dict(children))
        for child in children.values():
            if isinstance(child, RecordBackend):
                child.join(self)
        self._routes = dict(routes)
        self._default_name = default

    async def connect(self) -> None:
        """Connect every child, or none: when one cannot, the others are disconnected again."""
        try:
            await all_answers(self._children, lambda child: child.connect())
        except BaseException:
            await self.disconnect()
            raise

    async def disconnect(self) -> None:
        """Disconnect every child; a second call does nothing."""
        await all_answers(self._children, lambda child: child.disconnect())
        if self._deletion is not None:
            await asyncio.to_thread(self._deletion.close)

    async def health_check(self) -> bool:
        return all(await all_answers(self._children, lambda child: child.health_check()))

    @property
    def is_connected(self) -> bool:
        return all(child.is_connected for child in self._children.values())

    @property
    def supported_categories(self) -> frozenset[MemoryCategory]:
        """Those that every child stores, for the namespace chooses the child, not the category."""
        return frozenset.intersection(*(child.supported_categories for child in self._children.values()))

    @property
    def supports_graph(self) -> bool:
        """Whether a child does."""
        return any(child.supports_graph for child in self._children.values())

    @property
    def supports_temporal(self) -> bool:
        """Whether every child honours since and until."""
        return all(child.supports_temporal for child in self._children.values())

    @property
    def supports_vector_search(self) -> bool:
        """Whether a child does."""
        return any(child.supports_vector_search for child in self._children.values())

    @property
    def supports_shared_access(self) -> bool:
        """Whether the default child does: it keeps shared knowledge of every namespace."""
        return self._default.supports_shared_access

    @property
    def facts(self) -> FactStore | None:
        """The default child's store of facts, if it has one."""
        return facts_of(self._default)

    @property
    def max_memories_per_agent(self) -> int | None:
        """The smallest cap of a child, because one child may keep all of an agent's memories; None for no limit."""
        caps = [child.max_memories_per_agent for child in self._children.values()]
        return min((cap for cap in caps if cap is not None), default=None)

    @property
    def vector_space(self) -> str | None:
        """That of the children, which share one embedder; None when none of them makes vectors."""
        spaces = {space for child in self._children.values() if (space := child.vector_space) is not None}
        return " and ".join(sorted(spaces)) or None

    async def retrieve(self, agent_id: str, query: MemoryQuery) -> tuple[MemoryEntry, ...]:
        """Return the best of all children that can match; entries without a relevance come last, newest first.

        A child that fails is left out and logged. Raises MemoryRetrievalError when all fail.
        """
        self._require_connected(agent_id)
        given, failed = await fan_out(self._targets(query.namespaces), lambda child: child.retrieve(agent_id, query))
        if failed:
            reasons = {name: type(error).__name__ for name, error in failed.items()}
            if not given:
                names = ", ".join(f"{name} ({error})" for name, error in reasons.items())
                raise MemoryRetrievalError(f"the backend composite got no answer from {names}")
            _log.warning(Event.MEMORY_COMPOSITE_FANOUT_PARTIAL, extra={"agent_id": agent_id, "failed": reasons})
        return best_first((entry for entries in given.values() for entry in entries), query.limit)

    async def get(self, agent_id: str, memory_id: str) -> MemoryEntry | None:
        """Return the memory from whichever child has it; a child that fails matters only when no other has it."""
        given, failed = await fan_out(self._all_of(agent_id), lambda child: child.get(agent_id, memory_id))
        found = next((entry for entry in given.values() if entry is not None), None)
        if found is None:
            for error in failed.values():
                raise error
        return found

    async def store_many(self, records: Sequence[MemoryRecord]) -> None:
        """Write every record that no child has yet to the child of its namespace; a failure may leave some written."""
        unique: dict[str, MemoryRecord] = {}
        for record in records:
            unique.setdefault(require_ids(record.entry), record)
        self._require_connected()
        misplaced = await self._misplaced(list(unique.values()))
        shares: dict[str, list[MemoryRecord]] = {}
        for key, record in unique.items():
            if key not in misplaced:
                shares.setdefault(self._child_of(record.entry.namespace), []).append(record)
        placed = {name: (self._children[name], share) for name, share in shares.items()}
        await all_answers(placed, lambda each: each[0].store_many(each[1]))

    async def get_many(
        self, agent_id: str, ids: Sequence[str], *, with_vectors: bool = False
    ) -> tuple[MemoryRecord, ...]:
        answers = await all_answers(
            self._all_of(agent_id), lambda child: child.get_many(agent_id, ids, with_vectors=with_vectors)
        )
        found = {record.entry.id: record for answer in answers for record in answer}
        return tuple(found[memory_id] for memory_id in dict.fromkeys(ids) if memory_id in found)

    async def delete_where(self, where: Where) -> int:
        """Delete what matches and return how many; after a failure, some children may have deleted theirs."""
        return sum(await all_answers(self._matching(where), lambda child: child.delete_where(where)))

    async def count_where(self, where: Where) -> int:
        return sum(await all_answers(self._matching(where), lambda child: child.count_where(where)))

    async def scopes(self, where: Where, scope: Facet) -> frozenset[str]:
        return frozenset().union(*await all_answers(self._matching(where), lambda child: child.scopes(where, scope)))

    async def scan(
        self, where: Where, *, cursor: str | None = None, limit: int = MAX_PAGE, with_vectors: bool = False
    ) -> Page:
        children = self._matching(where)
        if len(children) == 1:
            (child,) = children.values()
            return await child.scan(where, cursor=cursor, limit=limit, with_vectors=with_vectors)
        return await merged_page(children, where, cursor=cursor, limit=limit, with_vectors=with_vectors)

    async def set_metadata_many(
        self,
        agent_id: str,
        ids: Sequence[str],
        metadata: MemoryMetadata | None,
        *,
        extra: Mapping[str, Any] | None = None,
    ) -> int:
        changed = await all_answers(
            self._all_of(agent_id), lambda child: child.set_metadata_many(agent_id, ids, metadata, extra=extra)
        )
        return sum(changed)

    async def set_search_notes(self, agent_id: str, notes: Mapping[str, SearchNotes]) -> int:
        there = await all_answers(self._all_of(agent_id), lambda child: child.set_search_notes(agent_id, notes))
        return sum(there)

    async def claim(self, where: Where, token: str) -> int:
        """Mark what matches with the token; return how many carry it now, in all children together."""
        await all_answers(self._matching(where), lambda child: child.claim(where, token))
        # Of the children that cannot match, too: an earlier claim may have marked memories there.
        return await self.count_where(Where(agent_id=where.agent_id, token=token))

    async def unclaim(self, agent_id: str) -> None:
        await all_answers(self._all_of(agent_id), lambda child: child.unclaim(agent_id))

    def _sharing(self) -> SharedKnowledgeStore:
        self._require_connected()
        child = self._default
        if (sharing := sharing_of(child)) is None:
            raise MemoryCapabilityError(f"the default child of the composite, {child.backend_name}, shares nothing")
        return sharing

    async def _misplaced(self, records: Sequence[MemoryRecord]) -> set[str]:
        # Ids in another child than the namespace's: the routes were changed since. A late delivery or an undo would
        # write the memory a second time.
        found: set[str] = set()
        for name, child in self._children.items():
            owners: dict[str, list[str]] = {}
            for record in records:
                if self._child_of(record.entry.namespace) != name:
                    owners.setdefault(record.entry.agent_id, []).append(record.entry.id)
            for agent_id, ids in owners.items():
                found |= {record.entry.id for record in await child.get_many(agent_id, ids)}
        return found

    @property
    def _default(self) -> Child:
        return self._children[self._default_name]

    def _child_of(self, namespace: str) -> str:
        return self._routes.get(namespace, self._default_name)

    def _targets(self, namespaces: Collection[str] | None) -> Mapping[str, Child]:
        """Return the children that can hold memories of these namespaces: all for None, none for no namespace."""
        if namespaces is None:
            return self._children
        names = {self._child_of(namespace) for namespace in namespaces}
        return {name: child for name, child in self._children.items() if name in names}

    def _all_of(self, agent_id: str) -> Mapping[str, Child]:
        self._require_connected(agent_id)
        return self._children

    def _matching(self, where: Where) -> Mapping[str, Child]:
        self._require_connected(where.agent_id)
        return self._targets(where.namespaces)

    def _require_connected(self, agent_id: str | None = None) -> None:
        if not self.is_connected:
            raise MemoryConnectionError("the backend composite is not connected: call connect first")
        if agent_id is not None:
            require_owner_id(agent_id)
