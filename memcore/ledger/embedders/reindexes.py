"""Reindexes: the progress and the lease of each, and the marks that writers leave for it."""

from collections.abc import Collection
from datetime import timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, and_, delete, func, or_, select, update

from memcore import ids
from memcore.clock import Clock
from memcore.ledger.database import Database, insert_for
from memcore.ledger.tables import pointer, reindex_marks, reindexes
from memcore.models.base import Frozen
from memcore.models.memory import BoundedTime


class ReindexKind(StrEnum):
    """The direction of a reindex."""

    #: To a collection that a new embedder fills.
    FORWARD = "forward"
    #: To the collection that was kept from before.
    BACK = "back"


class ReindexStage(StrEnum):
    """The stage of a reindex; the last two are its ends."""

    COPYING = "copying"
    CATCHING_UP = "catching_up"
    SETTLING = "settling"
    DONE = "done"
    CANCELLED = "cancelled"


class Reindex(Frozen):
    """A reindex's row.

    Attributes:
        cursor: the id from which the copying goes on; None at its beginning.
        looked_at: points compared in the copying.
        total: points that there were when it began.
        written: points written to, or taken out of, the new collection.
        passed_over: points that are no memory and stay behind.
        freezes: how often writes were stopped for the switch.
        rung_at: when its message was last sent, or a slice of it ended.
        trouble: why it makes no progress, as an error's name; None when it does.
    """

    reindex_id: str
    kind: ReindexKind
    stage: ReindexStage
    cursor: str | None = None
    looked_at: int = 0
    total: int
    written: int = 0
    passed_over: int = 0
    freezes: int = 0
    token: str | None = None
    lease_until: BoundedTime | None = None
    rung_at: BoundedTime
    started_at: BoundedTime
    finished_at: BoundedTime | None = None
    trouble: str | None = None

    @property
    def fraction(self) -> float:
        """How much of it is done, 0 to 1; what remains after the copying counts as a tenth."""
        if self.finished_at is not None:
            return 1.0
        if self.stage is not ReindexStage.COPYING:
            return 0.9 if self.stage is ReindexStage.CATCHING_UP else 0.99
        return 0.9 * min(1.0, self.looked_at / self.total) if self.total else 0.0


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

    def claim(self, company: str, *, lease: timedelta) -> Reindex | None:
        """Claim the open reindex; None when there is none, or another worker has it."""
        now = self._clock()
        free = or_(reindexes.c.token.is_(None), reindexes.c.lease_until < now)
        values = {"token": ids.new_id(), "lease_until": now + lease, "trouble": None}
        return self._changed(and_(reindexes.c.company == company, _OPEN, free), values)

    def renew(self, company: str, token: str, *, lease: timedelta) -> bool:
        """Renew the lease; False when another worker has it, or it has ended."""
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
        """Save the progress, and add to the counts; None when another worker has it."""
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

    def release(self, company: str, token: str, *, trouble: str | None = None) -> bool:
        """Release it, to be dispatched again; False when another worker has it, or it has ended."""
        values = {"token": None, "lease_until": None, "rung_at": self._clock(), "trouble": trouble}
        return self._held(company, token, values) is not None

    def waiting(self, company: str, *, dispatched_before: timedelta) -> bool:
        """Return whether its message must be lost, and mark it as dispatched now if so."""
        now, table = self._clock(), reindexes.c
        free = or_(table.token.is_(None), table.lease_until < now)
        lost = and_(table.company == company, _OPEN, free, table.rung_at < now - dispatched_before)
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


# A writer marks before its write. The write counts only if the mark still stands after it and no comparison has begun.
# So every write that counts is compared later.

_OWNER = reindex_marks.c.owner
_TAKEN = reindex_marks.c.taken_by


class ReindexMarks:
    """The reindex_marks table, and the check that ends every write.

    Args:
        database: the ledger.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def mark(self, company: str, owners: Collection[str]) -> None:
        """Mark these owners, unless they are marked and no comparison of them has begun."""
        if not owners:
            return
        with self._database.read() as connection:
            if _all_marked(connection, company, owners):
                return
        # In one order everywhere: two writers that lock in different orders deadlock on PostgreSQL.
        rows = [{"company": company, "owner": owner, "taken_by": None} for owner in sorted(set(owners))]
        with self._database.write() as connection:
            statement = insert_for(connection, reindex_marks).values(rows)
            connection.execute(
                statement.on_conflict_do_update(index_elements=["company", "owner"], set_={"taken_by": None})
            )

    def counts(self, company: str, *, version: int, owners: Collection[str] = ()) -> bool:
        """Return whether a write counts: the pointer is as it was before it, and the marks of its owners stand."""
        with self._database.read() as connection:
            if not _all_marked(connection, company, owners):
                return False
            query = select(pointer.c.version).where(pointer.c.company == company)
            return connection.execute(query).scalar_one_or_none() == version

    def take(self, company: str, token: str, *, limit: int) -> tuple[str, ...]:
        """Claim marked owners to compare; those that a dead worker claimed come again."""
        free = and_(reindex_marks.c.company == company, _TAKEN.is_distinct_from(token))
        with self._database.write() as connection:
            query = select(_OWNER).where(free).order_by(_OWNER).limit(limit).with_for_update()
            owners = tuple(connection.execute(query).scalars())
            if owners:
                these = and_(reindex_marks.c.company == company, _OWNER.in_(owners))
                connection.execute(update(reindex_marks).where(these).values(taken_by=token))
        return owners

    def compared(self, company: str, token: str, owners: Collection[str]) -> None:
        """Drop the marks of owners that were compared, but for those marked anew meanwhile."""
        these = and_(reindex_marks.c.company == company, _OWNER.in_(owners), _TAKEN.is_not_distinct_from(token))
        with self._database.write() as connection:
            connection.execute(delete(reindex_marks).where(these))

    def count(self, company: str) -> int:
        """Return how many owners are marked."""
        query = select(func.count()).select_from(reindex_marks).where(reindex_marks.c.company == company)
        with self._database.read() as connection:
            return connection.execute(query).scalar_one()


def _all_marked(connection: Connection, company: str, owners: Collection[str]) -> bool:
    wanted = set(owners)
    if not wanted:
        return True
    these = and_(reindex_marks.c.company == company, _OWNER.in_(sorted(wanted)), _TAKEN.is_(None))
    query = select(func.count()).select_from(reindex_marks).where(these)
    return connection.execute(query).scalar_one() == len(wanted)
