from collections.abc import Generator

import pytest
from support.job_contexts import ScriptedCrew
from support.ledger_records import StoppedClock

from memcore.ledger.database import LedgerUrls
from memcore.ledger.ledger import Ledger


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture
def crew(sqlite_ledger: LedgerUrls, clock: StoppedClock) -> Generator[ScriptedCrew]:
    ledger = Ledger.open(sqlite_ledger, clock=clock)
    yield ScriptedCrew(ledger=ledger, clock=clock)
    ledger.close()
