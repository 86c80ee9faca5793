"""Conversation memory: owners, facts, arcs, rules, sessions, turns, held candidates; crises and feedback."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "ledger_27"
down_revision = "ledger_26"

_OWNER = ("company", "agent_id", "subject")


def _key(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.String, primary_key=True) for name in names]


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.String, nullable=False) for name in names]


def _time(name: str, *, nullable: bool = False) -> "sa.Column[Any]":
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable)


def _document(name: str) -> "sa.Column[Any]":
    return sa.Column(name, sa.JSON().with_variant(postgresql.JSONB(), "postgresql"))


def _kept() -> list["sa.Column[Any]"]:
    return [
        sa.Column("state", sa.String, nullable=False),
        sa.Column("superseded_by", sa.String),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("session_id", sa.String, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        *map(_time, ("created_at", "last_referenced_at", "changed_at")),
    ]


def _vector() -> list["sa.Column[Any]"]:
    return [sa.Column("space", sa.String), sa.Column("vector", sa.LargeBinary)]


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "conversation_owners",
        *_key(*_OWNER),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("recall", sa.Boolean, nullable=False),
        _time("changed_at"),
    )
    op.create_table("conversation_facts", *_key(*_OWNER, "fact_id"), *_texts("slot", "identity"), *_kept(), *_vector())
    op.create_index("conversation_facts_slot", "conversation_facts", [*_OWNER, "slot"])
    op.create_index("conversation_facts_state", "conversation_facts", [*_OWNER, "state"])
    op.create_table("conversation_arcs", *_key(*_OWNER, "arc_id"), *_kept(), *_vector(), _time("ended_at"))
    op.create_index("conversation_arcs_newest", "conversation_arcs", [*_OWNER, "ended_at"])
    op.create_table("conversation_rules", *_key(*_OWNER, "rule_id"), *_texts("identity"), *_kept())
    op.create_index("conversation_rules_state", "conversation_rules", [*_OWNER, "state"])
    op.create_table(
        "conversation_sessions",
        *_key("company", "session_key"),
        *_texts("agent_id", "subject", "session_id"),
        sa.Column("turns", sa.Integer, nullable=False),
        sa.Column("is_private", sa.Boolean, nullable=False),
        *map(_time, ("begun_at", "last_turn_at", "recorded_at")),
        _time("ended_at", nullable=True),
        _document("outcome"),
    )
    op.create_index("conversation_sessions_newest", "conversation_sessions", [*_OWNER, "last_turn_at"])
    op.create_table(
        "conversation_turns",
        *_key("company", "turn_id"),
        *_texts("agent_id", "subject", "session_key"),
        _time("at"),
        sa.Column("body", sa.LargeBinary),
        sa.Column("control", sa.String),
        _document("outcome"),
    )
    op.create_index("conversation_turns_session", "conversation_turns", ["company", "session_key", "at"])
    op.create_index("conversation_turns_oldest", "conversation_turns", ["company", "at"])
    op.create_table(
        "conversation_candidates",
        *_key("company", "candidate_id"),
        *_texts("agent_id", "subject", "session_key", "turn_id", "layer", "state", "reason"),
        _time("created_at"),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_index("conversation_candidates_session", "conversation_candidates", ["company", "session_key", "state"])
    for table, names in (("crisis_log", ("level", "path")), ("session_feedback", ("label", "source"))):
        op.create_table(
            table,
            *_key("company", "record_id"),
            *_texts("agent_id", "subject", "session_id", *names),
            _time("at"),
            sa.Column("body", sa.LargeBinary, nullable=False),
        )
        op.create_index(f"{table}_newest", table, ["company", "agent_id", "at"])
