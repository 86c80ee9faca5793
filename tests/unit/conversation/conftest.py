import pytest
from support.conversation_fixture import ConversationFixture
from support.ledger_records import StoppedClock

from memcore.ledger.ledger import Ledger


@pytest.fixture
def talk(ledger: Ledger, clock: StoppedClock) -> ConversationFixture:
    return ConversationFixture(ledger, clock)
