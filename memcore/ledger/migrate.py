"""Migrates the databases to this release's schema; doing it again, or in several processes at once, is safe."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import URL, text

from memcore.config.settings import Settings
from memcore.config.urls import LedgerUrls
from memcore.errors import MemoryConfigError, MemoryConnectionError, MemoryStoreError
from memcore.ledger.companies import Companies
from memcore.ledger.database import BUSY_TIMEOUT, Database, parse_url

#: Wait between two attempts to switch a SQLite file to its write-ahead log, while another process does the same.
_WAL_RETRY_SECONDS = 0.02

#: Key of the PostgreSQL advisory lock that lets one process migrate at a time; any fixed number of our own.
_ADVISORY_KEY = 7_164_302_955

_MIGRATIONS = Path(__file__).parent / "migrations"


def migrate_installation(settings: Settings) -> None:
    """Create or upgrade every table of an installation, and register its own company; raises as :func:`migrate`."""
    migrate(settings.ledger_urls)
    migrate_history(settings.history_url)
    with closing(Companies(Database(settings.database_url, name="ledger"))) as companies:
        companies.register(settings.company)


def migrate(urls: LedgerUrls) -> None:
    """Create or upgrade the ledger's and the journal's tables.

    Raises:
        MemoryConfigError: a URL is neither SQLite's nor PostgreSQL's, or a newer release made the tables.
        MemoryConnectionError: a database cannot be reached or opened, or another process keeps it locked.
        MemoryStoreError: a file is damaged.
    """
    _upgrade(urls.ledger, tree="ledger")
    _upgrade(urls.journal, tree="journal")


def migrate_history(url: str) -> None:
    """Create or upgrade mem0's history table; a file that stock mem0 made keeps its rows."""
    _upgrade(url, tree="history")


def _upgrade(url: str, *, tree: str) -> None:
    parsed = parse_url(url, name=tree)
    if parsed.get_backend_name() == "sqlite":
        _use_write_ahead_log(parsed, name=tree)
    database = Database(url, name=tree)
    config = Config()
    # ConfigParser reads % as the start of a reference.
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.set_main_option("version_locations", str(_MIGRATIONS / tree).replace("%", "%%"))
    config.set_main_option("recursive_version_locations", "true")
    config.set_main_option("path_separator", "newline")
    try:
        with database.write() as connection:
            if database.dialect == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_KEY})
            config.attributes.update(connection=connection, tree=tree)
            command.upgrade(config, "head")
    except CommandError as error:
        raise MemoryConfigError(f"{tree}: this release cannot upgrade it, a newer one may have: {error}") from error
    finally:
        database.close()


def _use_write_ahead_log(url: URL, *, name: str) -> None:
    # The mode is kept in the file, so it is set once, here. SQLite does not wait for a lock when it changes the mode.
    path = Path(url.database or "")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MemoryConnectionError(f"the {name} cannot be opened: {path.parent}: {error.strerror}") from error
    deadline = time.monotonic() + BUSY_TIMEOUT.total_seconds()
    while True:
        try:
            with closing(sqlite3.connect(path, timeout=BUSY_TIMEOUT.total_seconds())) as connection:
                connection.execute("PRAGMA journal_mode=WAL")
                return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
                raise MemoryConnectionError(f"the {name} cannot be opened: {path}: {error}") from error
            if time.monotonic() > deadline:
                raise MemoryConnectionError(f"the {name} stays locked: {error}") from error
            time.sleep(_WAL_RETRY_SECONDS)
        except sqlite3.DatabaseError as error:
            raise MemoryStoreError(f"the {name} is damaged, restore it from a backup: {path}: {error}") from error
