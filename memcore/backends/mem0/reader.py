"""The reader of a collection: by id, by filter and in order, always with the owner's filter."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from qdrant_client import QdrantClient
from qdrant_client.models import Condition, Direction, Filter, OrderBy, Record

from memcore.backends.mem0.filters import created, expired, of_query, of_where, owned, with_ids
from memcore.backends.mem0.points import to_records
from memcore.backends.mem0.schema import Key
from memcore.backends.protocol import MAX_PAGE
from memcore.errors import MemoryInputError
from memcore.ids import memory_ids
from memcore.models.memory import MemoryEntry, MemoryQuery
from memcore.records import MemoryRecord, Page, Scope, Where

# Qdrant's ordered scroll has no cursor and breaks ties as it likes; its scroll by id has a cursor and no order. So
# the pages follow the creation time, and a group of memories of one time that a page would cut is read by id.


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a scan: all memories before this time are read, and those of this time up to the id."""

    at: float
    memory_id: str | None = None

    def __str__(self) -> str:
        return f"{self.at!r} {self.memory_id or ''}".rstrip()

    @classmethod
    def parse(cls, cursor: str) -> "Position":
        """Read a cursor back; MemoryInputError when it is none of ours."""
        at, _, memory_id = cursor.partition(" ")
        try:
            return cls(float(at), memory_id or None)
        except ValueError:
            raise MemoryInputError("cursor", "must be one that a page of the same scan gave") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pager:
    """Reads one page after another.

    Attributes:
        narrowed: makes the scan's filter, narrowed by further conditions.
    """

    client: QdrantClient
    collection: str
    narrowed: Callable[..., Filter]
    direction: Direction = Direction.ASC
    with_vectors: bool = False

    def page(self, after: Position | None, limit: int) -> tuple[list[Record], Position | None]:
        """Return up to ``limit`` points that follow the position, and the position to go on from if there are more."""
        found: list[Record] = []
        if after is not None and after.memory_id is not None:
            found = self._of_one_time(after.at, after.memory_id, limit + 1)
        # One more than a page: it tells whether there is another page, and whether this one cuts a group of one time.
        while (wanted := limit + 1 - len(found)) > 0:
            rows = self._in_order(None if after is None else after.at, wanted)
            if len(rows) < wanted:
                return found + sorted(rows, key=self._rank), None
            cut = _time(rows[-1])
            found += sorted((row for row in rows if _time(row) != cut), key=self._rank)
            if len(found) == limit:
                return found, Position(_time(found[-1]))
            found += self._of_one_time(cut, None, limit + 1 - len(found))
            after = Position(cut)
        page, following = found[:limit], found[limit]
        last = page[-1]
        is_cut = _time(last) == _time(following)
        return page, Position(_time(last), str(last.id) if is_cut else None)

    def _in_order(self, after: float | None, limit: int) -> list[Record]:
        conditions: list[Condition] = []
        if after is not None:
            conditions = [created(after=after) if self.direction is Direction.ASC else created(before=after)]
        rows, _ = self.client.scroll(
            self.collection,
            scroll_filter=self.narrowed(*conditions),
            limit=limit,
            order_by=OrderBy(key=Key.CREATED_TS.value, direction=self.direction),
            with_payload=True,
            with_vectors=self.with_vectors,
        )
        return rows

    def _of_one_time(self, at: float, after_id: str | None, limit: int) -> list[Record]:
        rows, _ = self.client.scroll(
            self.collection,
            scroll_filter=self.narrowed(created(exactly=at)),
            limit=limit + 1,
            offset=after_id,
            with_payload=True,
            with_vectors=self.with_vectors,
        )
        # The offset is the first id to return, and it was returned before.
        return [row for row in rows if row.id != after_id][:limit]

    def _rank(self, row: Record) -> tuple[float, str]:
        at = _time(row)
        return at if self.direction is Direction.ASC else -at, str(row.id)


def _time(row: Record) -> float:
    return float((row.payload or {})[Key.CREATED_TS.value])


#: Values asked for at once when a key's values are listed: more than nearly every agent has sessions.
_VALUES = 1_000


class Reader:
    """Reads one collection with a sync client.

    Args:
        client: the store.
        collection: its name.
        space: the space of its vectors.
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
