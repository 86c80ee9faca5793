"""A fleet whose workers carry out fine-tune runs on a ledger of its own."""

from pathlib import Path

import pytest
from support.finetune_fixture import FineTuneFleet
from support.ledger_records import StoppedClock

from memcore.ledger.ledger import Ledger


@pytest.fixture
def fleet(ledger: Ledger, clock: StoppedClock, tmp_path: Path) -> FineTuneFleet:
    return FineTuneFleet(ledger, clock, tmp_path)
