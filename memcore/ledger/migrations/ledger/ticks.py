"""When each company's scheduler last ticked."""

import sqlalchemy as sa
from alembic import op

revision = "ledger_3"
down_revision = "ledger_2"


def upgrade() -> None:
    """Create the table of ticks."""
    op.create_table(
        "ticks",
        sa.Column("company", sa.String, primary_key=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("sent", sa.Integer, nullable=False),
    )
