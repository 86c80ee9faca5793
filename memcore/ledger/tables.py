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
    exists,
    literal_column,
)
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import UserDefinedType

from memcore.ledger.database import UtcDateTime, json_document
from memcore.models.execution import TerminationReason


def _key(*names: str) -> list[Column[Any]]:
    return [Column(name, String, primary_key=True) for name in names]


def _required(kind: Any, *names: str) -> list[Column[Any]]:
    return [Column(name, kind, nullable=False) for name in names]


def _optional(kind: Any, *names: str) -> list[Column[Any]]:
    return [Column(name, kind) for name in names]


def _partial_index(name: str, *columns: Column[Any], where: ColumnElement[bool], unique: bool = False) -> None:
    Index(name, *columns, unique=unique, sqlite_where=where, postgresql_where=where)


_JSON = json_document(none_as_null=True)

metadata = MetaData()


def _table(name: str, *parts: SchemaItem, **options: Any) -> Table:
    return Table(name, metadata, *parts, **options)


agents = _table(
    "agents",
    *_key("company", "agent_id"),
    *_optional(String, "role", "department", "level", "interval"),
    *_optional(Integer, "max_memories", "retention_days"),
    Column("retention_overrides", json_document(), nullable=False),
    Column("paused", Boolean, nullable=False),
    *_optional(UtcDateTime, "next_due_at", "last_run_at"),
    Column("registered_at", UtcDateTime, nullable=False),
    # None while no person has added it: then an engine alone vouches for it.
    Column("added_at", UtcDateTime),
)

#: Agents that a tick may take because they have an interval of their own.
OWN_INTERVAL = agents.c.interval.is_not(None) & agents.c.paused.is_(False)

#: Agents that a tick may take because they follow the company's interval; apart, so that "never" costs a tick nothing.
COMPANY_INTERVAL = agents.c.interval.is_(None) & agents.c.paused.is_(False)

_partial_index("agents_due_own", agents.c.company, agents.c.next_due_at, where=OWN_INTERVAL)
_partial_index("agents_due_company", agents.c.company, agents.c.next_due_at, where=COMPANY_INTERVAL)

#: Agents of one role or department, who learn from each other.
WITH_ROLE, WITH_DEPARTMENT = agents.c.role.is_not(None), agents.c.department.is_not(None)

_partial_index("agents_of_role", agents.c.company, agents.c.role, agents.c.agent_id, where=WITH_ROLE)
_partial_index("agents_of_department", agents.c.company, agents.c.department, agents.c.agent_id, where=WITH_DEPARTMENT)

runs = _table(
    "runs",
    *_key("run_id"),
    *_required(String, "company", "agent_id", "kind", "origin", "step"),
    *_required(UtcDateTime, "planned_at", "created_at"),
    *_optional(String, "undo_of", "scope_id"),
    Column("allow_large", Boolean, nullable=False),
    Column("counts", json_document(), nullable=False),
    Index("runs_newest", "company", "created_at"),
    Index("runs_of_agent", "company", "agent_id", "created_at"),
)

#: Everything that must happen, whatever its kind; what is particular to a kind has a table of its own.
work_items = _table(
    "work_items",
    *_key("company", "kind", "key"),
    *_optional(String, "agent_id", "lock", "queue"),
    Column("state", String, nullable=False),
    Column("payload", Text),
    *_required(Integer, "attempt", "dispatches"),
    *_optional(String, "token", "reason"),
    *_optional(UtcDateTime, "lease_until", "dispatch_after", "dispatched_at", "started_at", "finished_at"),
    Column("created_at", UtcDateTime, nullable=False),
)

# Literals, not bound values: SQLite uses a partial index only when the query repeats its condition word for word.
#: An item that is on its way.
OPEN_WORK = work_items.c.state.in_([literal_column(f"'{state}'") for state in ("available", "waiting", "leased")])

_partial_index("work_items_locked", work_items.c.company, work_items.c.lock, unique=True, where=OPEN_WORK)
_partial_index("work_items_due", work_items.c.dispatch_after, where=OPEN_WORK)

#: An item that waits for a person to decide, counted at each scrape among all that have ever been.
HELD_WORK = work_items.c.state == literal_column("'held'")

_partial_index("work_items_held", work_items.c.company, work_items.c.kind, where=HELD_WORK)

#: An erasure, found by its agent with each write.
ERASE_WORK = work_items.c.kind == literal_column("'memory.erase.run'")

_of_agent = (work_items.c.company, work_items.c.agent_id, work_items.c.finished_at)
_partial_index("erasures_agent", *_of_agent, where=ERASE_WORK)

companies = _table(
    "companies",
    *_key("company"),
    *_required(String, "state"),
    Column("policy", json_document(none_as_null=True)),
    *_optional(String, "interval"),
    *_required(UtcDateTime, "created_at", "changed_at"),
)

dead_letters = _table(
    "dead_letters",
    *_key("job_id"),
    *_required(String, "company", "job", "queue", "reason"),
    Column("payload", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("died_at", UtcDateTime, nullable=False),
    Index("dead_letters_newest", "company", "died_at"),
)

attempts = _table("attempts", *_key("job_id"), *_required(Integer, "starts"), *_required(UtcDateTime, "started_at"))

ticks = _table(
    "ticks",
    *_key("company"),
    Column("ended_at", UtcDateTime, nullable=False),
    Column("sent", Integer, nullable=False),
    *_optional(UtcDateTime, "jumped_from", "jumped_at"),
)

#: Figures that outlive the process that measures them, one row each: counters that grow, and the canary.
measures = _table("measures", *_key("company", "name"), *_required(Double, "value"), *_required(UtcDateTime, "at"))

#: Append-only: no row of it is ever changed. A retraction has no body, for it names the publication that has one.
shared_log = _table(
    "shared_log",
    *_key("company"),
    Column("version", Integer, primary_key=True, autoincrement=False),
    *_required(String, "kind", "memory_id", "fact_id", "agent_id"),
    Column("at", UtcDateTime, nullable=False),
    Column("body", LargeBinary),
    UniqueConstraint("company", "memory_id", "kind", name="shared_log_once"),
    Index("shared_log_of_fact", "company", "fact_id", "version"),
)

#: How far each company's log is written, and how far the store has followed it: what searches see.
shared_heads = _table("shared_heads", *_key("company"), *_required(Integer, "last", "head"))

#: The parts of a run's consolidation that wait for a model; the row is the plan, so that no later look at the store
#: cuts other parts.
syntheses = _table(
    "syntheses",
    *_key("company", "part_id"),
    *_required(String, "run_id", "agent_id", "category"),
    Column("place", Integer, nullable=False),
    Column("source_ids", json_document(), nullable=False),
    Column("kept_id", String),
    *_optional(UtcDateTime, "replaced_at", "away_since"),
    Index("syntheses_of_run", "company", "run_id"),
)

#: Groups of memories that runs judged: proposed to a person and what became of it, or refused by the gate.
consolidation_groups = _table(
    "consolidation_groups",
    # What the key is made of, see ConsolidationGroup.
    *_key("company", "run_id", "group_key"),
    Column("place", Integer, nullable=False),
    *_required(String, "agent_id", "category", "strategy", "state"),
    Column("source_ids", json_document(), nullable=False),
    *_optional(String, "kept_id", "summary_id", "seen", "mode", "decided_by", "reason"),
    # The proposed summary, without vectors; only as long as somebody may adopt it.
    Column("body", LargeBinary),
    *_optional(Integer, "probes", "found_before", "found_after"),
    Column("tests", _JSON),
    Column("created_at", UtcDateTime, nullable=False),
    Column("decided_at", UtcDateTime),
    Index("consolidation_groups_same", "company", "agent_id", "group_key"),
    Index("consolidation_groups_oldest", "company", "created_at"),
)

#: What models answered, by question: asked once, however often the asker dies.
answers = _table(
    "answers",
    *_key("question_id"),
    *_required(String, "company", "purpose"),
    Column("run_id", String),
    Column("text", LargeBinary),
    Column("asked_at", UtcDateTime, nullable=False),
    Index("answers_of_run", "run_id"),
    Index("answers_oldest", "company", "asked_at"),
)

#: Questions that were asked of agents' memories, with the ids of what was shown; only where the policy keeps them.
recorded_queries = _table(
    "recorded_queries",
    *_key("company", "agent_id", "query_id"),
    Column("question", Text, nullable=False),
    Column("memory_ids", json_document(), nullable=False),
    Column("asked_at", UtcDateTime, nullable=False),
    Index("recorded_queries_newest", "company", "agent_id", "asked_at"),
    Index("recorded_queries_oldest", "company", "asked_at"),
)

#: The places of core memory that each agent has taken; the row without a memory is a lock.
core_slots = _table(
    "core_slots", *_key("company", "agent_id", "memory_id"), Column("claimed_at", UtcDateTime, nullable=False)
)

#: What each agent's models used on a day (UTC), reserved before a call and settled after it: the budget's account.
model_spending = _table(
    "model_spending",
    *_key("company", "agent_id", "day"),
    Column("tokens", BigInteger, nullable=False),
    Column("cost", Float, nullable=False),
    Index("model_spending_oldest", "company", "day"),
)

#: Every call of a model, for people who ask what it cost and why.
model_calls = _table(
    "model_calls",
    *_key("call_id"),
    *_required(String, "company", "agent_id", "question_id", "purpose", "model", "state"),
    *_optional(String, "run_id", "error_kind"),
    Column("status", Integer),
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
experiences = _table(
    "experiences",
    *_key("company", "experience_id"),
    Column("agent_id", String, nullable=False),
    *_optional(String, "task_id", "compressed_as", "reason"),
    Column("created_at", UtcDateTime, nullable=False),
    *_optional(_JSON, "origin"),
    Column("body", LargeBinary, nullable=False),
    Column("compressed_at", UtcDateTime),
    Index("experiences_of_agent", "company", "agent_id", "created_at"),
)

#: A raw trace that no model has looked at yet, and one that a model has.
RAW, COMPRESSED = experiences.c.compressed_at.is_(None), experiences.c.compressed_at.is_not(None)

_partial_index("experiences_raw", experiences.c.company, experiences.c.agent_id, experiences.c.created_at, where=RAW)
_partial_index("experiences_compressed", experiences.c.company, experiences.c.compressed_at, where=COMPRESSED)

#: Proposals, the decisions of people on them, and what is still to be carried out.
approvals = _table(
    "approvals",
    *_key("company", "approval_id"),
    *_required(String, "action", "risk", "state", "title"),
    *_optional(String, "needs", "decided_by", "reason", "effect", "undone_by", "undo_reason"),
    Column("body", LargeBinary, nullable=False),
    *_required(UtcDateTime, "created_at", "expires_at"),
    *_optional(UtcDateTime, "decided_at", "undone_at"),
    Index("approvals_newest", "company", "created_at"),
    Index("approvals_open", "company", "needs"),
)

#: Append-only: what was published and retracted for the whole organisation, fact by fact.
org_log = _table(
    "org_log",
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
org_facts = _table(
    "org_facts",
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
org_terms = _table(
    "org_terms",
    *_key("company", "fact_id"),
    Column("term", BigInteger, primary_key=True, autoincrement=False),
    Column("weight", Double, nullable=False),
    Index("org_terms_of_company", "company", "term"),
    sqlite_with_rowid=False,
)

#: Lines of the log that the store of vectors does not show yet; written with the line, gone when it does.
org_outbox = _table(
    "org_outbox",
    *_key("company", "fact_id"),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("at", UtcDateTime, nullable=False),
    Index("org_outbox_oldest", "company", "at"),
)

#: Append-only: what was refused, and what people did.
audit = _table(
    "audit",
    *_key("company", "audit_id"),
    Column("at", UtcDateTime, nullable=False),
    *_required(String, "actor", "action", "verdict"),
    *_optional(String, "subject", "reason"),
    Index("audit_newest", "company", "at"),
)

#: How tasks went, in short, one row each: what skills are learned from. The whole trace is a raw experience.
trajectories = _table(
    "trajectories",
    *_key("company", "trajectory_id"),
    *_required(String, "agent_id", "task_id", "outcome"),
    # The key is a hash of the tools in the order of their calls; None where fewer than two were called.
    *_optional(String, "task_type", "error_category", "tools_key"),
    Column("quality", Float),
    Column("ended_at", UtcDateTime, nullable=False),
    *_optional(_JSON, "origin"),
    Column("body", LargeBinary, nullable=False),
    Index("trajectories_newest", "company", "ended_at"),
    Index("trajectories_of_agent", "company", "agent_id", "ended_at"),
    Index("trajectories_of_failure", "company", "error_category", "ended_at"),
    Index("trajectories_of_chain", "company", "tools_key", "ended_at"),
)


def _of_added(table: Table) -> ColumnElement[bool]:
    is_agent = (agents.c.company == table.c.company) & (agents.c.agent_id == table.c.agent_id)
    return exists().where(is_agent, agents.c.added_at.is_not(None))


#: Outcomes of executions that somebody stopped or put off.
INTERRUPTIONS = sorted(reason.value for reason in TerminationReason if reason.is_interruption)

#: An execution from which a skill is learned: of an agent that a person added, since an engine may invent agents, which
#: register themselves by storing; and not one that was interrupted.
IS_EVIDENCE = _of_added(trajectories) & trajectories.c.outcome.not_in(INTERRUPTIONS)

#: The lesson of each task from which one may be drawn: asked for once, and what became of it.
lessons = _table(
    "lessons",
    *_key("company"),
    # The trajectory's own id.
    *_key("lesson_id"),
    Column("agent_id", String, nullable=False),
    # None while it is not drawn; then one word, such as stored or low_confidence.
    *_optional(String, "outcome", "memory_id"),
    Column("confidence", Float),
    Column("created_at", UtcDateTime, nullable=False),
    *_optional(UtcDateTime, "drawn_at", "propagated_at"),
    *_optional(_JSON, "origin"),
    Column("body", LargeBinary),
    Index("lessons_of_agent", "company", "agent_id", "created_at"),
    Index("lessons_oldest", "company", "created_at"),
)

#: A lesson that was stored and not propagated.
UNPROPAGATED = lessons.c.memory_id.is_not(None) & lessons.c.propagated_at.is_(None)

_partial_index("lessons_unpropagated", lessons.c.company, lessons.c.agent_id, where=UNPROPAGATED)

#: Skills that a person approved: the text and the state of each.
skills = _table(
    "skills",
    *_key("company"),
    # The id under which it was published first; it keeps it when it comes back under another.
    *_key("skill_id"),
    *_required(String, "approval_id", "pattern_id", "state"),
    Column("superseded_by", String),
    Column("confidence", Float, nullable=False),
    *_required(UtcDateTime, "published_at", "changed_at"),
    *_optional(_JSON, "sources"),
    Column("body", LargeBinary, nullable=False),
    Index("skills_newest", "company", "state", "published_at"),
)

#: How often a lesson or a skill was applied, and how often it helped.
_applied = (*_required(Integer, "applications", "successes"), *_required(UtcDateTime, "last_applied_at"))
_oldest = Index("skill_counts_oldest", "company", "last_applied_at")
skill_counts = _table("skill_counts", *_key("company", "skill_id"), *_applied, _oldest)

#: Each application, for as long as its message may come again; counted in the same transaction.
skill_applications = _table(
    "skill_applications",
    *_key("company", "application_id"),
    *_required(String, "skill_id", "agent_id", "outcome"),
    Column("applied_at", UtcDateTime, nullable=False),
    Index("skill_applications_oldest", "company", "applied_at"),
)

#: By an agent that a person added.
BY_ADDED_AGENT = _of_added(skill_applications)

#: The evolver's cycles: what each was to look at, and its report.
skill_cycles = _table(
    "skill_cycles",
    *_key("company", "cycle_id"),
    Column("origin", String, nullable=False),
    *_required(UtcDateTime, "planned_at", "window_start", "window_end"),
    Column("report", json_document()),
    Index("skill_cycles_newest", "company", "planned_at"),
)

#: Fine-tune runs: the plan and the progress of each.
finetune_runs = _table(
    "finetune_runs",
    *_key("company", "run_id"),
    # Of each stage that is ``finished``, its files by their place in the run's folder, with their hashes.
    *_required(json_document(), "plan", "finished"),
    Column("progress", Float),
    # How often a stage of it was claimed: the number in the name of the stage's folder.
    Column("claims", Integer, nullable=False),
    Column("cancel_requested_at", UtcDateTime),
    # What names the running stage, and the machine that it runs on; kept until it is known to be gone.
    *_optional(String, "holder", "host"),
    *_required(UtcDateTime, "started_at", "updated_at"),
    Index("finetune_runs_newest", "company", "started_at"),
)

#: The checkpoints of runs: the folder, its evaluation, and the gate's verdict.
finetune_checkpoints = _table(
    "finetune_checkpoints",
    *_key("company", "checkpoint_id"),
    *_required(String, "run_id", "model_path", "kind", "base_model", "sha256", "verdict", "reason"),
    *_required(Integer, "dims", "doc_count"),
    Column("size_bytes", BigInteger, nullable=False),
    Column("report", json_document(), nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Index("finetune_checkpoints_newest", "company", "created_at"),
)

#: One row a company: a switch is one update of it.
pointer = _table(
    "serving",
    *_key("company"),
    Column("version", Integer, nullable=False),
    Column("current", json_document(), nullable=False),
    *_optional(json_document(none_as_null=True), "target", "previous"),
    Column("phase", String),
    Column("until", UtcDateTime),
    Column("changed_at", UtcDateTime, nullable=False),
)

#: The reindex of a company, the last one when it has ended: one at a time by its key.
reindexes = _table(
    "reindexes",
    *_key("company"),
    *_required(String, "reindex_id", "kind", "stage"),
    # The id that the copying goes on from; None at its beginning and behind its end.
    Column("cursor", String),
    *_required(Integer, "looked_at", "total", "written", "passed_over", "freezes"),
    Column("started_at", UtcDateTime, nullable=False),
)

#: Whose memories were written since they were last compared.
reindex_marks = _table(
    "reindex_marks",
    *_key("company", "owner"),
    # The token of the worker that compares them; None for one that nobody has begun with.
    Column("taken_by", String),
)

#: Keys of callers. Of the secret only the hash is kept.
api_keys = _table(
    "api_keys",
    *_key("key_id"),
    *_required(String, "company", "name", "hash"),
    # None for every agent of the company.
    Column("agents", json_document(none_as_null=True)),
    Column("verbs", json_document(), nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    *(*_optional(UtcDateTime, "revoked_at", "last_used_at"), *_optional(String, "channel", "min_authority")),
    Index("api_keys_of_company", "company", "created_at"),
)

#: Requests with an Idempotency-Key: a hash of each, and its response once there is one.
idempotency_keys = _table(
    "idempotency_keys",
    *_key("company", "key_id", "idempotency_key"),
    Column("request_hash", String, nullable=False),
    Column("response", LargeBinary),
    Column("created_at", UtcDateTime, nullable=False),
    Index("idempotency_keys_oldest", "company", "created_at"),
)

#: Erasures of agents and of people: what was found in each place, and the signed receipt once nothing is left.
erasures = _table(
    "erasures",
    *_key("company", "erasure_id"),
    *_required(String, "agent_id", "requested_by"),
    # The person of its conversations whose memory goes; None for all of the agent.
    Column("subject", String),
    Column("requested_at", UtcDateTime, nullable=False),
    Column("found", json_document(), nullable=False),
    Column("receipt", Text),
    # A receipt is signed for a count that has not changed since its last look.
    Column("late_writes", Integer, nullable=False, server_default="0"),
    Index("erasures_newest", "company", "requested_at"),
)

#: The key that signs receipts, by its name; who has it can make receipts.
signing_keys = _table("signing_keys", *_key("name"), *_required(String, "secret"), *_required(UtcDateTime, "made_at"))

#: Tables of the journal: entries with their memories in full, tombstones, holds, the archive, uses.
journal_metadata = MetaData()

bookings = Table(
    "bookings",
    journal_metadata,
    *_key("booking_id"),
    *_required(String, "run_id", "company", "agent_id", "reason", "incoming_kind", "state"),
    Column("seq", Integer, nullable=False),
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

#: An entry whose memories are no longer held.
EXPIRED = bookings.c.expired_at.is_not(None)

_partial_index("bookings_expired", bookings.c.company, bookings.c.reason, bookings.c.settled_at, where=EXPIRED)

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

_removal = (*_required(String, "booking_id"), *_required(UtcDateTime, "buried_at"))
tombstones = Table("tombstones", journal_metadata, *_key("memory_id"), *_removal)

#: The newest version of each keyed memory, by the time that it was sent.
memory_keys = Table(
    "memory_keys",
    journal_metadata,
    *_key("company", "agent_id", "namespace", "memory_key"),
    Column("memory_id", String, nullable=False),
    Column("sent_at", UtcDateTime, nullable=False),
    Index("memory_keys_of_memory", "memory_id"),
)

holds = Table(
    "holds", journal_metadata, *_key("company", "agent_id", "memory_id"), Column("until", UtcDateTime, nullable=False)
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
    *_required(String, "company", "agent_id", "original_id", "mode", "category", "namespace"),
    # Returned by the entry that brought the memory back into the store; empty while it is out.
    *_optional(String, "booking_id", "run_id", "vector_space", "returned_by"),
    *_required(UtcDateTime, "created_at", "archived_at"),
    *_optional(UtcDateTime, "expires_at", "returned_at"),
    Column("body", LargeBinary, nullable=False),
    *_optional(LargeBinary, "dense", "sparse_indices", "sparse_values"),
    Index("archive_of_memory", "company", "agent_id", "original_id"),
    Index("archive_of_run", "run_id"),
    Index("archive_of_booking", "booking_id"),
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
    *_optional(Text, "memory_id", "old_memory", "new_memory", "event", "actor_id", "role"),
    *_optional(_TIME_TEXT, "created_at", "updated_at"),
    Column("is_deleted", Integer),
    # mem0 has no index: without one, erasing a memory's history reads the history of all of them.
    Index("history_memory_id", "memory_id"),
)

#: The row that says that a memory was removed.
REMOVED_FROM_HISTORY = history.c.event == literal_column("'DELETE'")

_partial_index("history_removed", history.c.updated_at, where=REMOVED_FROM_HISTORY)
