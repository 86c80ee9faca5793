"""The outbox: events are written in the transaction of what they tell of, as one delivery for each endpoint."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, select

from memcore import ids
from memcore.jobs import DeliverPayload, Queue
from memcore.ledger.database import Row, add_new, equals
from memcore.ledger.webhooks.tables import deliveries, endpoints
from memcore.ledger.work_items import WorkKey, add_items, new_item
from memcore.models.webhook import EventNotice, WebhookEventType

#: The state of an endpoint that gets deliveries.
ENABLED = "enabled"

#: Events that the workers who take ``Queue.DISTILL`` may be the cause of: other workers deliver them.
_OF_OTHER_WORKERS: Mapping[WebhookEventType, Queue] = {WebhookEventType.CANARY_LATE: Queue.CONTROL}


def announce(connection: Connection, company: str, notice: EventNotice, *, at: datetime) -> frozenset[str]:
    """Write the deliveries of an event in a transaction of the caller's, and return their ids.

    They are there exactly when what they tell of is. Nothing is written where no endpoint of the company wants the
    event; to learn that costs one read by the primary key. The next sweep sends them.
    """
    query = select(endpoints.c.name, endpoints.c.events).where(equals(endpoints, company=company, state=ENABLED))
    wanted = [row.name for row in connection.execute(query) if notice.event.value in row.events]
    return _written(connection, company, wanted, notice, at=at) if wanted else frozenset()


def deliver_to(connection: Connection, company: str, endpoint: str, notice: EventNotice, *, at: datetime) -> str:
    """Write the delivery of an event to one endpoint, whatever it subscribes to, and return its id."""
    (added,) = _written(connection, company, [endpoint], notice, at=at)
    return added


def _written(
    connection: Connection, company: str, names: list[str], notice: EventNotice, *, at: datetime
) -> frozenset[str]:
    event = notice.event
    event_id = (
        ids.new_id() if notice.cause is None else ids.event_id(company=company, event=event.value, cause=notice.cause)
    )
    body = encoded(notice, at=at)
    items, rows = list[Row](), dict[str, Row]()
    for name in names:
        key = ids.delivery_id(company=company, event_id=event_id, endpoint=name)
        payload = DeliverPayload(company=company, delivery_id=key)
        item = new_item(WorkKey(company, DeliverPayload.task, key), payload, now=at)
        # Due at once: who announces does not know that somebody listens, and sends no message.
        items.append(item | {"dispatch_after": at, "queue": str(_OF_OTHER_WORKERS.get(event, payload.queue))})
        rows[key] = {
            "company": company,
            "delivery_id": key,
            "endpoint": name,
            "event_id": event_id,
            "event": event.value,
            "agent_id": notice.agent_id,
            "body": body,
            "announced_at": at,
            "failures": 0,
        }
    added = add_items(connection, items)
    add_new(connection, deliveries, [rows[key] for key in sorted(added)])
    return added


def encoded(notice: EventNotice, *, at: datetime) -> str:
    """Return the body of an event: its type, its time and what it tells; every try sends the same bytes."""
    agent: dict[str, Any] = {} if notice.agent_id is None else {"agent_id": notice.agent_id}
    body = {"type": notice.event.value, "timestamp": at.astimezone(UTC).isoformat(), "data": agent | {**notice.data}}
    return json.dumps(body, separators=(",", ":"))
