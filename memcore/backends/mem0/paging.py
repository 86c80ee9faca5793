"""Pages of memories in the order of their creation, ties by id, cut and ordered by the store.

Qdrant's ordered scroll has no cursor and breaks ties as it likes; its scroll by id has a cursor and no order. So the
pages follow the creation time, and a group of memories of one time that a page would cut is read by id.
"""

from collections.abc import Callable
from dataclasses import dataclass

from qdrant_client import QdrantClient
from qdrant_client.models import Condition, Direction, Filter, OrderBy, Record

from memcore.backends.mem0.payload import Key
from memcore.backends.mem0.where import created
from memcore.errors import MemoryInputError


@dataclass(frozen=True, slots=True)
class Position:
    """How far a scan has come: everything up to this time; of this time itself up to this id, or all of it."""

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
    """Read one page after another.

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
