"""mem0's history table, written in batches: additions and deletions, and never a deleted text.

Rows are those of mem0ai 2.2.1, so its own SQLiteManager reads the same file. A memory's rows alternate: ADD with its
text, DELETE without; the ids say which turn it is, so writing a turn twice leaves one row. Deleting takes the text
out of every earlier row of that memory and leaves one DELETE row without text: that the memory existed can be
explained, what it said is gone. A memory that is restored gets a further ADD row with its text.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from sqlalchemy import Connection, delete, select, update

from memcore import ids
from memcore.backends.mem0.schema import iso
from memcore.clock import Clock, utc_now
from memcore.ledger.database import Database, add_new
from memcore.ledger.history import history
from memcore.models.memory import MemoryEntry

#: mem0's words for what happened.
_ADD = "ADD"
_DELETE = "DELETE"

#: Between an ADD row that was never written and the DELETE after it: the least that keeps them in order.
_MOMENT = timedelta(microseconds=1)

_T = TypeVar("_T")

#: Most memories in one statement: well below SQLite's 32,766 bound values.
_CHUNK = 512


@dataclass(frozen=True, slots=True)
class _Turns:
    """The state of one memory by its rows: times deleted, whether it exists, and when it was created."""

    deletes: int = 0
    is_live: bool = False
    is_known: bool = False
    created_at: str | None = None

    @classmethod
    def of(cls, memory_id: str, rows: Sequence[Any]) -> "_Turns":
        if not rows:
            # The usual case, and the ids below are dear: nearly every memory is new.
            return cls()
        adds = sum(row.event == _ADD for row in rows)
        deletes = sum(row.event == _DELETE for row in rows)
        # By number for stock mem0's rows, whose ids are random; by id where an earlier ADD was never written.
        is_live = adds > deletes or _id(memory_id, _ADD, deletes) in {row.id for row in rows}
        created_at = min((row.created_at for row in rows if row.created_at), default=None)
        return cls(deletes=deletes, is_live=is_live, is_known=True, created_at=created_at)


class History:
    """Writes and reads history rows; every method is one transaction.

    Args:
        url: ``sqlite:///FILE`` (stock mem0 reads the same file) or ``postgresql://...``, migrated by migrate_history.
        clock: the time of a deletion, and of an addition that follows one.

    Methods raise MemoryConnectionError when the database cannot be reached, MemoryStoreError or MemoryRetrievalError
    when it refuses.
    """

    def __init__(self, url: str, *, clock: Clock = utc_now) -> None:
        self._database = Database(url, name="history")
        self._clock = clock

    def close(self) -> None:
        """Close what is open."""
        self._database.close()

    def added(self, entries: Sequence[MemoryEntry]) -> list[str]:
        """Write an ADD row for each entry whose last row is not one already; return the ids that follow a DELETE.

        The store must be asked about those again, and ``taken_back`` be called for the ones it does not hold.
        """
        again: list[str] = []
        for chunk in _chunks({entry.id: entry for entry in entries}):
            with self._database.write() as connection:
                turns = _turns(connection, chunk)
                rows = [self._add_row(entry, turns[key]) for key, entry in chunk.items() if not turns[key].is_live]
                add_new(connection, history, sorted(rows, key=_row_id))
                again += [key for key, turn in turns.items() if turn.deletes and not turn.is_live]
        return again

    def taken_back(self, memory_ids: Iterable[str]) -> None:
        """Drop the ADD row after the last DELETE of memories that are gone: it came late, and has the text with it."""
        for chunk in _chunks(dict.fromkeys(memory_ids)):
            with self._database.write() as connection:
                late = [_id(key, _ADD, turn.deletes) for key, turn in _turns(connection, chunk).items() if turn.deletes]
                connection.execute(delete(history).where(history.c.id.in_(late)))

    def deleted(self, memory_ids: Iterable[str]) -> None:
        """Take the text out of all rows of these memories, and write a DELETE row for each that has none yet.

        A memory without any row gets an ADD row too, without text.
        """
        at = self._clock()
        now, before = iso(at), iso(at - _MOMENT)
        for chunk in _chunks(dict.fromkeys(memory_ids)):
            with self._database.write() as connection:
                turns = _turns(connection, chunk)
                rows = [
                    _row(key, _DELETE, turn.deletes, created_at=turn.created_at or before, updated_at=now)
                    for key, turn in turns.items()
                    if turn.is_live or not turn.is_known
                ]
                # A worker may die between writing a memory and its ADD row, and the memory be removed before its job
                # comes back, which then finds it tombstoned: without this row it would have ended and never begun.
                rows += [
                    _row(key, _ADD, turn.deletes, created_at=before, updated_at=before)
                    for key, turn in turns.items()
                    if not turn.is_known
                ]
                add_new(connection, history, sorted(rows, key=_row_id))
                # Last: on PostgreSQL an ADD row under way is seen only once the insert has waited for it.
                connection.execute(
                    update(history).where(history.c.memory_id.in_(list(chunk))).values(old_memory=None, new_memory=None)
                )

    def kept(self, entries: Sequence[MemoryEntry]) -> None:
        """Revert ``deleted`` for entries that stay: their text returns, the DELETE row goes."""
        for chunk in _chunks({entry.id: entry for entry in entries}):
            with self._database.write() as connection:
                for key, turn in _turns(connection, chunk).items():
                    ended = turn.deletes - 1
                    connection.execute(delete(history).where(history.c.id == _id(key, _DELETE, ended)))
                    connection.execute(
                        update(history)
                        .where(history.c.id == _id(key, _ADD, ended))
                        .values(new_memory=chunk[key].content)
                    )

    def rows_of(self, memory_id: str) -> list[dict[str, Any]]:
        """Return a memory's rows, oldest first, in mem0's columns."""
        statement = (
            select(history).where(history.c.memory_id == memory_id).order_by(history.c.created_at, history.c.updated_at)
        )
        with self._database.read() as connection:
            return [dict(row) for row in connection.execute(statement).mappings()]

    def _add_row(self, entry: MemoryEntry, turn: _Turns) -> dict[str, Any]:
        stored_at = entry.updated_at or entry.created_at
        return _row(
            entry.id,
            _ADD,
            turn.deletes,
            # mem0 sorts by creation, then by update: a restored memory must come after its deletion.
            created_at=turn.created_at or iso(entry.created_at),
            updated_at=iso(self._clock() if turn.deletes else stored_at),
            text=entry.content,
        )


def _turns(connection: Connection, memory_ids: Iterable[str]) -> dict[str, _Turns]:
    found: dict[str, list[Any]] = {key: [] for key in memory_ids}
    columns = (history.c.id, history.c.memory_id, history.c.event, history.c.created_at)
    for row in connection.execute(select(*columns).where(history.c.memory_id.in_(list(found)))):
        found[row.memory_id].append(row)
    return {key: _Turns.of(key, rows) for key, rows in found.items()}


def _id(memory_id: str, event: str, turn: int) -> str:
    return ids.history_id(memory_id=memory_id, event=event, at=str(turn))


def _row(
    memory_id: str, event: str, turn: int, *, created_at: str, updated_at: str, text: str | None = None
) -> dict[str, Any]:
    return {
        "id": _id(memory_id, event, turn),
        "memory_id": memory_id,
        "old_memory": None,
        "new_memory": text,
        "event": event,
        "created_at": created_at,
        "updated_at": updated_at,
        "is_deleted": int(event == _DELETE),
        "actor_id": None,
        "role": None,
    }


def _row_id(row: Mapping[str, Any]) -> str:
    return str(row["id"])


def _chunks(items: dict[str, _T]) -> Iterable[dict[str, _T]]:
    keys = list(items)
    return ({key: items[key] for key in keys[at : at + _CHUNK]} for at in range(0, len(keys), _CHUNK))
