"""A migrated ledger on each database that answers."""

from collections.abc import Iterator

import pytest
from support.ledger_records import StoppedClock

from memcore.config.urls import LedgerUrls
from memcore.ledger.ledger import Ledger


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture
def ledger(urls: LedgerUrls, clock: StoppedClock) -> Iterator[Ledger]:
    opened = Ledger.open(urls, clock=clock)
    yield opened
    opened.close()
