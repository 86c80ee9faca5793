"""A migrated ledger on each database that answers."""

from collections.abc import Iterator

import pytest
from support.maintenance_fixture import TurnedClock

from memcore.config.urls import LedgerUrls
from memcore.ledger.ledger import Ledger


@pytest.fixture
def clock() -> TurnedClock:
    return TurnedClock()


@pytest.fixture
def ledger(urls: LedgerUrls, clock: TurnedClock) -> Iterator[Ledger]:
    opened = Ledger.open(urls, clock=clock)
    yield opened
    opened.close()
