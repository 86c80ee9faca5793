"""The index by which counts of what has long not been applied are found."""

from alembic import op

revision = "ledger_38"
down_revision = "ledger_37"


def upgrade() -> None:
    """Create the index."""
    op.create_index("skill_counts_oldest", "skill_counts", ["company", "last_applied_at"])
