"""By which channels and keys finished tasks were reported, and what is made of them."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "ledger_41"
down_revision = "ledger_40"

_JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    """Give each its origin, and skills their lessons; NULL for an agent's here, and of older releases."""
    for table in ("experiences", "trajectories", "lessons"):
        op.add_column(table, sa.Column("origin", _JSON))
    op.add_column("skills", sa.Column("sources", _JSON))
