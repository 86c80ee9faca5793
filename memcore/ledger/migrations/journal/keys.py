"""Which memory each key of a caller's leads to."""

import sqlalchemy as sa
from alembic import op

revision = "journal_4"
down_revision = "journal_3"


def upgrade() -> None:
    """Create the table of keys."""
    op.create_table(
        "memory_keys",
        sa.Column("company", sa.String, primary_key=True),
        sa.Column("agent_id", sa.String, primary_key=True),
        sa.Column("namespace", sa.String, primary_key=True),
        sa.Column("memory_key", sa.String, primary_key=True),
        sa.Column("memory_id", sa.String, nullable=False),
        sa.Column("sent_at", sa.DateTime(timezone=True), nullable=False),
    )
