"""What the fleet learns from and agrees on: trajectories, approvals, the facts of an organisation and their log."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "ledger_7"
down_revision = "ledger_6"

_JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
_MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Create the tables of learning."""
    _create_trajectories()
    _create_approvals()
    _create_org()


def _create_trajectories() -> None:
    op.create_table(
        "trajectories",
        sa.Column("company", sa.String, primary_key=True),
        sa.Column("trajectory_id", sa.String, primary_key=True),
        sa.Column("agent_id", sa.String, nullable=False),
        sa.Column("task_id", sa.String, nullable=False),
        sa.Column("task_type", sa.String),
        sa.Column("outcome", sa.String, nullable=False),
        sa.Column("error_category", sa.String),
        sa.Column("tools_key", sa.String),
        sa.Column("quality", sa.Float),
        sa.Column("ended_at", _MOMENT, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_index("trajectories_newest", "trajectories", ["company", "ended_at"])
    op.create_index("trajectories_of_agent", "trajectories", ["company", "agent_id", "ended_at"])


def _create_approvals() -> None:
    op.create_table(
        "approvals",
        sa.Column("company", sa.String, primary_key=True),
        sa.Column("approval_id", sa.String, primary_key=True),
        sa.Column("action", sa.String, nullable=False),
        sa.Column("risk", sa.String, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("needs", sa.String),
        sa.Column("title", sa.String, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("expires_at", _MOMENT, nullable=False),
        sa.Column("decided_at", _MOMENT),
        sa.Column("decided_by", sa.String),
        sa.Column("reason", sa.String),
        sa.Column("effect", sa.String),
        sa.Column("undone_at", _MOMENT),
        sa.Column("undone_by", sa.String),
        sa.Column("undo_reason", sa.String),
    )
    op.create_index("approvals_newest", "approvals", ["company", "created_at"])
    op.create_index("approvals_open", "approvals", ["company", "needs"])


def _create_org() -> None:
    op.create_table(
        "org_log",
        sa.Column("company", sa.String, primary_key=True),
        sa.Column("fact_id", sa.String, primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("operation_id", sa.String, nullable=False, unique=True),
        sa.Column("operation", sa.String, nullable=False),
        sa.Column("category", sa.String),
        sa.Column("author", _JSON, nullable=False),
        sa.Column("at", _MOMENT, nullable=False),
        sa.Column("body", sa.LargeBinary),
    )
    op.create_index("org_log_newest", "org_log", ["company", "at"])
    op.create_table(
        "org_facts",
        sa.Column("company", sa.String, primary_key=True),
        sa.Column("fact_id", sa.String, primary_key=True),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("category", sa.String, nullable=False),
        sa.Column("author", _JSON, nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("changed_at", _MOMENT, nullable=False),
        sa.Column("retracted_at", _MOMENT),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_index("org_facts_listed", "org_facts", ["company", "category", "created_at"])
    op.create_table(
        "org_terms",
        sa.Column("company", sa.String, primary_key=True),
        sa.Column("fact_id", sa.String, primary_key=True),
        sa.Column("term", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("weight", sa.Double, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("org_terms_of_company", "org_terms", ["company", "term"])
