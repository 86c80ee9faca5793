"""How often jobs were started after their worker had died; a job that nothing happens to leaves no row."""

from sqlalchemy import delete, select

from memcore.clock import Clock
from memcore.ledger.engine import Database
from memcore.ledger.insert import insert_for
from memcore.ledger.ledger_tables import attempts


class Attempts:
    """The attempts table; every method is one short transaction.

    Args:
        database: the ledger.
        clock: what time it is.
    """

    def __init__(self, database: Database, *, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def count(self, job_id: str) -> int:
        """Return how often the job was started since it first came back; 0 when nobody counts it."""
        query = select(attempts.c.starts).where(attempts.c.job_id == job_id)
        with self._database.read() as connection:
            return connection.execute(query).scalar_one_or_none() or 0

    def begin(self, job_id: str) -> int:
        """Count one more start, before the job runs, and return how many there are now."""
        now = self._clock()
        with self._database.write() as connection:
            fresh = insert_for(connection, attempts).values(job_id=job_id, starts=1, started_at=now)
            again = fresh.on_conflict_do_update(
                index_elements=[attempts.c.job_id], set_={"starts": attempts.c.starts + 1, "started_at": now}
            )
            starts: int = connection.execute(again.returning(attempts.c.starts)).scalar_one()
        return starts

    def end(self, job_id: str) -> None:
        """Forget the job: its worker lived to say what became of it."""
        with self._database.write() as connection:
            connection.execute(delete(attempts).where(attempts.c.job_id == job_id))
