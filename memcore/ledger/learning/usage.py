"""Uses: which memories agents were shown, how often, and when last."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Table, case, delete, select

from memcore.clock import Clock
from memcore.jobs.payloads import Use
from memcore.ledger.database import Database, insert_for
from memcore.ledger.journal_tables import memory_use, use_batches
from memcore.ledger.tombstones import id_chunks, tombstoned

#: How long a batch is remembered as counted: far longer than a broker goes on bringing a message back.
_BATCH_MEMORY = timedelta(days=30)


class Uses:
    """The table of uses; every method is one short transaction.

    It lies beside the tombstones: a memory's uses go when its removal is settled, and a late batch brings none back.

    Args:
        database: the journal.
        clock: what time it is.
    """

    def __init__(self, database: Database, *, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def count(self, company: str, batch_id: str, uses: Sequence[Use]) -> int:
        """Add the uses to what is known and return how many memories were counted.

        A batch that was counted before adds nothing, and neither does a memory that was removed since it was used.
        """
        now = self._clock()
        with self._database.write() as connection:
            if not _is_new(connection, batch_id, now):
                return 0
            connection.execute(delete(use_batches).where(use_batches.c.counted_at < now - _BATCH_MEMORY))
            rows = _summed(company, uses)
            gone = tombstoned(connection, {row["memory_id"]: row["last_used_at"] for row in rows})
            kept = [row for row in rows if row["memory_id"] not in gone]
            if kept:
                _add(connection, memory_use, kept)
        return len(kept)

    def of(self, company: str, agent_id: str, ids: Collection[str]) -> dict[str, Use]:
        """Return how often this agent was shown each of these memories; one that it was never shown is left out."""
        known = (memory_use.c.company == company) & (memory_use.c.agent_id == agent_id)
        columns = (memory_use.c.memory_id, memory_use.c.uses, memory_use.c.last_used_at)
        found: dict[str, Use] = {}
        with self._database.read() as connection:
            for part in id_chunks(sorted(ids)):
                for memory_id, uses, at in connection.execute(
                    select(*columns).where(known, memory_use.c.memory_id.in_(part))
                ):
                    found[memory_id] = Use.model_construct(
                        agent_id=agent_id, memory_id=memory_id, uses=uses, last_used_at=at
                    )
        return found


def _is_new(connection: Connection, batch_id: str, now: datetime) -> bool:
    statement = insert_for(connection, use_batches).values(batch_id=batch_id, counted_at=now)
    new = statement.on_conflict_do_nothing().returning(use_batches.c.batch_id)
    return connection.execute(new).scalar_one_or_none() is not None


def _summed(company: str, uses: Sequence[Use]) -> list[dict[str, Any]]:
    # In one order everywhere: two writers that lock rows in different orders deadlock on PostgreSQL.
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for use in sorted(uses, key=lambda each: (each.agent_id, each.memory_id)):
        row = rows.setdefault(
            (use.agent_id, use.memory_id),
            {
                "company": company,
                "agent_id": use.agent_id,
                "memory_id": use.memory_id,
                "uses": 0,
                "last_used_at": use.last_used_at,
            },
        )
        row["uses"] += use.uses
        row["last_used_at"] = max(row["last_used_at"], use.last_used_at)
    return list(rows.values())


def _add(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    fresh = insert_for(connection, table)
    newest = case(
        (fresh.excluded.last_used_at > table.c.last_used_at, fresh.excluded.last_used_at), else_=table.c.last_used_at
    )
    again = fresh.on_conflict_do_update(
        index_elements=[table.c.company, table.c.agent_id, table.c.memory_id],
        set_={"uses": table.c.uses + fresh.excluded.uses, "last_used_at": newest},
    )
    connection.execute(again, rows)


def forget_uses(connection: Connection, ids: Any) -> None:
    """Forget all uses of these memories, given as a query: they are removed."""
    connection.execute(delete(memory_use).where(memory_use.c.memory_id.in_(ids)))
