"""What language models are asked, what they answer and cost; raw experience; runs that sleep until a time."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "ledger_6"
down_revision = "ledger_5"

_JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
_MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Create the tables around models and experience, and give runs a time to wake at."""
    op.add_column("runs", sa.Column("wake_at", _MOMENT))
    _create_syntheses()
    _create_answers()
    _create_accounts()
    _create_experiences()


def _create_syntheses() -> None:
    op.create_table(
        "syntheses",
        sa.Column("run_id", sa.String, primary_key=True),
        sa.Column("place", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("company", sa.String, nullable=False),
        sa.Column("agent_id", sa.String, nullable=False),
        sa.Column("category", sa.String, nullable=False),
        sa.Column("source_ids", _JSON, nullable=False),
        sa.Column("kept_id", sa.String),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("reason", sa.String),
        sa.Column("ring_at", _MOMENT),
    )


def _create_answers() -> None:
    op.create_table(
        "answers",
        sa.Column("question_id", sa.String, primary_key=True),
        sa.Column("company", sa.String, nullable=False),
        sa.Column("agent_id", sa.String, nullable=False),
        sa.Column("run_id", sa.String),
        sa.Column("purpose", sa.String, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("text", sa.LargeBinary),
        sa.Column("reason", sa.String),
        sa.Column("token", sa.String),
        sa.Column("lease_until", _MOMENT),
        sa.Column("asked_at", _MOMENT, nullable=False),
        sa.Column("answered_at", _MOMENT),
    )
    op.create_index("answers_of_run", "answers", ["run_id"])
    op.create_index("answers_oldest", "answers", ["company", "asked_at"])


def _create_accounts() -> None:
    op.create_table(
        "model_spending",
        sa.Column("company", sa.String, primary_key=True),
        sa.Column("agent_id", sa.String, primary_key=True),
        sa.Column("day", sa.String, primary_key=True),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sa.Column("cost", sa.Float, nullable=False),
    )
    op.create_table(
        "model_calls",
        sa.Column("call_id", sa.String, primary_key=True),
        sa.Column("company", sa.String, nullable=False),
        sa.Column("agent_id", sa.String, nullable=False),
        sa.Column("run_id", sa.String),
        sa.Column("question_id", sa.String, nullable=False),
        sa.Column("purpose", sa.String, nullable=False),
        sa.Column("model", sa.String, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("prompt_tokens", sa.BigInteger, nullable=False),
        sa.Column("completion_tokens", sa.BigInteger, nullable=False),
        sa.Column("cost", sa.Float, nullable=False),
        sa.Column("called_at", _MOMENT, nullable=False),
        sa.Column("settled_at", _MOMENT),
    )
    op.create_index("model_calls_newest", "model_calls", ["company", "called_at"])
    op.create_index("model_calls_of_run", "model_calls", ["run_id"])


def _create_experiences() -> None:
    op.create_table(
        "experiences",
        sa.Column("company", sa.String, primary_key=True),
        sa.Column("experience_id", sa.String, primary_key=True),
        sa.Column("agent_id", sa.String, nullable=False),
        sa.Column("task_id", sa.String),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("compressed_at", _MOMENT),
        sa.Column("compressed_as", sa.String),
        sa.Column("reason", sa.String),
    )
    op.create_index("experiences_of_agent", "experiences", ["company", "agent_id", "created_at"])
    raw = sa.text("compressed_at IS NULL")
    op.create_index(
        "experiences_raw",
        "experiences",
        ["company", "agent_id", "created_at"],
        sqlite_where=raw,
        postgresql_where=raw,
    )
