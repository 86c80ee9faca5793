"""A company with a webhook on loopback, its ledger, and the service that delivers as a worker does."""

import asyncio
import json
from collections.abc import Collection
from datetime import timedelta
from typing import Any

from memcore.jobs import DeliverPayload, Outcome
from memcore.ledger.ledger import Ledger
from memcore.ledger.organization.audit import AuditNote, done_by
from memcore.ledger.webhooks.deliveries import Delivery
from memcore.ledger.webhooks.endpoints import NewWebhookEndpoint
from memcore.models.webhook import SUBSCRIBABLE, EventNotice, WebhookEventType
from memcore.webhooks.sender import WebhookSender
from memcore.webhooks.service import WebhookService
from support.ledger_records import COMPANY, StoppedClock
from support.webhook_server import Listener

#: The webhook's name.
HOOK = "pager"

LOOPBACK = ("127.0.0.1",)


def noted(action: str) -> AuditNote:
    return done_by("Ada", f"webhooks.{action}", HOOK)


def add_hook(
    ledger: Ledger, url: str, *, name: str = HOOK, events: Collection[str] = SUBSCRIBABLE, company: str = COMPANY
) -> NewWebhookEndpoint:
    return ledger.webhooks.add(company, name, url=url, events=events, note=noted("add"))


def happened(ledger: Ledger, *, company: str = COMPANY, cause: str | None = None) -> int:
    """Announce an event of an agent, and return how many deliveries were written."""
    notice = EventNotice(event=WebhookEventType.BUDGET_SPENT, agent_id="ada", data={"tokens": 5}, cause=cause)
    return ledger.webhooks.announce(company, notice)


class WebhookWorld:
    """Delivers to a listener, at a clock that stands still, without jitter."""

    def __init__(self, ledger: Ledger, clock: StoppedClock, listener: Listener, **given: Any) -> None:
        self.ledger = ledger
        self.clock = clock
        self.listener = listener
        self.company: str = given.pop("company", COMPANY)
        sender = WebhookSender(LOOPBACK, clock=clock, timeout=given.pop("timeout", timedelta(seconds=10)))
        self.service = WebhookService(
            ledger, sender, company=self.company, clock=clock, **{"draw": lambda: 0.0, **given}
        )

    def due(self) -> list[str]:
        """Return the deliveries whose message the sweep would send now, as sent."""
        taken = self.ledger.work.take_due(limit=99, company=self.company)
        return [item.key for item in taken if item.kind == DeliverPayload.task]

    def deliver(self, delivery_id: str) -> Outcome:
        return asyncio.run(self.service.run(delivery_id))

    def work(self) -> int:
        """Deliver what is due, and return how many tries that were."""
        due = self.due()
        for delivery_id in due:
            self.deliver(delivery_id)
        return len(due)

    def only(self) -> Delivery:
        """Return the one delivery."""
        (found,) = self.ledger.deliveries.page(self.company)
        return found

    def heard(self, event: str) -> list[Any]:
        """Return the data of the events of a type that the listener got, each once by its webhook-id."""
        bodies = {headers["webhook-id"]: json.loads(body) for headers, body in self.listener.requests}
        return [body["data"] for body in bodies.values() if body["type"] == event]
