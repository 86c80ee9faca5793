"""Groups of memories that runs judged: proposed to a person, or refused by the gate."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "ledger_23"
down_revision = "ledger_22"

_JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
_MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "consolidation_groups",
        sa.Column("company", sa.String, primary_key=True),
        sa.Column("run_id", sa.String, primary_key=True),
        sa.Column("group_key", sa.String, primary_key=True),
        sa.Column("place", sa.Integer, nullable=False),
        sa.Column("agent_id", sa.String, nullable=False),
        sa.Column("category", sa.String, nullable=False),
        sa.Column("strategy", sa.String, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("source_ids", _JSON, nullable=False),
        sa.Column("kept_id", sa.String),
        sa.Column("summary_id", sa.String),
        sa.Column("seen", sa.String),
        sa.Column("mode", sa.String),
        sa.Column("decided_by", sa.String),
        sa.Column("reason", sa.String),
        sa.Column("body", sa.LargeBinary),
        sa.Column("probes", sa.Integer),
        sa.Column("found_before", sa.Integer),
        sa.Column("found_after", sa.Integer),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("decided_at", _MOMENT),
    )
    op.create_index("consolidation_groups_same", "consolidation_groups", ["company", "agent_id", "group_key"])
    op.create_index("consolidation_groups_oldest", "consolidation_groups", ["company", "created_at"])
