"""What is read by id, by filter and in order; every read asks the store for exactly the owner's points."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from qdrant_client import QdrantClient
from qdrant_client.models import Condition, Direction, Filter

from memcore.backends.mem0.paging import Pager, Position
from memcore.backends.mem0.points import to_records
from memcore.backends.mem0.where import expired, of_query, of_where, owned, with_ids
from memcore.backends.owner import memory_ids
from memcore.backends.protocol import MAX_PAGE
from memcore.backends.record import MemoryRecord, Page
from memcore.backends.where import Scope, Where
from memcore.models import MemoryEntry, MemoryQuery

#: Values asked for at once when a key's values are listed: more than nearly every agent has sessions.
_VALUES = 1_000


class Reader:
    """Read one collection with a sync client.

    Args:
        client: the store.
        collection: its name.
        space: what its vectors mean.
    """

    def __init__(self, client: QdrantClient, collection: str, *, space: str) -> None:
        self._client = client
        self._collection = collection
        self._space = space

    def get(self, agent_id: str, memory_id: str, *, now: datetime) -> MemoryEntry | None:
        """Return this agent's memory, or None when it has none with that id or it has expired."""
        found = self._with_ids(owned(agent_id, with_ids([memory_id]), but_not=expired(now)), 1, with_vectors=False)
        return found[0].entry if found else None

    def get_many(self, agent_id: str, ids: Sequence[str], *, with_vectors: bool) -> tuple[MemoryRecord, ...]:
        """Return those of the ids that this agent has, in the order asked for, expired ones included."""
        wanted = memory_ids(ids)
        found: dict[str, MemoryRecord] = {}
        for chunk in chunks(wanted):
            records = self._with_ids(owned(agent_id, with_ids(chunk)), len(chunk), with_vectors=with_vectors)
            found.update((record.entry.id, record) for record in records)
        return tuple(found[memory_id] for memory_id in wanted if memory_id in found)

    def newest(self, agent_id: str, query: MemoryQuery, *, now: datetime) -> tuple[MemoryEntry, ...]:
        """Return what matches a query without a text, newest first."""

        def narrowed(*conditions: Condition) -> Filter:
            return of_query(agent_id, query, *conditions, now=now)

        pager = Pager(client=self._client, collection=self._collection, narrowed=narrowed, direction=Direction.DESC)
        rows, _ = pager.page(None, query.limit)
        return tuple(record.entry for record in to_records(rows))

    def count(self, where: Where) -> int:
        """Return the exact number of matches, expired ones included."""
        return self._client.count(self._collection, count_filter=of_where(where), exact=True).count

    def scopes(self, where: Where, scope: Scope) -> frozenset[str]:
        """Return every session, project or task that a match was stored in."""
        limit = _VALUES
        while True:
            found = self._client.facet(
                self._collection, key=scope, facet_filter=of_where(where), limit=limit, exact=True
            ).hits
            # The store has no cursor here: a full answer may have been cut, so more are asked for.
            if len(found) < limit:
                return frozenset(str(hit.value) for hit in found)
            limit *= 8

    def scan(self, where: Where, *, cursor: str | None, limit: int, with_vectors: bool) -> Page:
        """Return the next page of matches, oldest first, ties by id."""

        def narrowed(*conditions: Condition) -> Filter:
            return of_where(where, *conditions)

        pager = Pager(client=self._client, collection=self._collection, narrowed=narrowed, with_vectors=with_vectors)
        after = None if cursor is None else Position.parse(cursor)
        rows, following = pager.page(after, max(1, min(limit, MAX_PAGE)))
        records = tuple(to_records(rows, space=self._space))
        return Page(records=records, cursor=None if following is None else str(following))

    def _with_ids(self, narrowed: Filter, limit: int, *, with_vectors: bool) -> list[MemoryRecord]:
        # A scroll, not a retrieve by id: only a scroll takes the owner's filter.
        rows, _ = self._client.scroll(
            self._collection, scroll_filter=narrowed, limit=limit, with_payload=True, with_vectors=with_vectors
        )
        return to_records(rows, space=self._space)


def chunks(ids: Sequence[str]) -> Iterable[Sequence[str]]:
    """Cut a list of ids into pieces of one request's size."""
    return (ids[at : at + MAX_PAGE] for at in range(0, len(ids), MAX_PAGE))
