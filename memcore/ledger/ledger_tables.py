"""Tables of the ledger: agents, runs, switches, dead letters, attempts, ticks, the log of shared knowledge."""

from sqlalchemy import (
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    literal_column,
)

from memcore.ledger.columns import Moment, document

metadata = MetaData()

agents = Table(
    "agents",
    metadata,
    Column("company", String, primary_key=True),
    Column("agent_id", String, primary_key=True),
    Column("role", String),
    Column("department", String),
    Column("level", String),
    Column("interval", String),
    Column("max_memories", Integer),
    Column("retention_days", Integer),
    Column("retention_overrides", document(), nullable=False),
    Column("paused", Boolean, nullable=False),
    Column("next_due_at", Moment),
    Column("registered_at", Moment, nullable=False),
    Column("last_run_at", Moment),
)

#: Agents that a tick may take because they have an interval of their own.
OWN_INTERVAL = agents.c.interval.is_not(None) & agents.c.paused.is_(False)

#: Agents that a tick may take because they follow the company's interval; apart, so that a company set to "never"
#: costs a tick nothing however many follow it.
COMPANY_INTERVAL = agents.c.interval.is_(None) & agents.c.paused.is_(False)

Index(
    "agents_due_own",
    agents.c.company,
    agents.c.next_due_at,
    sqlite_where=OWN_INTERVAL,
    postgresql_where=OWN_INTERVAL,
)
Index(
    "agents_due_company",
    agents.c.company,
    agents.c.next_due_at,
    sqlite_where=COMPANY_INTERVAL,
    postgresql_where=COMPANY_INTERVAL,
)

runs = Table(
    "runs",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("company", String, nullable=False),
    Column("agent_id", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("origin", String, nullable=False),
    Column("state", String, nullable=False),
    Column("step", String, nullable=False),
    Column("planned_at", Moment, nullable=False),
    Column("undo_of", String),
    Column("allow_large", Boolean, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("token", String),
    Column("lease_until", Moment),
    Column("counts", document(), nullable=False),
    Column("reason", String),
    Column("created_at", Moment, nullable=False),
    Column("rung_at", Moment, nullable=False),
    Column("started_at", Moment),
    Column("finished_at", Moment),
    Column("scope_id", String),
    UniqueConstraint("company", "agent_id", "kind", "planned_at", name="runs_planned_once"),
    Index("runs_newest", "company", "created_at"),
    Index("runs_of_agent", "company", "agent_id", "created_at"),
)

# Literals, not bound values: SQLite uses a partial index only when the query repeats its condition word for word.
#: A run that is on its way; an agent has at most one.
ACTIVE = runs.c.state.in_([literal_column("'queued'"), literal_column("'running'")])

Index(
    "runs_active_once",
    runs.c.company,
    runs.c.agent_id,
    unique=True,
    sqlite_where=ACTIVE,
    postgresql_where=ACTIVE,
)

switches = Table(
    "switches",
    metadata,
    Column("company", String, primary_key=True),
    Column("paused", Boolean, nullable=False),
    Column("changed_at", Moment, nullable=False),
)

dead_letters = Table(
    "dead_letters",
    metadata,
    Column("job_id", String, primary_key=True),
    Column("company", String, nullable=False),
    Column("job", String, nullable=False),
    Column("queue", String, nullable=False),
    Column("payload", Text, nullable=False),
    Column("reason", String, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("died_at", Moment, nullable=False),
    Index("dead_letters_newest", "company", "died_at"),
)

attempts = Table(
    "attempts",
    metadata,
    Column("job_id", String, primary_key=True),
    Column("starts", Integer, nullable=False),
    Column("started_at", Moment, nullable=False),
)

ticks = Table(
    "ticks",
    metadata,
    Column("company", String, primary_key=True),
    Column("ended_at", Moment, nullable=False),
    Column("sent", Integer, nullable=False),
)

#: Append-only: no row of it is ever changed. A retraction has no body, for it names the publication that has one.
shared_log = Table(
    "shared_log",
    metadata,
    Column("company", String, primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("kind", String, nullable=False),
    Column("memory_id", String, nullable=False),
    Column("fact_id", String, nullable=False),
    Column("agent_id", String, nullable=False),
    Column("at", Moment, nullable=False),
    Column("body", LargeBinary),
    UniqueConstraint("company", "memory_id", "kind", name="shared_log_once"),
    Index("shared_log_of_fact", "company", "fact_id", "version"),
)

#: How far each company's log is written, and how far the store has followed it: what searches see.
shared_heads = Table(
    "shared_heads",
    metadata,
    Column("company", String, primary_key=True),
    Column("last", Integer, nullable=False),
    Column("head", Integer, nullable=False),
)
