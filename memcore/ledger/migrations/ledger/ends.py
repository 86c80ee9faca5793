"""Which session, project or task a run ends."""

import sqlalchemy as sa
from alembic import op

revision = "ledger_5"
down_revision = "ledger_4"


def upgrade() -> None:
    """Give runs the id of what they end."""
    op.add_column("runs", sa.Column("scope_id", sa.String))
