"""Tables of conversation memory; a test compares them with what the migrations made."""

from typing import Any

from sqlalchemy import Boolean, Column, Index, Integer, LargeBinary, String, Table

from memcore.ledger.database import UtcDateTime, json_document
from memcore.ledger.tables import metadata

_OWNER = ("company", "agent_id", "subject")


def _key(*names: str) -> list[Column[Any]]:
    return [Column(name, String, primary_key=True) for name in names]


def _kept() -> list[Column[Any]]:
    """Return the columns that facts, rules and arcs have alike."""
    return [
        Column("state", String, nullable=False),
        Column("superseded_by", String),
        # Of the owner's memory, at which it was written.
        Column("version", Integer, nullable=False),
        Column("session_id", String, nullable=False),
        Column("body", LargeBinary, nullable=False),
        *(Column(name, UtcDateTime, nullable=False) for name in ("created_at", "last_referenced_at", "changed_at")),
    ]


def _vector() -> list[Column[Any]]:
    # The embedder's space, and the vector in half precision; both None where no embedder answered.
    return [Column("space", String), Column("vector", LargeBinary)]


#: Whose memory it is; a write moves the version on by one.
owners = Table(
    "conversation_owners",
    metadata,
    *_key(*_OWNER),
    Column("version", Integer, nullable=False),
    Column("recall", Boolean, nullable=False),
    Column("changed_at", UtcDateTime, nullable=False),
)

#: Facts about people.
facts = Table(
    "conversation_facts",
    metadata,
    *_key(*_OWNER, "fact_id"),
    # Hashes: of category, subject and predicate, by which facts collide; and of all that is said, with the words.
    Column("slot", String, nullable=False),
    Column("identity", String, nullable=False),
    *_kept(),
    *_vector(),
    Index("conversation_facts_slot", *_OWNER, "slot"),
    Index("conversation_facts_state", *_OWNER, "state"),
)

#: One summary for each session that had something to say.
arcs = Table(
    "conversation_arcs",
    metadata,
    *_key(*_OWNER, "arc_id"),
    *_kept(),
    *_vector(),
    Column("ended_at", UtcDateTime, nullable=False),
    Index("conversation_arcs_newest", *_OWNER, "ended_at"),
)

#: Rules of how to answer people.
rules = Table(
    "conversation_rules",
    metadata,
    *_key(*_OWNER, "rule_id"),
    Column("identity", String, nullable=False),
    *_kept(),
    Index("conversation_rules_state", *_OWNER, "state"),
)

#: Sessions: the work item of each waits for its end.
sessions = Table(
    "conversation_sessions",
    metadata,
    *_key("company", "session_key"),
    *(Column(name, String, nullable=False) for name in ("agent_id", "subject", "session_id")),
    Column("turns", Integer, nullable=False),
    # Whether somebody asked in it that nothing be kept.
    Column("is_private", Boolean, nullable=False),
    *(Column(name, UtcDateTime, nullable=False) for name in ("begun_at", "last_turn_at")),
    # When the last turn came in; the session ends so long after it.
    Column("recorded_at", UtcDateTime, nullable=False),
    Column("ended_at", UtcDateTime),
    Column("outcome", json_document(none_as_null=True)),
    Index("conversation_sessions_newest", *_OWNER, "last_turn_at"),
    Index("conversation_sessions_ended", "company", "ended_at"),
)

#: Turns: the work item of each waits for a model; the text goes some time after the session has ended.
turns = Table(
    "conversation_turns",
    metadata,
    *_key("company", "turn_id"),
    *(Column(name, String, nullable=False) for name in ("agent_id", "subject", "session_key")),
    Column("at", UtcDateTime, nullable=False),
    Column("body", LargeBinary),
    # What the person asked about memory itself: nothing, not to keep this, or to forget.
    Column("control", String),
    Column("outcome", json_document(none_as_null=True)),
    Index("conversation_turns_session", "company", "session_key", "at"),
    Index("conversation_turns_oldest", "company", "at"),
)

#: What a session holds back until its end.
candidates = Table(
    "conversation_candidates",
    metadata,
    *_key("company", "candidate_id"),
    *(Column(name, String, nullable=False) for name in ("agent_id", "subject", "session_key", "turn_id", "layer")),
    # held, or what became of it: promoted, known, dropped.
    Column("state", String, nullable=False),
    Column("reason", String, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Index("conversation_candidates_session", "company", "session_key", "state"),
)

#: Crises that engines detected; kept apart from memory, with a retention of their own.
crisis_log = Table(
    "crisis_log",
    metadata,
    *_key("company", "record_id"),
    *(Column(name, String, nullable=False) for name in ("agent_id", "subject", "session_id", "level", "path")),
    Column("at", UtcDateTime, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Index("crisis_log_newest", "company", "agent_id", "at"),
)

#: What people thought of sessions; kept apart from memory likewise.
session_feedback = Table(
    "session_feedback",
    metadata,
    *_key("company", "record_id"),
    *(Column(name, String, nullable=False) for name in ("agent_id", "subject", "session_id", "label", "source")),
    Column("at", UtcDateTime, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Index("session_feedback_newest", "company", "agent_id", "at"),
)
