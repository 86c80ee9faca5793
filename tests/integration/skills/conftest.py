"""A fleet over a real ledger, empty for each test."""

from collections.abc import Iterator

import pytest
from support.ledger_records import StoppedClock
from support.skill_cycles import Fleet

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


@pytest.fixture
def fleet(ledger: Ledger, clock: StoppedClock) -> Fleet:
    made = Fleet(ledger, clock)
    made.work()
    return made
