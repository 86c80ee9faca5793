"""Fine-tune runs, one of them active at a time, and the checkpoints that came of them."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "ledger_10"
down_revision = "ledger_9"

_JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
_MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Create both tables."""
    op.create_table(
        "finetune_runs",
        sa.Column("company", sa.String, primary_key=True),
        sa.Column("run_id", sa.String, primary_key=True),
        sa.Column("plan", _JSON, nullable=False),
        sa.Column("stage", sa.String, nullable=False),
        sa.Column("progress", sa.Float),
        sa.Column("error", sa.String),
        sa.Column("finished", _JSON, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("token", sa.String),
        sa.Column("lease_until", _MOMENT),
        sa.Column("holder", sa.String),
        sa.Column("host", sa.String),
        sa.Column("cancel_requested_at", _MOMENT),
        sa.Column("rung_at", _MOMENT, nullable=False),
        sa.Column("started_at", _MOMENT, nullable=False),
        sa.Column("updated_at", _MOMENT, nullable=False),
        sa.Column("completed_at", _MOMENT),
    )
    op.create_index("finetune_runs_newest", "finetune_runs", ["company", "started_at"])
    unended = sa.text("completed_at IS NULL")
    op.create_index(
        "finetune_runs_active_once",
        "finetune_runs",
        ["company"],
        unique=True,
        sqlite_where=unended,
        postgresql_where=unended,
    )
    op.create_table(
        "finetune_checkpoints",
        sa.Column("company", sa.String, primary_key=True),
        sa.Column("checkpoint_id", sa.String, primary_key=True),
        sa.Column("run_id", sa.String, nullable=False),
        sa.Column("model_path", sa.String, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("base_model", sa.String, nullable=False),
        sa.Column("dims", sa.Integer, nullable=False),
        sa.Column("sha256", sa.String, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("doc_count", sa.Integer, nullable=False),
        sa.Column("report", _JSON, nullable=False),
        sa.Column("verdict", sa.String, nullable=False),
        sa.Column("reason", sa.String, nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
    )
    op.create_index("finetune_checkpoints_newest", "finetune_checkpoints", ["company", "created_at"])
