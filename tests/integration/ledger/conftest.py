"""A migrated ledger on each database that answers."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from databases import postgres_server
from ledgers import StoppedClock, postgres_database, sqlite_urls
from sqlalchemy import create_engine, text

from memcore.ledger import Ledger, LedgerUrls
from memcore.ledger.migrate import migrate


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture(scope="session")
def postgres_url_of_server() -> Iterator[str]:
    with postgres_server() as url:
        yield url


@pytest.fixture(scope="session")
def postgres_url(postgres_url_of_server: str) -> Iterator[str]:
    """A migrated database of this session's own."""
    with postgres_database(postgres_url_of_server) as url:
        migrate(LedgerUrls(ledger=url, journal=url))
        yield url


def _emptied(url: str) -> LedgerUrls:
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(
            text(
                "TRUNCATE agents, runs, switches, dead_letters, attempts, ticks, "
                "bookings, booking_records, tombstones, holds"
            )
        )
    engine.dispose()
    return LedgerUrls(ledger=url, journal=url)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.service)])
def urls(request: pytest.FixtureRequest, tmp_path: Path) -> LedgerUrls:
    if request.param == "postgresql":
        return _emptied(request.getfixturevalue("postgres_url"))
    migrate(sqlite_urls(tmp_path))
    return sqlite_urls(tmp_path)


@pytest.fixture
def ledger(urls: LedgerUrls, clock: StoppedClock) -> Iterator[Ledger]:
    opened = Ledger.open(urls, clock=clock)
    yield opened
    opened.close()
