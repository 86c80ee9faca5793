import pytest
from support.ledger_records import StoppedClock
from support.webhook_server import Listener
from support.webhook_world import WebhookWorld, add_hook

from memcore.ledger.ledger import Ledger


@pytest.fixture
def world(ledger: Ledger, clock: StoppedClock, listener: Listener) -> WebhookWorld:
    add_hook(ledger, listener.url)
    return WebhookWorld(ledger, clock, listener)
