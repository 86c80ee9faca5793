"""Lessons and skills: what is drawn from tasks, what a person approved of it, and how often it was applied."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "ledger_8"
down_revision = "ledger_7"

_JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
_MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Create the tables of lessons, skills, and what was refused."""
    _create_lessons()
    _create_skills()
    _create_cycles()
    _create_books()
    op.create_index("trajectories_of_failure", "trajectories", ["company", "error_category", "ended_at"])
    op.create_index("trajectories_of_chain", "trajectories", ["company", "tools_key", "ended_at"])
    _create_partial("agents_of_role", "agents", ["company", "role", "agent_id"], "role IS NOT NULL")
    _create_partial("agents_of_department", "agents", ["company", "department", "agent_id"], "department IS NOT NULL")


def _create_lessons() -> None:
    op.create_table(
        "lessons",
        sa.Column("company", sa.String, primary_key=True),
        sa.Column("lesson_id", sa.String, primary_key=True),
        sa.Column("agent_id", sa.String, nullable=False),
        sa.Column("outcome", sa.String),
        sa.Column("memory_id", sa.String),
        sa.Column("confidence", sa.Float),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("rung_at", _MOMENT, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("drawn_at", _MOMENT),
        sa.Column("propagated_at", _MOMENT),
        sa.Column("body", sa.LargeBinary),
    )
    op.create_index("lessons_of_agent", "lessons", ["company", "agent_id", "created_at"])
    op.create_index("lessons_oldest", "lessons", ["company", "created_at"])
    _create_partial("lessons_waiting", "lessons", ["company", "rung_at"], "outcome IS NULL")
    is_open = "memory_id IS NOT NULL AND propagated_at IS NULL"
    _create_partial("lessons_unpropagated", "lessons", ["company", "agent_id"], is_open)


def _create_skills() -> None:
    op.create_table(
        "skills",
        sa.Column("company", sa.String, primary_key=True),
        sa.Column("skill_id", sa.String, primary_key=True),
        sa.Column("approval_id", sa.String, nullable=False),
        sa.Column("pattern_id", sa.String, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("superseded_by", sa.String),
        sa.Column("confidence", sa.Float, nullable=False),
        sa.Column("published_at", _MOMENT, nullable=False),
        sa.Column("changed_at", _MOMENT, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_index("skills_newest", "skills", ["company", "state", "published_at"])
    op.create_table(
        "skill_counts",
        sa.Column("company", sa.String, primary_key=True),
        sa.Column("skill_id", sa.String, primary_key=True),
        sa.Column("applications", sa.Integer, nullable=False),
        sa.Column("successes", sa.Integer, nullable=False),
        sa.Column("last_applied_at", _MOMENT, nullable=False),
    )
    op.create_table(
        "skill_applications",
        sa.Column("company", sa.String, primary_key=True),
        sa.Column("application_id", sa.String, primary_key=True),
        sa.Column("skill_id", sa.String, nullable=False),
        sa.Column("agent_id", sa.String, nullable=False),
        sa.Column("outcome", sa.String, nullable=False),
        sa.Column("applied_at", _MOMENT, nullable=False),
    )
    op.create_index("skill_applications_oldest", "skill_applications", ["company", "applied_at"])


def _create_cycles() -> None:
    op.create_table(
        "skill_cycles",
        sa.Column("company", sa.String, primary_key=True),
        sa.Column("cycle_id", sa.String, primary_key=True),
        sa.Column("origin", sa.String, nullable=False),
        sa.Column("planned_at", _MOMENT, nullable=False),
        sa.Column("window_start", _MOMENT, nullable=False),
        sa.Column("window_end", _MOMENT, nullable=False),
        sa.Column("rung_at", _MOMENT, nullable=False),
        sa.Column("finished_at", _MOMENT),
        sa.Column("report", _JSON),
    )
    op.create_index("skill_cycles_newest", "skill_cycles", ["company", "planned_at"])
    _create_partial("skill_cycles_open", "skill_cycles", ["company", "rung_at"], "finished_at IS NULL")


def _create_books() -> None:
    op.create_table(
        "org_outbox",
        sa.Column("company", sa.String, primary_key=True),
        sa.Column("fact_id", sa.String, primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at", _MOMENT, nullable=False),
    )
    op.create_index("org_outbox_oldest", "org_outbox", ["company", "at"])
    # Facts that were written before there was an outbox reach the store too.
    op.execute(
        "INSERT INTO org_outbox (company, fact_id, version, at) SELECT company, fact_id, version, at FROM org_log"
    )
    op.create_table(
        "audit",
        sa.Column("company", sa.String, primary_key=True),
        sa.Column("audit_id", sa.String, primary_key=True),
        sa.Column("at", _MOMENT, nullable=False),
        sa.Column("actor", sa.String, nullable=False),
        sa.Column("action", sa.String, nullable=False),
        sa.Column("subject", sa.String),
        sa.Column("verdict", sa.String, nullable=False),
        sa.Column("reason", sa.String),
    )
    op.create_index("audit_newest", "audit", ["company", "at"])


def _create_partial(name: str, table: str, columns: list[str], where: str) -> None:
    op.create_index(name, table, columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where))
