"""Tables of the ledger: who is known, what is planned, what was shared, what models were asked and what it cost."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Float,
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

#: Agents of one role or department, who learn from each other.
WITH_ROLE, WITH_DEPARTMENT = agents.c.role.is_not(None), agents.c.department.is_not(None)

Index(
    "agents_of_role",
    agents.c.company,
    agents.c.role,
    agents.c.agent_id,
    sqlite_where=WITH_ROLE,
    postgresql_where=WITH_ROLE,
)
Index(
    "agents_of_department",
    agents.c.company,
    agents.c.department,
    agents.c.agent_id,
    sqlite_where=WITH_DEPARTMENT,
    postgresql_where=WITH_DEPARTMENT,
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
    Column("wake_at", Moment),
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

#: The parts of a night's consolidation that wait for a model; the row is the plan, so that no later look at the store
#: cuts other parts.
syntheses = Table(
    "syntheses",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("place", Integer, primary_key=True, autoincrement=False),
    Column("company", String, nullable=False),
    Column("agent_id", String, nullable=False),
    Column("category", String, nullable=False),
    Column("source_ids", document(), nullable=False),
    Column("kept_id", String),
    Column("state", String, nullable=False),
    Column("reason", String),
    Column("ring_at", Moment),
)

#: What models answered, by question: asked once, however often the asker dies.
answers = Table(
    "answers",
    metadata,
    Column("question_id", String, primary_key=True),
    Column("company", String, nullable=False),
    Column("agent_id", String, nullable=False),
    Column("run_id", String),
    Column("purpose", String, nullable=False),
    Column("state", String, nullable=False),
    Column("text", LargeBinary),
    Column("reason", String),
    Column("token", String),
    Column("lease_until", Moment),
    Column("asked_at", Moment, nullable=False),
    Column("answered_at", Moment),
    Index("answers_of_run", "run_id"),
    Index("answers_oldest", "company", "asked_at"),
)

#: What each agent's models used on a day (UTC), reserved before a call and settled after it: the budget's account.
model_spending = Table(
    "model_spending",
    metadata,
    Column("company", String, primary_key=True),
    Column("agent_id", String, primary_key=True),
    Column("day", String, primary_key=True),
    Column("tokens", BigInteger, nullable=False),
    Column("cost", Float, nullable=False),
)

#: Every call of a model, for people who ask what it cost and why.
model_calls = Table(
    "model_calls",
    metadata,
    Column("call_id", String, primary_key=True),
    Column("company", String, nullable=False),
    Column("agent_id", String, nullable=False),
    Column("run_id", String),
    Column("question_id", String, nullable=False),
    Column("purpose", String, nullable=False),
    Column("model", String, nullable=False),
    Column("state", String, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("prompt_tokens", BigInteger, nullable=False),
    Column("completion_tokens", BigInteger, nullable=False),
    Column("cost", Float, nullable=False),
    Column("called_at", Moment, nullable=False),
    Column("settled_at", Moment),
    Index("model_calls_newest", "company", "called_at"),
    Index("model_calls_of_run", "run_id"),
)

#: Tier 1 of experience: raw traces, only ever added to; ``compressed_at`` says that tier 2 was tried, so that nothing
#: is compressed twice.
experiences = Table(
    "experiences",
    metadata,
    Column("company", String, primary_key=True),
    Column("experience_id", String, primary_key=True),
    Column("agent_id", String, nullable=False),
    Column("task_id", String),
    Column("created_at", Moment, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("compressed_at", Moment),
    Column("compressed_as", String),
    Column("reason", String),
    Index("experiences_of_agent", "company", "agent_id", "created_at"),
)

#: A raw trace that no model has looked at yet.
RAW = experiences.c.compressed_at.is_(None)

Index(
    "experiences_raw",
    experiences.c.company,
    experiences.c.agent_id,
    experiences.c.created_at,
    sqlite_where=RAW,
    postgresql_where=RAW,
)

#: What waits for a person's word, what the word was, and what is still to be done about it.
approvals = Table(
    "approvals",
    metadata,
    Column("company", String, primary_key=True),
    Column("approval_id", String, primary_key=True),
    Column("action", String, nullable=False),
    Column("risk", String, nullable=False),
    Column("state", String, nullable=False),
    Column("needs", String),
    Column("title", String, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("expires_at", Moment, nullable=False),
    Column("decided_at", Moment),
    Column("decided_by", String),
    Column("reason", String),
    Column("effect", String),
    Column("undone_at", Moment),
    Column("undone_by", String),
    Column("undo_reason", String),
    Index("approvals_newest", "company", "created_at"),
    Index("approvals_open", "company", "needs"),
)

#: Append-only: what was published and retracted for the whole organisation, fact by fact.
org_log = Table(
    "org_log",
    metadata,
    Column("company", String, primary_key=True),
    Column("fact_id", String, primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("operation_id", String, nullable=False, unique=True),
    Column("operation", String, nullable=False),
    Column("category", String),
    Column("author", document(), nullable=False),
    Column("at", Moment, nullable=False),
    Column("body", LargeBinary),
    Index("org_log_newest", "company", "at"),
)

#: Each fact as its log leaves it, for reads.
org_facts = Table(
    "org_facts",
    metadata,
    Column("company", String, primary_key=True),
    Column("fact_id", String, primary_key=True),
    Column("version", Integer, nullable=False),
    Column("category", String, nullable=False),
    Column("author", document(), nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("changed_at", Moment, nullable=False),
    Column("retracted_at", Moment),
    Column("body", LargeBinary, nullable=False),
    Index("org_facts_listed", "company", "category", "created_at"),
)

#: The words of the facts that stand, for searches.
org_terms = Table(
    "org_terms",
    metadata,
    Column("company", String, primary_key=True),
    Column("fact_id", String, primary_key=True),
    Column("term", BigInteger, primary_key=True, autoincrement=False),
    Column("weight", Double, nullable=False),
    Index("org_terms_of_company", "company", "term"),
    sqlite_with_rowid=False,
)

#: Lines of the log that the store of vectors does not show yet; written with the line, gone when it does.
org_outbox = Table(
    "org_outbox",
    metadata,
    Column("company", String, primary_key=True),
    Column("fact_id", String, primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("at", Moment, nullable=False),
    Index("org_outbox_oldest", "company", "at"),
)

#: Append-only: what was refused, and what was done by a person's hand, for those who ask later.
audit = Table(
    "audit",
    metadata,
    Column("company", String, primary_key=True),
    Column("audit_id", String, primary_key=True),
    Column("at", Moment, nullable=False),
    Column("actor", String, nullable=False),
    Column("action", String, nullable=False),
    Column("subject", String),
    Column("verdict", String, nullable=False),
    Column("reason", String),
    Index("audit_newest", "company", "at"),
)
