"""Lines of the organisation's log that the vector store does not show yet."""

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, delete, func, or_, select

from memcore.ledger.engine import Database
from memcore.ledger.ledger_tables import org_log, org_outbox
from memcore.ledger.org_rows import operation_of
from memcore.org_models import OperationLogEntry

#: Most lines read at once: their texts are at most 64 KiB each.
MAX_LINES = 64


class OrgOutbox:
    """The org_outbox table; every method is one short transaction. OrgLog writes its rows, each with its line.

    Args:
        database: the ledger.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def pending(
        self,
        company: str,
        *,
        fact_id: str | None = None,
        after: OperationLogEntry | None = None,
        limit: int = MAX_LINES,
    ) -> tuple[OperationLogEntry, ...]:
        """Return lines that the store does not show yet, oldest first, those of one fact in their order.

        Args:
            company: whose lines.
            fact_id: only this fact's.
            after: the last line of the page before.
            limit: most lines.
        """
        out, same_line = org_outbox.c, [org_log.c[name] == org_outbox.c[name] for name in ("fact_id", "version")]
        query = (
            select(org_log)
            .join_from(org_outbox, org_log, and_(*same_line))
            .where(out.company == company, org_log.c.company == company)
            .order_by(out.at, out.fact_id, out.version)
        )
        if fact_id is not None:
            query = query.where(out.fact_id == fact_id)
        if after is not None:
            at, of_fact = out.at == after.timestamp, out.fact_id == after.fact_id
            later = and_(at, or_(out.fact_id > after.fact_id, and_(of_fact, out.version > after.version)))
            query = query.where(or_(out.at > after.timestamp, later))
        with self._database.read() as connection:
            rows = connection.execute(query.limit(min(limit, MAX_LINES))).mappings()
            return tuple(operation_of(dict(row)) for row in rows)

    def count(self, company: str) -> int:
        """Return how many lines the store does not show yet."""
        query = select(func.count()).select_from(org_outbox).where(org_outbox.c.company == company)
        with self._database.read() as connection:
            return int(connection.execute(query).scalar_one())

    def shown(self, company: str, fact_id: str, version: int) -> None:
        """Note that the store shows a line; a second note changes nothing."""
        mine = (org_outbox.c.company == company) & (org_outbox.c.fact_id == fact_id)
        with self._database.write() as connection:
            connection.execute(delete(org_outbox).where(mine, org_outbox.c.version == version))


def wait_for_the_store(connection: Connection, *, company: str, fact_id: str, version: int, at: datetime) -> None:
    """Write down, in the transaction of a line, that the store has yet to show it."""
    row: dict[str, Any] = {"company": company, "fact_id": fact_id, "version": version, "at": at}
    connection.execute(org_outbox.insert().values(row))
