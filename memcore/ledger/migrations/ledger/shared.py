"""The log of shared knowledge."""

import sqlalchemy as sa
from alembic import op

revision = "ledger_4"
down_revision = "ledger_3"


def upgrade() -> None:
    """Create the log of shared knowledge and the table of its heads."""
    op.create_table(
        "shared_log",
        sa.Column("company", sa.String, primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("memory_id", sa.String, nullable=False),
        sa.Column("fact_id", sa.String, nullable=False),
        sa.Column("agent_id", sa.String, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("body", sa.LargeBinary),
        sa.UniqueConstraint("company", "memory_id", "kind", name="shared_log_once"),
    )
    op.create_index("shared_log_of_fact", "shared_log", ["company", "fact_id", "version"])
    op.create_table(
        "shared_heads",
        sa.Column("company", sa.String, primary_key=True),
        sa.Column("last", sa.Integer, nullable=False),
        sa.Column("head", sa.Integer, nullable=False),
    )
