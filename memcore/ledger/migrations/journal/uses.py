"""Which memories agents were shown."""

import sqlalchemy as sa
from alembic import op

revision = "journal_2"
down_revision = "journal_1"


def upgrade() -> None:
    """Create the tables of uses and of the batches that were counted."""
    moment = sa.DateTime(timezone=True)
    op.create_table(
        "memory_use",
        sa.Column("company", sa.String, primary_key=True),
        sa.Column("agent_id", sa.String, primary_key=True),
        sa.Column("memory_id", sa.String, primary_key=True),
        sa.Column("uses", sa.BigInteger, nullable=False),
        sa.Column("last_used_at", moment, nullable=False),
    )
    op.create_index("memory_use_of_memory", "memory_use", ["memory_id"])
    op.create_table(
        "use_batches",
        sa.Column("batch_id", sa.String, primary_key=True),
        sa.Column("counted_at", moment, nullable=False),
    )
    op.create_index("use_batches_oldest", "use_batches", ["counted_at"])
