"""Locks one database after the other, as a backup or a slow disk would."""

import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass

import psycopg
from chaos.fault_thread import FaultThread
from psycopg.sql import SQL, Identifier
from sqlalchemy.engine import URL, make_url

from memcore.config.settings import Settings
from memcore.ledger.database import BUSY_TIMEOUT

#: Shortest and longest hold, in seconds, that writers wait out.
_HOLD_SECONDS = (1.0, 5.0)

#: Seconds beyond the time that writers wait, for the one hold after which they fail and must come again.
_BEYOND_SECONDS = 2.0

#: Mean pause between two holds, in seconds.
_PAUSE_SECONDS = 12.0

#: The table of each database that PostgreSQL, which has no lock on a whole one, is asked to lock.
_TABLES = {"ledger": "work_items", "journal": "bookings", "history": "history"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A database that nobody else could write, from a time in seconds since 1970 on, and for how many seconds."""

    name: str
    at: float
    seconds: float


class DatabaseLocker(FaultThread):
    """Take turns at the ledger, the journal and the history; one hold is longer than any SQLite writer waits.

    Args:
        settings: name the databases.
        dice: choose database, pause and length.
    """

    def __init__(self, settings: Settings, *, dice: random.Random) -> None:
        super().__init__()
        self.holds: list[Hold] = []
        urls = {
            "ledger": settings.database_url,
            "journal": settings.journal_url,
            "history": settings.history_url,
        }
        self._urls = {name: make_url(url) for name, url in urls.items()}
        self._dice = dice

    def work(self) -> None:
        """Hold, let go, pause."""
        while not self.is_over.wait(self._dice.uniform(0.0, 2 * _PAUSE_SECONDS)):
            # The second is the long one: a chaos run that is long enough for two has it.
            is_long = len(self.holds) == 1
            seconds = BUSY_TIMEOUT.total_seconds() + _BEYOND_SECONDS if is_long else self._dice.uniform(*_HOLD_SECONDS)
            self._hold(self._dice.choice(list(self._urls)), seconds)

    def _hold(self, name: str, seconds: float) -> None:
        url = self._urls[name]
        lock = _sqlite_lock(url) if url.get_backend_name() == "sqlite" else _postgres_lock(url, _TABLES[name])
        at = None
        # A writer was killed and the next ones put its log in order, or this connection was cut too.
        with suppress(sqlite3.OperationalError, psycopg.OperationalError), lock as sleep:
            at = time.time()
            sleep(seconds)
        if at is not None:
            self.holds.append(Hold(name=name, at=at, seconds=time.time() - at))


@contextmanager
def _sqlite_lock(url: URL) -> Iterator[Callable[[float], object]]:
    with closing(sqlite3.connect(url.database or "", isolation_level=None, timeout=60.0)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield time.sleep
        connection.execute("ROLLBACK")


@contextmanager
def _postgres_lock(url: URL, table: str) -> Iterator[Callable[[float], object]]:
    address = url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(address) as connection:
        connection.execute(SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(Identifier(table)))
        # In the server: a connection that is cut holds nothing, and ends the hold.
        yield lambda seconds: connection.execute("SELECT pg_sleep(%s)", [seconds])
        connection.rollback()
