"""Indexes by which entries without content are found, what the archive holds of each, and the keys of memories."""

import sqlalchemy as sa
from alembic import op

revision = "journal_5"
down_revision = "journal_4"


def upgrade() -> None:
    """Create the indexes."""
    is_expired = sa.text("expired_at IS NOT NULL")
    op.create_index(
        "bookings_expired",
        "bookings",
        ["company", "reason", "settled_at"],
        sqlite_where=is_expired,
        postgresql_where=is_expired,
    )
    op.create_index("archive_of_booking", "archive", ["booking_id"])
    op.create_index("memory_keys_of_memory", "memory_keys", ["memory_id"])
