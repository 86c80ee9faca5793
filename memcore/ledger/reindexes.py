"""How far a company's reindex has come; one worker at a time carries it on, under a lease."""

from datetime import timedelta
from typing import Any

from sqlalchemy import and_, or_, select, update

from memcore import ids
from memcore.clock import Clock
from memcore.ledger.engine import Database
from memcore.ledger.reindex import Reindex, ReindexStage
from memcore.ledger.serving_tables import reindexes

_COLUMNS = [reindexes.c[name] for name in Reindex.model_fields]

#: A reindex that has not ended.
_OPEN = reindexes.c.finished_at.is_(None)


class Reindexes:
    """The reindexes table; every method is one short transaction.

    Args:
        database: the ledger.
        clock: the time.
    """

    def __init__(self, database: Database, *, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def get(self, company: str) -> Reindex | None:
        """Return the company's reindex, the last one when it has ended; None when there was none."""
        with self._database.read() as connection:
            query = select(*_COLUMNS).where(reindexes.c.company == company)
            row = connection.execute(query).mappings().one_or_none()
        return Reindex.model_validate(dict(row)) if row else None

    def take(self, company: str, *, lease: timedelta) -> Reindex | None:
        """Take the open reindex in hand; None when there is none, or another worker has it."""
        now = self._clock()
        free = or_(reindexes.c.token.is_(None), reindexes.c.lease_until < now)
        values = {"token": ids.new_id(), "lease_until": now + lease, "trouble": None}
        return self._changed(and_(reindexes.c.company == company, _OPEN, free), values)

    def renew(self, company: str, token: str, *, lease: timedelta) -> bool:
        """Keep it for another lease; False when another worker has it, or it has ended."""
        return self._held(company, token, {"lease_until": self._clock() + lease}) is not None

    def advance(
        self,
        company: str,
        token: str,
        *,
        stage: ReindexStage,
        cursor: str | None = None,
        looked_at: int = 0,
        written: int = 0,
        passed_over: int = 0,
        freezes: int = 0,
    ) -> Reindex | None:
        """Save how far it has come, with these added to its counts; None when another worker has it."""
        table = reindexes.c
        values = {
            "stage": stage.value,
            "cursor": cursor,
            "looked_at": table.looked_at + looked_at,
            "written": table.written + written,
            "passed_over": table.passed_over + passed_over,
            "freezes": table.freezes + freezes,
        }
        return self._held(company, token, values)

    def give_back(self, company: str, token: str, *, trouble: str | None = None) -> bool:
        """Let go of it, to be rung for again; False when another worker has it, or it has ended."""
        values = {"token": None, "lease_until": None, "rung_at": self._clock(), "trouble": trouble}
        return self._held(company, token, values) is not None

    def waiting(self, company: str, *, rung_before: timedelta) -> bool:
        """Say whether it waits for a message that must be lost, and note that one is sent now."""
        now, table = self._clock(), reindexes.c
        free = or_(table.token.is_(None), table.lease_until < now)
        lost = and_(table.company == company, _OPEN, free, table.rung_at < now - rung_before)
        with self._database.read() as connection:
            if connection.execute(select(table.company).where(lost)).scalar_one_or_none() is None:
                return False  # most sweeps end here, and take no lock
        return self._changed(lost, {"rung_at": now}) is not None

    def _held(self, company: str, token: str, values: dict[str, Any]) -> Reindex | None:
        return self._changed(and_(reindexes.c.company == company, reindexes.c.token == token, _OPEN), values)

    def _changed(self, where: Any, values: dict[str, Any]) -> Reindex | None:
        with self._database.write() as connection:
            query = update(reindexes).where(where).values(**values).returning(*_COLUMNS)
            row = connection.execute(query).mappings().one_or_none()
        return Reindex.model_validate(dict(row)) if row else None
