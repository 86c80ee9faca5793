"""Writes that end behind an erasure, and the key that signs receipts."""

import sqlalchemy as sa
from alembic import op

revision = "ledger_33"
down_revision = "ledger_32"


def upgrade() -> None:
    """Count late writes, find an agent's erasures by an index, and create the table of the key."""
    op.add_column("erasures", sa.Column("late_writes", sa.Integer, nullable=False, server_default="0"))
    is_erasure = sa.text("kind = 'memory.erase.run'")
    op.create_index(
        "erasures_agent",
        "work_items",
        ["company", "agent_id", "finished_at"],
        sqlite_where=is_erasure,
        postgresql_where=is_erasure,
    )
    op.create_table(
        "signing_keys",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("secret", sa.String, nullable=False),
        sa.Column("made_at", sa.DateTime(timezone=True), nullable=False),
    )
