"""The places of core memory that agents have taken: their number is limited, however many write at once."""

import sqlalchemy as sa
from alembic import op

revision = "ledger_29"
down_revision = "ledger_28"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "core_slots",
        sa.Column("company", sa.String, primary_key=True),
        sa.Column("agent_id", sa.String, primary_key=True),
        sa.Column("memory_id", sa.String, primary_key=True),
        sa.Column("claimed_at", sa.DateTime(timezone=True), nullable=False),
    )
