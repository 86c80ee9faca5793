"""Uses: which memories agents were shown, how often, and when last."""

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, case, delete, select

from memcore.jobs.payloads import Use
from memcore.ledger.database import Repository, equals, insert_for, insert_one, rows_with
from memcore.ledger.journal import tombstoned
from memcore.ledger.tables import memory_use, use_batches

#: How long a batch is remembered as counted: far longer than a broker goes on bringing a message back.
_BATCH_MEMORY = timedelta(days=30)


class Uses(Repository):
    """The table of uses.

    It lies beside the tombstones: a memory's uses go when its removal is settled, and a late batch brings none back.
    """

    def count(self, company: str, batch_id: str, uses: Sequence[Use]) -> int:
        """Add the uses to what is known and return how many memories were counted.

        A batch that was counted before adds nothing, and neither does a memory that was removed since it was used.
        """
        now = self._clock()
        with self._database.write() as connection:
            if not insert_one(connection, use_batches, {"batch_id": batch_id, "counted_at": now}):
                return 0
            connection.execute(delete(use_batches).where(use_batches.c.counted_at < now - _BATCH_MEMORY))
            rows = _summed(company, uses)
            gone = tombstoned(connection, {row["memory_id"]: row["last_used_at"] for row in rows})
            kept = [row for row in rows if row["memory_id"] not in gone]
            if kept:
                _add(connection, kept)
        return len(kept)

    def of(self, company: str, agent_id: str, ids: Collection[str]) -> dict[str, Use]:
        """Return how often this agent was shown each of these memories; one that it was never shown is left out."""
        query = select(*(memory_use.c[name] for name in Use.model_fields))
        query = query.where(equals(memory_use, company=company, agent_id=agent_id))
        with self._database.read() as connection:
            rows = rows_with(connection, query, memory_use.c.memory_id, ids)
            return {row["memory_id"]: Use.model_construct(**row) for row in rows}


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


def _add(connection: Connection, rows: list[dict[str, Any]]) -> None:
    table, fresh = memory_use.c, insert_for(connection, memory_use)
    newest = case(
        (fresh.excluded.last_used_at > table.last_used_at, fresh.excluded.last_used_at), else_=table.last_used_at
    )
    sums = {"uses": table.uses + fresh.excluded.uses, "last_used_at": newest}
    connection.execute(fresh.on_conflict_do_update(index_elements=list(memory_use.primary_key), set_=sums), rows)
