"""The index by which the rows of removed memories are found."""

import sqlalchemy as sa
from alembic import op

revision = "history_2"
down_revision = "history_1"


def upgrade() -> None:
    """Create the index."""
    is_removal = sa.text("event = 'DELETE'")
    op.create_index("history_removed", "history", ["updated_at"], sqlite_where=is_removal, postgresql_where=is_removal)
