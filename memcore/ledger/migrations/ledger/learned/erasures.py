"""Erasures of agents and of people, with their signed receipts."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "ledger_31"
down_revision = "ledger_30"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "erasures",
        sa.Column("company", sa.String, primary_key=True),
        sa.Column("erasure_id", sa.String, primary_key=True),
        sa.Column("agent_id", sa.String, nullable=False),
        sa.Column("subject", sa.String),
        sa.Column("requested_by", sa.String, nullable=False),
        sa.Column("requested_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("found", sa.JSON().with_variant(postgresql.JSONB(), "postgresql"), nullable=False),
        sa.Column("receipt", sa.Text),
    )
    op.create_index("erasures_newest", "erasures", ["company", "requested_at"])
