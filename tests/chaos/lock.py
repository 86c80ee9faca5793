"""The locksmith: holds the write lock of one database after the other, as a backup or a slow disk would."""

import random
import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from chaos.post import Post
from sqlalchemy.engine import make_url

from memcore.config.settings import Settings
from memcore.ledger.engine import BUSY_TIMEOUT

#: Shortest and longest hold, in seconds, that writers wait out.
_HOLD_SECONDS = (1.0, 5.0)

#: Seconds beyond the time that writers wait, for the one hold after which they fail and must come again.
_BEYOND_SECONDS = 2.0

#: Mean pause between two holds, in seconds.
_PAUSE_SECONDS = 12.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A database that nobody else could write for so long."""

    name: str
    seconds: float


class Locksmith(Post):
    """Take turns at the ledger, the journal and the history; one hold is longer than any writer waits.

    Args:
        settings: name the databases; only SQLite has a lock to hold.
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
        self._files = {name: Path(make_url(url).database or "") for name, url in urls.items()}
        self._dice = dice

    def work(self) -> None:
        """Hold, let go, pause."""
        while not self.is_over.wait(self._dice.uniform(0.0, 2 * _PAUSE_SECONDS)):
            # The second is the long one: a storm that is long enough for two has it.
            is_long = len(self.holds) == 1
            seconds = BUSY_TIMEOUT.total_seconds() + _BEYOND_SECONDS if is_long else self._dice.uniform(*_HOLD_SECONDS)
            self._hold(self._dice.choice(list(self._files)), seconds)

    def _hold(self, name: str, seconds: float) -> None:
        with closing(sqlite3.connect(self._files[name], isolation_level=None, timeout=60.0)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return  # a writer was killed, and the next ones are still putting its log in order
            begun = time.monotonic()
            time.sleep(seconds)
            connection.execute("ROLLBACK")
        self.holds.append(Hold(name=name, seconds=time.monotonic() - begun))
