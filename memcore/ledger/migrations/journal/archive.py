"""The archive: what consolidation and enforcement removed, searchable, with a retention of its own."""

import sqlalchemy as sa
from alembic import op

revision = "journal_3"
down_revision = "journal_2"

_MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Create the tables of the archive, and note with a booking which one it reverses."""
    op.add_column("bookings", sa.Column("reverses", sa.String))
    _create_archive()
    op.create_table(
        "archive_terms",
        sa.Column("archival_id", sa.String, sa.ForeignKey("archive.archival_id", ondelete="CASCADE"), primary_key=True),
        sa.Column("term", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("company", sa.String, nullable=False),
        sa.Column("agent_id", sa.String, nullable=False),
        sa.Column("weight", sa.Double, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("archive_terms_of_agent", "archive_terms", ["company", "agent_id", "term"])
    op.create_table(
        "archive_tags",
        sa.Column("archival_id", sa.String, sa.ForeignKey("archive.archival_id", ondelete="CASCADE"), primary_key=True),
        sa.Column("tag", sa.String, primary_key=True),
        sqlite_with_rowid=False,
    )


def _create_archive() -> None:
    op.create_table(
        "archive",
        sa.Column("archival_id", sa.String, primary_key=True),
        sa.Column("company", sa.String, nullable=False),
        sa.Column("agent_id", sa.String, nullable=False),
        sa.Column("original_id", sa.String, nullable=False),
        sa.Column("booking_id", sa.String),
        sa.Column("run_id", sa.String),
        sa.Column("mode", sa.String, nullable=False),
        sa.Column("category", sa.String, nullable=False),
        sa.Column("namespace", sa.String, nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("expires_at", _MOMENT),
        sa.Column("archived_at", _MOMENT, nullable=False),
        sa.Column("returned_by", sa.String),
        sa.Column("returned_at", _MOMENT),
        sa.Column("vector_space", sa.String),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("dense", sa.LargeBinary),
        sa.Column("sparse_indices", sa.LargeBinary),
        sa.Column("sparse_values", sa.LargeBinary),
    )
    op.create_index("archive_of_memory", "archive", ["company", "agent_id", "original_id"])
    op.create_index("archive_of_run", "archive", ["run_id"])
    op.create_index("archive_oldest", "archive", ["company", "archived_at"])
    for name, columns, condition in (
        ("archive_out", ["company", "agent_id", "created_at"], "returned_by IS NULL"),
        ("archive_returned", ["company", "returned_at"], "returned_at IS NOT NULL"),
        ("archive_mortal", ["company", "expires_at"], "expires_at IS NOT NULL"),
    ):
        op.create_index(name, "archive", columns, sqlite_where=sa.text(condition), postgresql_where=sa.text(condition))
