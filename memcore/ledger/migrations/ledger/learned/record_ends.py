"""Indexes by which old rows are found."""

import sqlalchemy as sa
from alembic import op

revision = "ledger_35"
down_revision = "ledger_34"


def upgrade() -> None:
    """Create the indexes of days, of experience that a model has looked at, and of sessions that have ended."""
    op.create_index("model_spending_oldest", "model_spending", ["company", "day"])
    is_compressed = sa.text("compressed_at IS NOT NULL")
    op.create_index(
        "experiences_compressed",
        "experiences",
        ["company", "compressed_at"],
        sqlite_where=is_compressed,
        postgresql_where=is_compressed,
    )
    op.create_index("conversation_sessions_ended", "conversation_sessions", ["company", "ended_at"])
