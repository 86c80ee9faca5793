"""A ledger that is never written to a disk: it ends with its process."""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.pool import StaticPool

from memcore.clock import Clock, utc_now
from memcore.ledger.database import Database, prepare_transactions
from memcore.ledger.ledger import Ledger
from memcore.ledger.tables import journal_metadata, metadata


class InMemoryDatabase(Database):
    """A SQLite database in this process's memory. Thread-safe: one transaction at a time; none survives a fork."""

    def __init__(self, *, name: str) -> None:
        super().__init__("sqlite:///never-opened", name=name)
        # One connection: another one would be another database.
        self._engine = create_engine(
            "sqlite://",
            hide_parameters=True,
            isolation_level="AUTOCOMMIT",
            poolclass=StaticPool,
            connect_args={"check_same_thread": False},
        )
        event.listen(self._engine, "begin", prepare_transactions)
        self._turn = threading.RLock()
        with self.statement(writes=True) as connection:
            # A large sort would go to a file.
            connection.execute(text("PRAGMA temp_store=MEMORY"))

    def engine(self) -> Engine:
        """Return the one engine."""
        return self._engine

    def read(self) -> AbstractContextManager[Connection]:
        """Open a transaction that only reads; it waits for the one before."""
        return self._alone(self._connected("BEGIN"))

    def write(self) -> AbstractContextManager[Connection]:
        """Open a transaction that may write; all of it is committed, or on any error nothing."""
        return self._alone(self._connected("BEGIN IMMEDIATE", writes=True))

    def statement(self, *, writes: bool = False) -> AbstractContextManager[Connection]:
        """Connect for one statement."""
        return self._alone(self._connected(None, writes=writes))

    @contextmanager
    def _alone(self, connected: AbstractContextManager[Connection]) -> Iterator[Connection]:
        with self._turn, connected as connection:
            yield connection

    def close(self) -> None:
        """Forget everything."""
        self._engine.dispose()


def open_in_memory(*, clock: Clock = utc_now) -> Ledger:
    """Return a ledger with every table, which nobody else can read and which goes with this process."""
    ledger, journal = InMemoryDatabase(name="ledger"), InMemoryDatabase(name="journal")
    for database, tables in ((ledger, metadata), (journal, journal_metadata)):
        with database.write() as connection:
            tables.create_all(connection)
    return Ledger(ledger=ledger, journal=journal, clock=clock)
