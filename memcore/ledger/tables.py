"""Tables of the ledger, and the conditions of their partial indexes."""

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

from memcore.ledger.database import UtcDateTime, json_document

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
    Column("retention_overrides", json_document(), nullable=False),
    Column("paused", Boolean, nullable=False),
    Column("next_due_at", UtcDateTime),
    Column("registered_at", UtcDateTime, nullable=False),
    Column("last_run_at", UtcDateTime),
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
    Column("planned_at", UtcDateTime, nullable=False),
    Column("undo_of", String),
    Column("allow_large", Boolean, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("token", String),
    Column("lease_until", UtcDateTime),
    Column("counts", json_document(), nullable=False),
    Column("reason", String),
    Column("created_at", UtcDateTime, nullable=False),
    Column("rung_at", UtcDateTime, nullable=False),
    Column("wake_at", UtcDateTime),
    Column("started_at", UtcDateTime),
    Column("finished_at", UtcDateTime),
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
    Column("changed_at", UtcDateTime, nullable=False),
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
    Column("died_at", UtcDateTime, nullable=False),
    Index("dead_letters_newest", "company", "died_at"),
)

attempts = Table(
    "attempts",
    metadata,
    Column("job_id", String, primary_key=True),
    Column("starts", Integer, nullable=False),
    Column("started_at", UtcDateTime, nullable=False),
)

ticks = Table(
    "ticks",
    metadata,
    Column("company", String, primary_key=True),
    Column("ended_at", UtcDateTime, nullable=False),
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
    Column("at", UtcDateTime, nullable=False),
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

#: The parts of a run's consolidation that wait for a model; the row is the plan, so that no later look at the store
#: cuts other parts.
syntheses = Table(
    "syntheses",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("place", Integer, primary_key=True, autoincrement=False),
    Column("company", String, nullable=False),
    Column("agent_id", String, nullable=False),
    Column("category", String, nullable=False),
    Column("source_ids", json_document(), nullable=False),
    Column("kept_id", String),
    Column("state", String, nullable=False),
    Column("reason", String),
    Column("ring_at", UtcDateTime),
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
    Column("lease_until", UtcDateTime),
    Column("asked_at", UtcDateTime, nullable=False),
    Column("answered_at", UtcDateTime),
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
    Column("called_at", UtcDateTime, nullable=False),
    Column("settled_at", UtcDateTime),
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
    Column("created_at", UtcDateTime, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("compressed_at", UtcDateTime),
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

#: Proposals, the decisions of people on them, and what is still to be carried out.
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
    Column("created_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False),
    Column("decided_at", UtcDateTime),
    Column("decided_by", String),
    Column("reason", String),
    Column("effect", String),
    Column("undone_at", UtcDateTime),
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
    Column("author", json_document(), nullable=False),
    Column("at", UtcDateTime, nullable=False),
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
    Column("author", json_document(), nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("changed_at", UtcDateTime, nullable=False),
    Column("retracted_at", UtcDateTime),
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
    Column("at", UtcDateTime, nullable=False),
    Index("org_outbox_oldest", "company", "at"),
)

#: Append-only: what was refused, and what people did.
audit = Table(
    "audit",
    metadata,
    Column("company", String, primary_key=True),
    Column("audit_id", String, primary_key=True),
    Column("at", UtcDateTime, nullable=False),
    Column("actor", String, nullable=False),
    Column("action", String, nullable=False),
    Column("subject", String),
    Column("verdict", String, nullable=False),
    Column("reason", String),
    Index("audit_newest", "company", "at"),
)


#: How tasks went, in short, one row each: what skills are learned from. The whole trace is a raw experience.
trajectories = Table(
    "trajectories",
    metadata,
    Column("company", String, primary_key=True),
    Column("trajectory_id", String, primary_key=True),
    Column("agent_id", String, nullable=False),
    Column("task_id", String, nullable=False),
    Column("task_type", String),
    Column("outcome", String, nullable=False),
    Column("error_category", String),
    # A hash of the tools in the order of their calls; None where fewer than two were called.
    Column("tools_key", String),
    Column("quality", Float),
    Column("ended_at", UtcDateTime, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Index("trajectories_newest", "company", "ended_at"),
    Index("trajectories_of_agent", "company", "agent_id", "ended_at"),
    Index("trajectories_of_failure", "company", "error_category", "ended_at"),
    Index("trajectories_of_chain", "company", "tools_key", "ended_at"),
)

#: The lesson of each task from which one may be drawn: asked for once, and what became of it.
lessons = Table(
    "lessons",
    metadata,
    Column("company", String, primary_key=True),
    # The trajectory's own id.
    Column("lesson_id", String, primary_key=True),
    Column("agent_id", String, nullable=False),
    # None while it is not drawn; then one word, such as stored or low_confidence.
    Column("outcome", String),
    Column("memory_id", String),
    Column("confidence", Float),
    Column("created_at", UtcDateTime, nullable=False),
    # When its message was sent last; in the future while it sleeps.
    Column("rung_at", UtcDateTime, nullable=False),
    # How often a model was asked in vain.
    Column("tries", Integer, nullable=False),
    Column("drawn_at", UtcDateTime),
    Column("propagated_at", UtcDateTime),
    Column("body", LargeBinary),
    Index("lessons_of_agent", "company", "agent_id", "created_at"),
    Index("lessons_oldest", "company", "created_at"),
)

#: A lesson that is not drawn yet.
WAITING = lessons.c.outcome.is_(None)

Index("lessons_waiting", lessons.c.company, lessons.c.rung_at, sqlite_where=WAITING, postgresql_where=WAITING)

#: A lesson that was stored and not propagated.
UNPROPAGATED = lessons.c.memory_id.is_not(None) & lessons.c.propagated_at.is_(None)

Index(
    "lessons_unpropagated",
    lessons.c.company,
    lessons.c.agent_id,
    sqlite_where=UNPROPAGATED,
    postgresql_where=UNPROPAGATED,
)

#: Skills that a person approved: the text and the state of each.
skills = Table(
    "skills",
    metadata,
    Column("company", String, primary_key=True),
    # The id under which it was published first; it keeps it when it comes back under another.
    Column("skill_id", String, primary_key=True),
    Column("approval_id", String, nullable=False),
    Column("pattern_id", String, nullable=False),
    Column("state", String, nullable=False),
    Column("superseded_by", String),
    Column("confidence", Float, nullable=False),
    Column("published_at", UtcDateTime, nullable=False),
    Column("changed_at", UtcDateTime, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Index("skills_newest", "company", "state", "published_at"),
)

#: How often a lesson or a skill was applied, and how often it helped.
skill_counts = Table(
    "skill_counts",
    metadata,
    Column("company", String, primary_key=True),
    Column("skill_id", String, primary_key=True),
    Column("applications", Integer, nullable=False),
    Column("successes", Integer, nullable=False),
    Column("last_applied_at", UtcDateTime, nullable=False),
)

#: Each application, for as long as its message may come again; counted in the same transaction.
skill_applications = Table(
    "skill_applications",
    metadata,
    Column("company", String, primary_key=True),
    Column("application_id", String, primary_key=True),
    Column("skill_id", String, nullable=False),
    Column("agent_id", String, nullable=False),
    Column("outcome", String, nullable=False),
    Column("applied_at", UtcDateTime, nullable=False),
    Index("skill_applications_oldest", "company", "applied_at"),
)

#: The evolver's cycles: what each was to look at, and its report.
skill_cycles = Table(
    "skill_cycles",
    metadata,
    Column("company", String, primary_key=True),
    Column("cycle_id", String, primary_key=True),
    Column("origin", String, nullable=False),
    Column("planned_at", UtcDateTime, nullable=False),
    Column("window_start", UtcDateTime, nullable=False),
    Column("window_end", UtcDateTime, nullable=False),
    Column("rung_at", UtcDateTime, nullable=False),
    Column("finished_at", UtcDateTime),
    Column("report", json_document()),
    Index("skill_cycles_newest", "company", "planned_at"),
)

#: A cycle that is not finished.
UNFINISHED = skill_cycles.c.finished_at.is_(None)

Index(
    "skill_cycles_open",
    skill_cycles.c.company,
    skill_cycles.c.rung_at,
    sqlite_where=UNFINISHED,
    postgresql_where=UNFINISHED,
)


#: Fine-tune runs: the plan, the progress and the lease of each.
finetune_runs = Table(
    "finetune_runs",
    metadata,
    Column("company", String, primary_key=True),
    Column("run_id", String, primary_key=True),
    Column("plan", json_document(), nullable=False),
    # The stage that is next, or in work; of a run that has ended, how.
    Column("stage", String, nullable=False),
    Column("progress", Float),
    Column("error", String),
    # Of each stage that is done, its files by their place in the run's folder, with their hashes.
    Column("finished", json_document(), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("token", String),
    Column("lease_until", UtcDateTime),
    # What names the running stage, and the machine that it runs on; kept until it is known to be gone.
    Column("holder", String),
    Column("host", String),
    Column("cancel_requested_at", UtcDateTime),
    Column("rung_at", UtcDateTime, nullable=False),
    Column("started_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    Column("completed_at", UtcDateTime),
    Index("finetune_runs_newest", "company", "started_at"),
)

#: A run that has not ended.
UNENDED = finetune_runs.c.completed_at.is_(None)

Index(
    "finetune_runs_active_once",
    finetune_runs.c.company,
    unique=True,
    sqlite_where=UNENDED,
    postgresql_where=UNENDED,
)

#: The checkpoints of runs: the folder, its evaluation, and the gate's verdict.
finetune_checkpoints = Table(
    "finetune_checkpoints",
    metadata,
    Column("company", String, primary_key=True),
    Column("checkpoint_id", String, primary_key=True),
    Column("run_id", String, nullable=False),
    Column("model_path", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("base_model", String, nullable=False),
    Column("dims", Integer, nullable=False),
    Column("sha256", String, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("doc_count", Integer, nullable=False),
    Column("report", json_document(), nullable=False),
    Column("verdict", String, nullable=False),
    Column("reason", String, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Index("finetune_checkpoints_newest", "company", "created_at"),
)


#: One row a company: a switch is one update of it.
pointer = Table(
    "serving",
    metadata,
    Column("company", String, primary_key=True),
    Column("version", Integer, nullable=False),
    Column("current", json_document(), nullable=False),
    Column("target", json_document(none_as_null=True)),
    Column("previous", json_document(none_as_null=True)),
    Column("phase", String),
    Column("until", UtcDateTime),
    Column("changed_at", UtcDateTime, nullable=False),
)

#: The reindex of a company, the last one when it has ended: one at a time by its key.
reindexes = Table(
    "reindexes",
    metadata,
    Column("company", String, primary_key=True),
    Column("reindex_id", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("stage", String, nullable=False),
    # The id that the copying goes on from; None at its beginning and behind its end.
    Column("cursor", String),
    Column("looked_at", Integer, nullable=False),
    Column("total", Integer, nullable=False),
    Column("written", Integer, nullable=False),
    Column("passed_over", Integer, nullable=False),
    Column("freezes", Integer, nullable=False),
    Column("token", String),
    Column("lease_until", UtcDateTime),
    Column("rung_at", UtcDateTime, nullable=False),
    Column("started_at", UtcDateTime, nullable=False),
    Column("finished_at", UtcDateTime),
    Column("trouble", String),
)

#: Whose memories were written since they were last compared.
reindex_marks = Table(
    "reindex_marks",
    metadata,
    Column("company", String, primary_key=True),
    Column("owner", String, primary_key=True),
    # The token of the worker that compares them; None for one that nobody has begun with.
    Column("taken_by", String),
)
