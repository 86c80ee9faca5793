"""The archival store on each database that answers."""

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import create_engine, text
from support.ledger_records import StoppedClock, postgres_database

from memcore.ledger import Ledger, LedgerUrls
from memcore.ledger.migrate import migrate
from memcore.maintenance.archival_store import ArchivalStore, LedgerArchivalStore

#: Makes the store of a company.
Build = Callable[[str], ArchivalStore]


@pytest.fixture(scope="session")
def postgres_url(postgres: str) -> Iterator[str]:
    with postgres_database(postgres) as url:
        migrate(LedgerUrls(ledger=url, journal=url))
        yield url


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.service)])
def urls(request: pytest.FixtureRequest) -> LedgerUrls:
    if request.param == "sqlite":
        found: LedgerUrls = request.getfixturevalue("sqlite_ledger")
        return found
    url: str = request.getfixturevalue("postgres_url")
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("TRUNCATE archive, archive_terms, archive_tags"))
    engine.dispose()
    return LedgerUrls(ledger=url, journal=url)


@pytest.fixture
def build(urls: LedgerUrls) -> Iterator[Build]:
    ledger = Ledger.open(urls, clock=StoppedClock())
    yield lambda company: LedgerArchivalStore(ledger.archive, company=company)
    ledger.close()


@pytest.fixture
def store(build: Build) -> ArchivalStore:
    return build("acme")
