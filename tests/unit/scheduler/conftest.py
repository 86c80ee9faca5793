from collections.abc import Generator

import pytest
from support.job_contexts import ScriptedContext
from support.ledger_records import StoppedClock

from memcore.config.urls import LedgerUrls
from memcore.ledger.ledger import Ledger


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture
def job_context(sqlite_ledger: LedgerUrls, clock: StoppedClock) -> Generator[ScriptedContext]:
    ledger = Ledger.open(sqlite_ledger, clock=clock)
    ledger.companies.register("acme")
    yield ScriptedContext(ledger=ledger, clock=clock)
    ledger.close()
