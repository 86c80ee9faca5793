"""Jobs that were given up, kept whole for a person to replay: a store job holds the only copy of its memories."""

from collections.abc import Collection
from datetime import datetime

from pydantic import Field
from sqlalchemy import ColumnElement, delete, func, select

from memcore.clock import BoundedTime, Clock
from memcore.frozen import Frozen
from memcore.ledger.engine import Database
from memcore.ledger.insert import insert_for
from memcore.ledger.ledger_tables import dead_letters


class NewDeadLetter(Frozen):
    """A job to be kept because nothing will run it any more.

    Attributes:
        payload: the job's JSON, memories and all; never shown in a repr or a log.
        reason: why it was given up, without memory text.
    """

    job_id: str
    company: str
    job: str
    queue: str
    payload: str = Field(repr=False)
    reason: str
    attempts: int


class DeadLetter(NewDeadLetter):
    """A job that was given up, and when."""

    died_at: BoundedTime


class DeadLetters:
    """The dead letters table; every method is one short transaction.

    Args:
        database: the ledger.
        clock: what time it is.
    """

    def __init__(self, database: Database, *, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def put(self, letter: NewDeadLetter) -> None:
        """Keep the job; one that died before under the same id dies anew, now, for this reason."""
        row = {**letter.model_dump(), "died_at": self._clock()}
        with self._database.write() as connection:
            # A replayed job may die before its replay is settled: with the older time left in the row, settling
            # would drop the new letter.
            fresh = insert_for(connection, dead_letters).values(row)
            connection.execute(fresh.on_conflict_do_update(index_elements=[dead_letters.c.job_id], set_=row))

    def get(self, job_id: str) -> DeadLetter | None:
        """Return the letter, or None."""
        query = select(dead_letters).where(dead_letters.c.job_id == job_id)
        with self._database.read() as connection:
            row = connection.execute(query).mappings().one_or_none()
        return DeadLetter.model_validate(dict(row)) if row else None

    def list(self, company: str, *, limit: int = 50) -> tuple[DeadLetter, ...]:
        """Return a company's letters, newest first."""
        newest = dead_letters.c.died_at.desc()
        query = select(dead_letters).where(dead_letters.c.company == company).order_by(newest).limit(limit)
        with self._database.read() as connection:
            return tuple(DeadLetter.model_validate(dict(row)) for row in connection.execute(query).mappings())

    def ids(self, company: str) -> "tuple[str, ...]":
        """Return the ids of a company's letters, oldest first: payloads of all of them need not fit into memory."""
        query = select(dead_letters.c.job_id).where(dead_letters.c.company == company).order_by(dead_letters.c.died_at)
        with self._database.read() as connection:
            return tuple(connection.execute(query).scalars())

    def count(self, company: str) -> int:
        """Return how many letters a company has."""
        query = select(func.count()).select_from(dead_letters).where(dead_letters.c.company == company)
        with self._database.read() as connection:
            return connection.execute(query).scalar_one()

    def older(self, company: str, *, before: datetime) -> int:
        """Return how many of a company's letters died before a time."""
        query = select(func.count()).select_from(dead_letters).where(_older(company, before))
        with self._database.read() as connection:
            return connection.execute(query).scalar_one()

    def remove(self, letter: DeadLetter) -> bool:
        """Drop exactly this letter, after its job was sent again; one that died anew meanwhile stays."""
        same = (dead_letters.c.job_id == letter.job_id) & (dead_letters.c.died_at == letter.died_at)
        return self._drop(same) > 0

    def purge(self, company: str, job_ids: Collection[str]) -> int:
        """Drop these letters of a company for good and return how many there were."""
        return self._drop((dead_letters.c.company == company) & dead_letters.c.job_id.in_(job_ids))

    def purge_older(self, company: str, *, before: datetime) -> int:
        """Drop a company's letters that died before a time, for good, and return how many there were."""
        return self._drop(_older(company, before))

    def _drop(self, which: ColumnElement[bool]) -> int:
        with self._database.write() as connection:
            return connection.execute(delete(dead_letters).where(which)).rowcount


def _older(company: str, before: datetime) -> ColumnElement[bool]:
    return (dead_letters.c.company == company) & (dead_letters.c.died_at < before)
