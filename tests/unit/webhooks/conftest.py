from collections.abc import Iterator

import pytest
from support.ledger_records import StoppedClock
from support.webhook_server import Listener, listening
from support.webhook_world import WebhookWorld, add_hook

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
def listener() -> Iterator[Listener]:
    with listening() as made:
        yield made


@pytest.fixture
def world(ledger: Ledger, clock: StoppedClock, listener: Listener) -> WebhookWorld:
    add_hook(ledger, listener.url)
    return WebhookWorld(ledger, clock, listener)
