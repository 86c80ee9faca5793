import pytest
from support.job_contexts import ScriptedContext
from support.ledger_records import StoppedClock

from memcore.ledger.ledger import Ledger


@pytest.fixture
def job_context(ledger: Ledger, clock: StoppedClock) -> ScriptedContext:
    return ScriptedContext(ledger=ledger, clock=clock)
