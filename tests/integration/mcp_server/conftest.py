"""A migrated ledger on SQLite, and a clock that the test moves."""

from collections.abc import Iterator

import pytest
from support.ledger_records import StoppedClock

from memcore.config.urls import LedgerUrls
from memcore.ledger.ledger import Ledger


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture
def ledger(sqlite_ledger: LedgerUrls, clock: StoppedClock) -> Iterator[Ledger]:
    opened = Ledger.open(sqlite_ledger, clock=clock)
    yield opened
    opened.close()
