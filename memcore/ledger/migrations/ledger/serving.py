"""Which collection serves a company, and the reindex that replaces it."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "ledger_9"
down_revision = "ledger_8"

_JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
_MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Create the tables; an installation without a row goes on as before and gets one when it next connects."""
    op.create_table(
        "serving",
        sa.Column("company", sa.String, primary_key=True),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("current", _JSON, nullable=False),
        sa.Column("target", _JSON),
        sa.Column("previous", _JSON),
        sa.Column("phase", sa.String),
        sa.Column("until", _MOMENT),
        sa.Column("changed_at", _MOMENT, nullable=False),
    )
    op.create_table(
        "reindexes",
        sa.Column("company", sa.String, primary_key=True),
        sa.Column("reindex_id", sa.String, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("stage", sa.String, nullable=False),
        sa.Column("cursor", sa.String),
        sa.Column("looked_at", sa.Integer, nullable=False),
        sa.Column("total", sa.Integer, nullable=False),
        sa.Column("written", sa.Integer, nullable=False),
        sa.Column("passed_over", sa.Integer, nullable=False),
        sa.Column("freezes", sa.Integer, nullable=False),
        sa.Column("token", sa.String),
        sa.Column("lease_until", _MOMENT),
        sa.Column("rung_at", _MOMENT, nullable=False),
        sa.Column("started_at", _MOMENT, nullable=False),
        sa.Column("finished_at", _MOMENT),
        sa.Column("trouble", sa.String),
    )
    op.create_table(
        "reindex_marks",
        sa.Column("company", sa.String, primary_key=True),
        sa.Column("owner", sa.String, primary_key=True),
        sa.Column("taken_by", sa.String),
    )
