"""A fleet whose workers carry out fine-tune runs on a ledger of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.finetune_fixture import FineTuneFleet
from support.ledger_records import StoppedClock

from memcore.config.urls import LedgerUrls
from memcore.ledger.ledger import Ledger


@pytest.fixture
def fleet(sqlite_ledger: LedgerUrls, tmp_path: Path) -> Iterator[FineTuneFleet]:
    clock = StoppedClock()
    ledger = Ledger.open(sqlite_ledger, clock=clock)
    yield FineTuneFleet(ledger, clock, tmp_path)
    ledger.close()
