"""Agents, runs, switches, dead letters."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "ledger_1"
down_revision = None


def upgrade() -> None:
    """Create the ledger's tables."""
    moment = sa.DateTime(timezone=True)
    document = sa.JSON().with_variant(JSONB(), "postgresql")
    op.create_table(
        "agents",
        sa.Column("company", sa.String, primary_key=True),
        sa.Column("agent_id", sa.String, primary_key=True),
        sa.Column("role", sa.String),
        sa.Column("department", sa.String),
        sa.Column("level", sa.String),
        sa.Column("interval", sa.String),
        sa.Column("max_memories", sa.Integer),
        sa.Column("retention_days", sa.Integer),
        sa.Column("retention_overrides", document, nullable=False),
        sa.Column("paused", sa.Boolean, nullable=False),
        sa.Column("next_due_at", moment),
        sa.Column("registered_at", moment, nullable=False),
        sa.Column("last_run_at", moment),
    )
    awake = sa.column("paused", sa.Boolean).is_(False)
    for name, where in (
        ("agents_due_own", sa.column("interval").is_not(None) & awake),
        ("agents_due_company", sa.column("interval").is_(None) & awake),
    ):
        op.create_index(name, "agents", ["company", "next_due_at"], sqlite_where=where, postgresql_where=where)
    op.create_table(
        "runs",
        sa.Column("run_id", sa.String, primary_key=True),
        sa.Column("company", sa.String, nullable=False),
        sa.Column("agent_id", sa.String, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("origin", sa.String, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("step", sa.String, nullable=False),
        sa.Column("planned_at", moment, nullable=False),
        sa.Column("undo_of", sa.String),
        sa.Column("allow_large", sa.Boolean, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("token", sa.String),
        sa.Column("lease_until", moment),
        sa.Column("counts", document, nullable=False),
        sa.Column("reason", sa.String),
        sa.Column("created_at", moment, nullable=False),
        sa.Column("rung_at", moment, nullable=False),
        sa.Column("started_at", moment),
        sa.Column("finished_at", moment),
        sa.UniqueConstraint("company", "agent_id", "kind", "planned_at", name="runs_planned_once"),
    )
    op.create_index("runs_newest", "runs", ["company", "created_at"])
    op.create_index("runs_of_agent", "runs", ["company", "agent_id", "created_at"])
    active = sa.text("state IN ('queued', 'running')")
    op.create_index(
        "runs_active_once",
        "runs",
        ["company", "agent_id"],
        unique=True,
        sqlite_where=active,
        postgresql_where=active,
    )
    op.create_table(
        "switches",
        sa.Column("company", sa.String, primary_key=True),
        sa.Column("paused", sa.Boolean, nullable=False),
        sa.Column("changed_at", moment, nullable=False),
    )
    op.create_table(
        "dead_letters",
        sa.Column("job_id", sa.String, primary_key=True),
        sa.Column("company", sa.String, nullable=False),
        sa.Column("job", sa.String, nullable=False),
        sa.Column("queue", sa.String, nullable=False),
        sa.Column("payload", sa.Text, nullable=False),
        sa.Column("reason", sa.String, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("died_at", moment, nullable=False),
    )
    op.create_index("dead_letters_newest", "dead_letters", ["company", "died_at"])
