"""Tables of webhooks; a test compares them with what the migrations made."""

from sqlalchemy import Column, Index, Integer, String, Table, Text

from memcore.ledger.database import UtcDateTime, json_document
from memcore.ledger.tables import metadata

#: Who is told of what. Each signature needs its secret in clear, so a hash would not do.
endpoints = Table(
    "webhook_endpoints",
    metadata,
    Column("company", String, primary_key=True),
    Column("name", String, primary_key=True),
    Column("url", Text, nullable=False),
    Column("events", json_document(), nullable=False),
    Column("secret", String, nullable=False),
    # The one before the last rotation, and until when it signs too.
    Column("old_secret", String),
    Column("old_secret_until", UtcDateTime),
    Column("state", String, nullable=False),
    # Why it is disabled.
    Column("reason", String),
    # Since when no delivery has succeeded; None while the last one did.
    Column("failing_since", UtcDateTime),
    Column("created_at", UtcDateTime, nullable=False),
    Column("changed_at", UtcDateTime, nullable=False),
)

#: Each is a work item, and the log of what became of it.
deliveries = Table(
    "webhook_deliveries",
    metadata,
    Column("company", String, primary_key=True),
    Column("delivery_id", String, primary_key=True),
    Column("endpoint", String, nullable=False),
    Column("event_id", String, nullable=False),
    Column("event", String, nullable=False),
    Column("agent_id", String),
    Column("body", Text, nullable=False),
    Column("announced_at", UtcDateTime, nullable=False),
    Column("failures", Integer, nullable=False),
    # Of the last try: the status that was answered, or what kept it from being answered.
    Column("status", Integer),
    Column("error", String),
    Column("tried_at", UtcDateTime),
    Index("webhook_deliveries_newest", "company", "announced_at"),
    Index("webhook_deliveries_endpoint", "company", "endpoint"),
)
