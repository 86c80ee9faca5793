"""Since when a run's questions wait for a model that is away; and an index goes that no query needs."""

import sqlalchemy as sa
from alembic import op

revision = "ledger_24"
down_revision = "ledger_23"


def upgrade() -> None:
    """Give the parts of runs the time of the first failure, and drop the index of items by time.

    PostgreSQL chose it for other queries while it had no statistics.
    """
    op.add_column("syntheses", sa.Column("away_since", sa.DateTime(timezone=True)))
    op.drop_index("work_items_newest", "work_items")
