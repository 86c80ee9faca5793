"""When the clock jumped between two ticks, and from where."""

import sqlalchemy as sa
from alembic import op

revision = "ledger_36"
down_revision = "ledger_35"


def upgrade() -> None:
    """Give ticks the two times; NULL where the clock did not jump."""
    op.add_column("ticks", sa.Column("jumped_from", sa.DateTime(timezone=True)))
    op.add_column("ticks", sa.Column("jumped_at", sa.DateTime(timezone=True)))
