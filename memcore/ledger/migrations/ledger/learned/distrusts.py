"""What is not trusted any more, and the memories that came of it."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "ledger_40"
down_revision = "ledger_39"

_JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    """Create the tables."""
    moment = sa.DateTime(timezone=True)
    op.create_table(
        "distrusts",
        *(sa.Column(name, sa.String, primary_key=True) for name in ("company", "distrust_id")),
        sa.Column("rule", _JSON, nullable=False),
        *(sa.Column(name, sa.String, nullable=False) for name in ("reason", "by")),
        sa.Column("at", moment, nullable=False),
        *(sa.Column(name, moment) for name in ("completed_at", "lifted_at")),
        sa.Column("lifted_by", sa.String),
    )
    op.create_table(
        "distrusted",
        *(sa.Column(name, sa.String, primary_key=True) for name in ("company", "distrust_id", "agent_id", "memory_id")),
    )
    op.create_index("distrusted_of_agent", "distrusted", ["company", "agent_id"])
