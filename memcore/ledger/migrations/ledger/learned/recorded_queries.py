"""Questions that agents asked of their memories, where the policy keeps them."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "ledger_26"
down_revision = "ledger_25"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "recorded_queries",
        sa.Column("company", sa.String, primary_key=True),
        sa.Column("agent_id", sa.String, primary_key=True),
        sa.Column("query_id", sa.String, primary_key=True),
        sa.Column("question", sa.Text, nullable=False),
        sa.Column("memory_ids", sa.JSON().with_variant(postgresql.JSONB(), "postgresql"), nullable=False),
        sa.Column("asked_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_index("recorded_queries_newest", "recorded_queries", ["company", "agent_id", "asked_at"])
    op.create_index("recorded_queries_oldest", "recorded_queries", ["company", "asked_at"])
