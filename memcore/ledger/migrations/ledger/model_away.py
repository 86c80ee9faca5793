"""Since when a run's questions wait for a language model that is away."""

import sqlalchemy as sa
from alembic import op

revision = "ledger_24"
down_revision = "ledger_23"


def upgrade() -> None:
    """Give the parts of runs the time of the first failure."""
    op.add_column("syntheses", sa.Column("away_since", sa.DateTime(timezone=True)))
