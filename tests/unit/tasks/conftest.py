from collections.abc import Generator

import pytest
from crews import ScriptedCrew
from ledgers import StoppedClock

from memcore.ledger.ledger import Ledger
from memcore.ledger.urls import LedgerUrls


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture
def crew(sqlite_ledger: LedgerUrls, clock: StoppedClock) -> Generator[ScriptedCrew]:
    ledger = Ledger.open(sqlite_ledger, clock=clock)
    yield ScriptedCrew(ledger=ledger, clock=clock)
    ledger.close()
