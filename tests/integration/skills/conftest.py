"""A fleet over a real ledger, empty for each test."""

import pytest
from support.ledger_records import StoppedClock
from support.skill_cycles import Fleet

from memcore.ledger.ledger import Ledger


@pytest.fixture
def fleet(ledger: Ledger, clock: StoppedClock) -> Fleet:
    made = Fleet(ledger, clock)
    made.work()
    return made
