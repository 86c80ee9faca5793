"""Memory tests that people have registered, and the tests for which the gate refused a group."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "ledger_43"
down_revision = "ledger_42"

_JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    """Create the table, and the column; NULL for groups that no test was asked about."""
    moment = sa.DateTime(timezone=True)
    op.create_table(
        "memory_tests",
        *(sa.Column(name, sa.String, primary_key=True) for name in ("company", "agent_id", "name")),
        sa.Column("test", _JSON, nullable=False),
        sa.Column("person", sa.String),
        sa.Column("registered_at", moment, nullable=False),
        sa.Column("outcome", sa.String),
        *(sa.Column(name, _JSON) for name in ("reasons", "memory_ids")),
        sa.Column("run_id", sa.String),
        sa.Column("asked_at", moment),
    )
    op.add_column("consolidation_groups", sa.Column("tests", _JSON))
