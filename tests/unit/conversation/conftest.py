from collections.abc import Iterator

import pytest
from support.conversation_fixture import ConversationFixture
from support.ledger_records import StoppedClock

from memcore.config.urls import LedgerUrls
from memcore.ledger.ledger import Ledger


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture
def talk(sqlite_ledger: LedgerUrls, clock: StoppedClock) -> Iterator[ConversationFixture]:
    ledger = Ledger.open(sqlite_ledger, clock=clock)
    yield ConversationFixture(ledger, clock)
    ledger.close()
