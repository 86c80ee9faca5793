"""Tables of the ledger, the journal and mem0's history, and the conditions of their partial indexes.

A table's columns are those that the migrations made; a test compares the two.
"""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Double,
    Float,
    ForeignKey,
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
from sqlalchemy.types import UserDefinedType

from memcore.ledger.database import UtcDateTime, json_document


def _key(*names: str) -> list[Column[Any]]:
    return [Column(name, String, primary_key=True) for name in names]


def _required(kind: Any, *names: str) -> list[Column[Any]]:
    return [Column(name, kind, nullable=False) for name in names]


def _optional(kind: Any, *names: str) -> list[Column[Any]]:
    return [Column(name, kind) for name in names]


def _partial_index(name: str, *columns: Column[Any], where: ColumnElement[bool], unique: bool = False) -> None:
    Index(name, *columns, unique=unique, sqlite_where=where, postgresql_where=where)


metadata = MetaData()

agents = Table(
    "agents",
    metadata,
    *_key("company", "agent_id"),
    *_optional(String, "role", "department", "level", "interval"),
    *_optional(Integer, "max_memories", "retention_days"),
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

_partial_index("agents_due_own", agents.c.company, agents.c.next_due_at, where=OWN_INTERVAL)
_partial_index("agents_due_company", agents.c.company, agents.c.next_due_at, where=COMPANY_INTERVAL)

#: Agents of one role or department, who learn from each other.
WITH_ROLE, WITH_DEPARTMENT = agents.c.role.is_not(None), agents.c.department.is_not(None)

_partial_index("agents_of_role", agents.c.company, agents.c.role, agents.c.agent_id, where=WITH_ROLE)
_partial_index("agents_of_department", agents.c.company, agents.c.department, agents.c.agent_id, where=WITH_DEPARTMENT)

runs = Table(
    "runs",
    metadata,
    *_key("run_id"),
    *_required(String, "company", "agent_id", "kind", "origin", "state", "step"),
    Column("planned_at", UtcDateTime, nullable=False),
    Column("undo_of", String),
    Column("allow_large", Boolean, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("token", String),
    Column("lease_until", UtcDateTime),
    Column("counts", json_document(), nullable=False),
    Column("reason", String),
    *_required(UtcDateTime, "created_at", "rung_at"),
    *_optional(UtcDateTime, "wake_at", "started_at", "finished_at"),
    Column("scope_id", String),
    UniqueConstraint("company", "agent_id", "kind", "planned_at", name="runs_planned_once"),
    Index("runs_newest", "company", "created_at"),
    Index("runs_of_agent", "company", "agent_id", "created_at"),
)

# Literals, not bound values: SQLite uses a partial index only when the query repeats its condition word for word.
#: A run that is on its way; an agent has at most one.
ACTIVE = runs.c.state.in_([literal_column("'queued'"), literal_column("'running'")])

_partial_index("runs_active_once", runs.c.company, runs.c.agent_id, unique=True, where=ACTIVE)

switches = Table(
    "switches",
    metadata,
    *_key("company"),
    Column("paused", Boolean, nullable=False),
    Column("changed_at", UtcDateTime, nullable=False),
)

dead_letters = Table(
    "dead_letters",
    metadata,
    *_key("job_id"),
    *_required(String, "company", "job", "queue"),
    Column("payload", Text, nullable=False),
    Column("reason", String, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("died_at", UtcDateTime, nullable=False),
    Index("dead_letters_newest", "company", "died_at"),
)

attempts = Table(
    "attempts",
    metadata,
    *_key("job_id"),
    Column("starts", Integer, nullable=False),
    Column("started_at", UtcDateTime, nullable=False),
)

ticks = Table(
    "ticks",
    metadata,
    *_key("company"),
    Column("ended_at", UtcDateTime, nullable=False),
    Column("sent", Integer, nullable=False),
)

#: Append-only: no row of it is ever changed. A retraction has no body, for it names the publication that has one.
shared_log = Table(
    "shared_log",
    metadata,
    *_key("company"),
    Column("version", Integer, primary_key=True, autoincrement=False),
    *_required(String, "kind", "memory_id", "fact_id", "agent_id"),
    Column("at", UtcDateTime, nullable=False),
    Column("body", LargeBinary),
    UniqueConstraint("company", "memory_id", "kind", name="shared_log_once"),
    Index("shared_log_of_fact", "company", "fact_id", "version"),
)

#: How far each company's log is written, and how far the store has followed it: what searches see.
shared_heads = Table(
    "shared_heads",
    metadata,
    *_key("company"),
    *_required(Integer, "last", "head"),
)

#: The parts of a run's consolidation that wait for a model; the row is the plan, so that no later look at the store
#: cuts other parts.
syntheses = Table(
    "syntheses",
    metadata,
    *_key("run_id"),
    Column("place", Integer, primary_key=True, autoincrement=False),
    *_required(String, "company", "agent_id", "category"),
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
    *_key("question_id"),
    *_required(String, "company", "agent_id"),
    Column("run_id", String),
    *_required(String, "purpose", "state"),
    Column("text", LargeBinary),
    *_optional(String, "reason", "token"),
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
    *_key("company", "agent_id", "day"),
    Column("tokens", BigInteger, nullable=False),
    Column("cost", Float, nullable=False),
)

#: Every call of a model, for people who ask what it cost and why.
model_calls = Table(
    "model_calls",
    metadata,
    *_key("call_id"),
    *_required(String, "company", "agent_id"),
    Column("run_id", String),
    *_required(String, "question_id", "purpose", "model", "state"),
    Column("attempts", Integer, nullable=False),
    *_required(BigInteger, "prompt_tokens", "completion_tokens"),
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
    *_key("company", "experience_id"),
    Column("agent_id", String, nullable=False),
    Column("task_id", String),
    Column("created_at", UtcDateTime, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("compressed_at", UtcDateTime),
    *_optional(String, "compressed_as", "reason"),
    Index("experiences_of_agent", "company", "agent_id", "created_at"),
)

#: A raw trace that no model has looked at yet.
RAW = experiences.c.compressed_at.is_(None)

_partial_index("experiences_raw", experiences.c.company, experiences.c.agent_id, experiences.c.created_at, where=RAW)

#: Proposals, the decisions of people on them, and what is still to be carried out.
approvals = Table(
    "approvals",
    metadata,
    *_key("company", "approval_id"),
    *_required(String, "action", "risk", "state"),
    Column("needs", String),
    Column("title", String, nullable=False),
    Column("body", LargeBinary, nullable=False),
    *_required(UtcDateTime, "created_at", "expires_at"),
    Column("decided_at", UtcDateTime),
    *_optional(String, "decided_by", "reason", "effect"),
    Column("undone_at", UtcDateTime),
    *_optional(String, "undone_by", "undo_reason"),
    Index("approvals_newest", "company", "created_at"),
    Index("approvals_open", "company", "needs"),
)

#: Append-only: what was published and retracted for the whole organisation, fact by fact.
org_log = Table(
    "org_log",
    metadata,
    *_key("company", "fact_id"),
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
    *_key("company", "fact_id"),
    Column("version", Integer, nullable=False),
    Column("category", String, nullable=False),
    Column("author", json_document(), nullable=False),
    *_required(UtcDateTime, "created_at", "changed_at"),
    Column("retracted_at", UtcDateTime),
    Column("body", LargeBinary, nullable=False),
    Index("org_facts_listed", "company", "category", "created_at"),
)

#: The words of the facts that stand, for searches.
org_terms = Table(
    "org_terms",
    metadata,
    *_key("company", "fact_id"),
    Column("term", BigInteger, primary_key=True, autoincrement=False),
    Column("weight", Double, nullable=False),
    Index("org_terms_of_company", "company", "term"),
    sqlite_with_rowid=False,
)

#: Lines of the log that the store of vectors does not show yet; written with the line, gone when it does.
org_outbox = Table(
    "org_outbox",
    metadata,
    *_key("company", "fact_id"),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("at", UtcDateTime, nullable=False),
    Index("org_outbox_oldest", "company", "at"),
)

#: Append-only: what was refused, and what people did.
audit = Table(
    "audit",
    metadata,
    *_key("company", "audit_id"),
    Column("at", UtcDateTime, nullable=False),
    *_required(String, "actor", "action"),
    Column("subject", String),
    Column("verdict", String, nullable=False),
    Column("reason", String),
    Index("audit_newest", "company", "at"),
)

#: How tasks went, in short, one row each: what skills are learned from. The whole trace is a raw experience.
trajectories = Table(
    "trajectories",
    metadata,
    *_key("company", "trajectory_id"),
    *_required(String, "agent_id", "task_id"),
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
    *_key("company"),
    # The trajectory's own id.
    *_key("lesson_id"),
    Column("agent_id", String, nullable=False),
    # None while it is not drawn; then one word, such as stored or low_confidence.
    *_optional(String, "outcome", "memory_id"),
    Column("confidence", Float),
    Column("created_at", UtcDateTime, nullable=False),
    # When its message was sent last; in the future while it sleeps.
    Column("rung_at", UtcDateTime, nullable=False),
    # How often a model was asked in vain.
    Column("tries", Integer, nullable=False),
    *_optional(UtcDateTime, "drawn_at", "propagated_at"),
    Column("body", LargeBinary),
    Index("lessons_of_agent", "company", "agent_id", "created_at"),
    Index("lessons_oldest", "company", "created_at"),
)

#: A lesson that is not drawn yet.
WAITING = lessons.c.outcome.is_(None)

_partial_index("lessons_waiting", lessons.c.company, lessons.c.rung_at, where=WAITING)

#: A lesson that was stored and not propagated.
UNPROPAGATED = lessons.c.memory_id.is_not(None) & lessons.c.propagated_at.is_(None)

_partial_index("lessons_unpropagated", lessons.c.company, lessons.c.agent_id, where=UNPROPAGATED)

#: Skills that a person approved: the text and the state of each.
skills = Table(
    "skills",
    metadata,
    *_key("company"),
    # The id under which it was published first; it keeps it when it comes back under another.
    *_key("skill_id"),
    *_required(String, "approval_id", "pattern_id", "state"),
    Column("superseded_by", String),
    Column("confidence", Float, nullable=False),
    *_required(UtcDateTime, "published_at", "changed_at"),
    Column("body", LargeBinary, nullable=False),
    Index("skills_newest", "company", "state", "published_at"),
)

#: How often a lesson or a skill was applied, and how often it helped.
skill_counts = Table(
    "skill_counts",
    metadata,
    *_key("company", "skill_id"),
    *_required(Integer, "applications", "successes"),
    Column("last_applied_at", UtcDateTime, nullable=False),
)

#: Each application, for as long as its message may come again; counted in the same transaction.
skill_applications = Table(
    "skill_applications",
    metadata,
    *_key("company", "application_id"),
    *_required(String, "skill_id", "agent_id", "outcome"),
    Column("applied_at", UtcDateTime, nullable=False),
    Index("skill_applications_oldest", "company", "applied_at"),
)

#: The evolver's cycles: what each was to look at, and its report.
skill_cycles = Table(
    "skill_cycles",
    metadata,
    *_key("company", "cycle_id"),
    Column("origin", String, nullable=False),
    *_required(UtcDateTime, "planned_at", "window_start", "window_end", "rung_at"),
    Column("finished_at", UtcDateTime),
    Column("report", json_document()),
    Index("skill_cycles_newest", "company", "planned_at"),
)

#: A cycle that is not finished.
UNFINISHED = skill_cycles.c.finished_at.is_(None)

_partial_index("skill_cycles_open", skill_cycles.c.company, skill_cycles.c.rung_at, where=UNFINISHED)


#: Fine-tune runs: the plan, the progress and the lease of each.
finetune_runs = Table(
    "finetune_runs",
    metadata,
    *_key("company", "run_id"),
    Column("plan", json_document(), nullable=False),
    # The stage that is next, or in work; of a run that has ended, how.
    Column("stage", String, nullable=False),
    Column("progress", Float),
    Column("error", String),
    # Of each stage that is done, its files by their place in the run's folder, with their hashes.
    Column("finished", json_document(), nullable=False),
    *_required(Integer, "attempt", "tries"),
    Column("token", String),
    Column("lease_until", UtcDateTime),
    # What names the running stage, and the machine that it runs on; kept until it is known to be gone.
    *_optional(String, "holder", "host"),
    Column("cancel_requested_at", UtcDateTime),
    *_required(UtcDateTime, "rung_at", "started_at", "updated_at"),
    Column("completed_at", UtcDateTime),
    Index("finetune_runs_newest", "company", "started_at"),
)

#: A run that has not ended.
UNENDED = finetune_runs.c.completed_at.is_(None)

_partial_index("finetune_runs_active_once", finetune_runs.c.company, unique=True, where=UNENDED)

#: The checkpoints of runs: the folder, its evaluation, and the gate's verdict.
finetune_checkpoints = Table(
    "finetune_checkpoints",
    metadata,
    *_key("company", "checkpoint_id"),
    *_required(String, "run_id", "model_path", "kind", "base_model"),
    Column("dims", Integer, nullable=False),
    Column("sha256", String, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("doc_count", Integer, nullable=False),
    Column("report", json_document(), nullable=False),
    *_required(String, "verdict", "reason"),
    Column("created_at", UtcDateTime, nullable=False),
    Index("finetune_checkpoints_newest", "company", "created_at"),
)

#: One row a company: a switch is one update of it.
pointer = Table(
    "serving",
    metadata,
    *_key("company"),
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
    *_key("company"),
    *_required(String, "reindex_id", "kind", "stage"),
    # The id that the copying goes on from; None at its beginning and behind its end.
    Column("cursor", String),
    *_required(Integer, "looked_at", "total", "written", "passed_over", "freezes"),
    Column("token", String),
    Column("lease_until", UtcDateTime),
    *_required(UtcDateTime, "rung_at", "started_at"),
    Column("finished_at", UtcDateTime),
    Column("trouble", String),
)

#: Whose memories were written since they were last compared.
reindex_marks = Table(
    "reindex_marks",
    metadata,
    *_key("company", "owner"),
    # The token of the worker that compares them; None for one that nobody has begun with.
    Column("taken_by", String),
)

#: Tables of the journal: entries with their memories in full, tombstones, holds, the archive, uses.
journal_metadata = MetaData()

bookings = Table(
    "bookings",
    journal_metadata,
    *_key("booking_id"),
    *_required(String, "run_id", "company", "agent_id"),
    Column("seq", Integer, nullable=False),
    *_required(String, "reason", "incoming_kind", "state"),
    Column("prepared_at", UtcDateTime, nullable=False),
    *_optional(UtcDateTime, "settled_at", "expired_at"),
    Column("reverses", String),
    UniqueConstraint("run_id", "seq", name="bookings_in_order"),
    Index("bookings_of_agent", "company", "agent_id"),
)

#: An entry that is decided and not yet carried out.
OPEN = bookings.c.state == literal_column("'prepared'")

#: An entry that is carried out and still holds its memories in full.
KEPT = (bookings.c.state == literal_column("'done'")) & bookings.c.expired_at.is_(None)

_partial_index("bookings_open", bookings.c.company, bookings.c.agent_id, where=OPEN)
_partial_index("bookings_kept", bookings.c.settled_at, where=KEPT)

booking_records = Table(
    "booking_records",
    journal_metadata,
    Column("booking_id", String, ForeignKey("bookings.booking_id"), primary_key=True),
    *_key("kind", "memory_id"),
    Column("position", Integer, nullable=False),
    Column("void", Boolean, nullable=False),
    *_optional(LargeBinary, "body", "dense", "sparse_indices", "sparse_values"),
    Index("booking_records_of_memory", "memory_id"),
)

tombstones = Table(
    "tombstones",
    journal_metadata,
    *_key("memory_id"),
    Column("booking_id", String, nullable=False),
    Column("buried_at", UtcDateTime, nullable=False),
)

holds = Table(
    "holds",
    journal_metadata,
    *_key("company", "agent_id", "memory_id"),
    Column("until", UtcDateTime, nullable=False),
)

memory_use = Table(
    "memory_use",
    journal_metadata,
    *_key("company", "agent_id", "memory_id"),
    Column("uses", BigInteger, nullable=False),
    Column("last_used_at", UtcDateTime, nullable=False),
    Index("memory_use_of_memory", "memory_id"),
)

use_batches = Table(
    "use_batches",
    journal_metadata,
    *_key("batch_id"),
    Column("counted_at", UtcDateTime, nullable=False),
    Index("use_batches_oldest", "counted_at"),
)

archive = Table(
    "archive",
    journal_metadata,
    *_key("archival_id"),
    *_required(String, "company", "agent_id", "original_id"),
    *_optional(String, "booking_id", "run_id"),
    *_required(String, "mode", "category", "namespace"),
    Column("created_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime),
    Column("archived_at", UtcDateTime, nullable=False),
    # The entry that brought the memory back into the store; empty while it is out.
    Column("returned_by", String),
    Column("returned_at", UtcDateTime),
    Column("vector_space", String),
    Column("body", LargeBinary, nullable=False),
    *_optional(LargeBinary, "dense", "sparse_indices", "sparse_values"),
    Index("archive_of_memory", "company", "agent_id", "original_id"),
    Index("archive_of_run", "run_id"),
    Index("archive_oldest", "company", "archived_at"),
)

#: An entry whose memory is not in the store.
OUT = archive.c.returned_by.is_(literal_column("NULL"))

#: An entry whose memory was brought back.
RETURNED = archive.c.returned_at.is_not(literal_column("NULL"))

#: An entry whose memory was to live until a time.
MORTAL = archive.c.expires_at.is_not(literal_column("NULL"))

_partial_index("archive_out", archive.c.company, archive.c.agent_id, archive.c.created_at, where=OUT)
_partial_index("archive_returned", archive.c.company, archive.c.returned_at, where=RETURNED)
_partial_index("archive_mortal", archive.c.company, archive.c.expires_at, where=MORTAL)

archive_terms = Table(
    "archive_terms",
    journal_metadata,
    Column("archival_id", String, ForeignKey("archive.archival_id", ondelete="CASCADE"), primary_key=True),
    Column("term", BigInteger, primary_key=True, autoincrement=False),
    *_required(String, "company", "agent_id"),
    Column("weight", Double, nullable=False),
    Index("archive_terms_of_agent", "company", "agent_id", "term"),
    sqlite_with_rowid=False,
)

archive_tags = Table(
    "archive_tags",
    journal_metadata,
    Column("archival_id", String, ForeignKey("archive.archival_id", ondelete="CASCADE"), primary_key=True),
    *_key("tag"),
    sqlite_with_rowid=False,
)

#: mem0's history table, column by column as mem0 2.2.1 makes it, so that either program can open the other's file.
history_metadata = MetaData()


class _DateTimeText(UserDefinedType[str]):
    """Text in a column that SQLite declares as DATETIME: mem0 writes ISO strings there and reads them back."""

    cache_ok = True

    def get_col_spec(self, **_options: Any) -> str:
        """Return the declared type."""
        return "DATETIME"


_TIME_TEXT = Text().with_variant(_DateTimeText(), "sqlite")

history = Table(
    "history",
    history_metadata,
    Column("id", Text, primary_key=True),
    *_optional(Text, "memory_id", "old_memory", "new_memory", "event"),
    *_optional(_TIME_TEXT, "created_at", "updated_at"),
    Column("is_deleted", Integer),
    *_optional(Text, "actor_id", "role"),
    # mem0 has no index: without one, erasing a memory's history reads the history of all of them.
    Index("history_memory_id", "memory_id"),
)
