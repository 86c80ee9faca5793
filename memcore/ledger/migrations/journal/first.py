"""Bookings with their records, tombstones, holds."""

import sqlalchemy as sa
from alembic import op

revision = "journal_1"
down_revision = None


def upgrade() -> None:
    """Create the journal's tables."""
    moment = sa.DateTime(timezone=True)
    op.create_table(
        "bookings",
        sa.Column("booking_id", sa.String, primary_key=True),
        sa.Column("run_id", sa.String, nullable=False),
        sa.Column("company", sa.String, nullable=False),
        sa.Column("agent_id", sa.String, nullable=False),
        sa.Column("seq", sa.Integer, nullable=False),
        sa.Column("reason", sa.String, nullable=False),
        sa.Column("incoming_kind", sa.String, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("prepared_at", moment, nullable=False),
        sa.Column("settled_at", moment),
        sa.Column("expired_at", moment),
        sa.UniqueConstraint("run_id", "seq", name="bookings_in_order"),
    )
    op.create_index("bookings_of_agent", "bookings", ["company", "agent_id"])
    for name, columns, condition in (
        ("bookings_open", ["company", "agent_id"], "state = 'prepared'"),
        ("bookings_kept", ["settled_at"], "state = 'done' AND expired_at IS NULL"),
    ):
        where = sa.text(condition)
        op.create_index(name, "bookings", columns, sqlite_where=where, postgresql_where=where)
    op.create_table(
        "booking_records",
        sa.Column("booking_id", sa.String, sa.ForeignKey("bookings.booking_id"), primary_key=True),
        sa.Column("kind", sa.String, primary_key=True),
        sa.Column("memory_id", sa.String, primary_key=True),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("void", sa.Boolean, nullable=False),
        sa.Column("body", sa.LargeBinary),
        sa.Column("dense", sa.LargeBinary),
        sa.Column("sparse_indices", sa.LargeBinary),
        sa.Column("sparse_values", sa.LargeBinary),
    )
    op.create_index("booking_records_of_memory", "booking_records", ["memory_id"])
    op.create_table(
        "tombstones",
        sa.Column("memory_id", sa.String, primary_key=True),
        sa.Column("booking_id", sa.String, nullable=False),
        sa.Column("buried_at", moment, nullable=False),
    )
    op.create_table(
        "holds",
        sa.Column("company", sa.String, primary_key=True),
        sa.Column("agent_id", sa.String, primary_key=True),
        sa.Column("memory_id", sa.String, primary_key=True),
        sa.Column("until", moment, nullable=False),
    )
