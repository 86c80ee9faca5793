"""A migrated ledger on each database that answers."""

from collections.abc import Iterator

import pytest
from sqlalchemy import create_engine, text
from support.ledger_records import StoppedClock, postgres_database

from memcore.ledger import Ledger, LedgerUrls
from memcore.ledger.migrate import migrate


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture(scope="session")
def postgres_url(postgres: str) -> Iterator[str]:
    """A migrated database of this session's own."""
    with postgres_database(postgres) as url:
        migrate(LedgerUrls(ledger=url, journal=url))
        yield url


def _emptied(url: str) -> LedgerUrls:
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(
            text(
                "TRUNCATE agents, runs, switches, dead_letters, attempts, ticks, "
                "org_log, org_facts, org_terms, org_outbox, audit, "
                "lessons, skills, skill_counts, skill_applications, skill_cycles, "
                "shared_log, shared_heads, approvals, experiences, trajectories, "
                "model_spending, model_calls, syntheses, answers, "
                "archive, archive_terms, archive_tags, "
                "serving, reindexes, reindex_marks, finetune_runs, finetune_checkpoints, "
                "bookings, booking_records, tombstones, holds, memory_use, use_batches"
            )
        )
    engine.dispose()
    return LedgerUrls(ledger=url, journal=url)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.service)])
def urls(request: pytest.FixtureRequest) -> LedgerUrls:
    if request.param == "postgresql":
        return _emptied(request.getfixturevalue("postgres_url"))
    found: LedgerUrls = request.getfixturevalue("sqlite_ledger")
    return found


@pytest.fixture
def ledger(urls: LedgerUrls, clock: StoppedClock) -> Iterator[Ledger]:
    opened = Ledger.open(urls, clock=clock)
    yield opened
    opened.close()
