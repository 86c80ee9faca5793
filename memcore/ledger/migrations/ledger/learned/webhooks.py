"""Webhooks: their endpoints, and their deliveries."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "ledger_32"
down_revision = "ledger_31"


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "webhook_endpoints",
        sa.Column("company", sa.String, primary_key=True),
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("events", sa.JSON().with_variant(postgresql.JSONB(), "postgresql"), nullable=False),
        sa.Column("secret", sa.String, nullable=False),
        sa.Column("old_secret", sa.String),
        sa.Column("old_secret_until", sa.DateTime(timezone=True)),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("reason", sa.String),
        sa.Column("failing_since", sa.DateTime(timezone=True)),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_table(
        "webhook_deliveries",
        sa.Column("company", sa.String, primary_key=True),
        sa.Column("delivery_id", sa.String, primary_key=True),
        sa.Column("endpoint", sa.String, nullable=False),
        sa.Column("event_id", sa.String, nullable=False),
        sa.Column("event", sa.String, nullable=False),
        sa.Column("agent_id", sa.String),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("announced_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("status", sa.Integer),
        sa.Column("error", sa.String),
        sa.Column("tried_at", sa.DateTime(timezone=True)),
    )
    op.create_index("webhook_deliveries_newest", "webhook_deliveries", ["company", "announced_at"])
    op.create_index("webhook_deliveries_endpoint", "webhook_deliveries", ["company", "endpoint"])
