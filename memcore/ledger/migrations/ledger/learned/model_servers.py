"""What was learnt of servers of language models, and with what a call of one failed."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "ledger_37"
down_revision = "ledger_36"

_JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    """Create the table, and give calls the status and the type of their failure."""
    op.create_table(
        "model_servers",
        sa.Column("company", sa.String, primary_key=True),
        sa.Column("model", sa.String, primary_key=True),
        sa.Column("server", sa.String, nullable=False),
        sa.Column("learnt", _JSON, nullable=False),
        sa.Column("learnt_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.add_column("model_calls", sa.Column("error_kind", sa.String))
    op.add_column("model_calls", sa.Column("status", sa.Integer))
