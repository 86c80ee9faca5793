"""Whose memories were written while a new collection is filled, so that they are compared again.

A writer marks before its write, and its write counts only when the mark still stands behind it and nobody has begun to
compare. So of every write that counts, a comparison begins after it.
"""

from collections.abc import Collection

from sqlalchemy import Connection, and_, delete, func, select, update

from memcore.ledger.engine import Database
from memcore.ledger.insert import insert_for
from memcore.ledger.serving_tables import reindex_marks, serving

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
        """Mark these owners, unless they are marked and nobody has begun to compare them."""
        if not owners:
            return
        with self._database.read() as connection:
            if _all_stand(connection, company, owners):
                return
        # In one order everywhere: two writers that lock in different orders deadlock on PostgreSQL.
        rows = [{"company": company, "owner": owner, "taken_by": None} for owner in sorted(set(owners))]
        with self._database.write() as connection:
            statement = insert_for(connection, reindex_marks).values(rows)
            connection.execute(
                statement.on_conflict_do_update(index_elements=["company", "owner"], set_={"taken_by": None})
            )

    def counts(self, company: str, *, version: int, owners: Collection[str] = ()) -> bool:
        """Say whether a write counts: the row is as it was before the write, and the marks of its owners stand."""
        with self._database.read() as connection:
            if not _all_stand(connection, company, owners):
                return False
            query = select(serving.c.version).where(serving.c.company == company)
            return connection.execute(query).scalar_one_or_none() == version

    def take(self, company: str, token: str, *, limit: int) -> tuple[str, ...]:
        """Take some marked owners to be compared; those that a dead worker took come again."""
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


def _all_stand(connection: Connection, company: str, owners: Collection[str]) -> bool:
    wanted = set(owners)
    if not wanted:
        return True
    these = and_(reindex_marks.c.company == company, _OWNER.in_(sorted(wanted)), _TAKEN.is_(None))
    query = select(func.count()).select_from(reindex_marks).where(these)
    return connection.execute(query).scalar_one() == len(wanted)
