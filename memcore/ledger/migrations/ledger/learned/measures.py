"""Figures that outlive the process that measures them; and an index of held work, which each scrape counts."""

import sqlalchemy as sa
from alembic import op

revision = "ledger_32"
down_revision = "ledger_29"


def upgrade() -> None:
    """Create the table and the index."""
    op.create_table(
        "measures",
        sa.Column("company", sa.String, primary_key=True),
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("value", sa.Double, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
    )
    held = sa.text("state = 'held'")
    op.create_index("work_items_held", "work_items", ["company", "kind"], sqlite_where=held, postgresql_where=held)
