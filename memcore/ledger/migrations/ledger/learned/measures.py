"""Figures that outlive the process that measures them: counters that grow, and the canary."""

import sqlalchemy as sa
from alembic import op

revision = "ledger_32"
down_revision = "ledger_29"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "measures",
        sa.Column("company", sa.String, primary_key=True),
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("value", sa.Double, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
    )
