"""Which rows of each table end, and when; deletes them in small steps.

Every table of ledger, journal and history stands here; a test fails for one that does not, and docs/reference/files.md
is made of it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from typing import Any, get_args

from sqlalchemy import Column, ColumnElement, Delete, Select, Table, delete, exists, func, select, tuple_

from memcore.config.memory import CompanyMemoryConfig
from memcore.jobs import EndSessionPayload, ExtractPayload, MaintenancePayload
from memcore.ledger import tables as of
from memcore.ledger.conversation import tables as talk
from memcore.ledger.database import Database
from memcore.ledger.journal import EntryReason
from memcore.ledger.runs import END_KINDS
from memcore.ledger.work_items import ENDED_STATES

#: Rows deleted in one transaction: it holds its locks for a few hundredths of a second.
STEP = 1_000


@dataclass(frozen=True, slots=True)
class Term:
    """How long rows are kept: the longest, or the shortest, of some keys of the policy below ``memory``."""

    pick: Callable[[Iterable[timedelta]], timedelta]
    keys: tuple[str, ...]

    def length(self, memory: CompanyMemoryConfig) -> timedelta:
        """Return how long it is under a policy."""
        return self.pick(_length(memory, key) for key in self.keys)


def _length(memory: CompanyMemoryConfig, key: str) -> timedelta:
    value: Any = reduce(getattr, key.split("."), memory)
    return timedelta(hours=value) if key.endswith("_hours") else timedelta(days=value)


def _longest(*keys: str) -> Term:
    return Term(max, keys)


#: What may still be undone.
_UNDOABLE = _longest("consolidation.journal_days")
_EXPLAINED = _longest("records.explained_days", *_UNDOABLE.keys)
_REPLACED = _longest("records.replaced_days", *_EXPLAINED.keys)
_HISTORY = Term(min, ("records.history_days", *_UNDOABLE.keys))
_TALK = _longest("records.session_days", "conversation.transcript_hours")


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """Rows that are deleted.

    Attributes:
        what: which rows, for people.
        term: their age at their end.
        at: the column that their age is counted from; with the company, or alone, an index begins with it.
        which: what else must hold; locks do not wait for rows that it reads.
        key: the columns that name a row, beside the company; left out, those of the primary key.
        work: the kind of their work items, which must have ended as long ago, and go with them.
        along: deletes what belongs to rows, given by the last column of their keys, in the same transaction.
        stored: turns a time into what the column holds.
        of_all: of the terms of all companies the one that counts, for rows that name no company.
    """

    what: str
    term: Term
    at: Column[Any]
    which: ColumnElement[bool] | None = None
    key: tuple[Column[Any], ...] = ()
    work: str | None = None
    along: tuple[Callable[[Sequence[str]], Delete], ...] = ()
    stored: Callable[[datetime], Any] = lambda at: at
    of_all: Callable[[Iterable[timedelta]], timedelta] | None = None

    @property
    def table(self) -> Table:
        """The table whose rows these are."""
        return self.at.table

    @property
    def names(self) -> tuple[Column[Any], ...]:
        """The columns that name a row of a company."""
        return self.key or tuple(column for column in self.table.primary_key if column.name != "company")


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A table whose rows end by other code, or with those of another table: when, and the keys that say so."""

    how: str
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Kept:
    """A table whose rows have no end, and why."""

    why: str


#: Runs of which nothing is asked once they can no longer be undone: their entries say what became of the memories.
_BRIEF = (*END_KINDS, "remove", "update", "changes")


def _has_newer() -> ColumnElement[bool]:
    """Return whether the agent has a newer run of the kind that ended alike: what is asked about the last one stays."""
    newer, its, run = of.runs.alias("newer"), of.work_items.alias("its"), of.runs.c
    return exists().where(
        (newer.c.company == run.company) & (newer.c.agent_id == run.agent_id) & (newer.c.kind == run.kind),
        newer.c.created_at > run.created_at,
        (its.c.company == newer.c.company) & (its.c.kind == MaintenancePayload.task) & (its.c.key == newer.c.run_id),
        its.c.state == of.work_items.c.state,
    )


_entry = of.bookings.c

#: The archive holds none of what the entry removed: until then a deletion of the summary must find its sources.
_NOT_ARCHIVED = ~exists().where(of.archive.c.booking_id == _entry.booking_id)

#: Reasons of entries after which an id leads to another memory, and of the others that a run decides.
_REPLACING: tuple[EntryReason, ...] = ("updated", "consolidated", "undone", "restored")
_REMOVING = tuple(reason for reason in get_args(EntryReason) if reason not in {"ended", *_REPLACING})


def _tombs(entries: Sequence[str]) -> ColumnElement[bool]:
    recorded = select(of.booking_records.c.memory_id).where(of.booking_records.c.booking_id.in_(entries))
    return of.tombstones.c.memory_id.in_(recorded) & of.tombstones.c.booking_id.in_(entries)


def _keys_of(entries: Sequence[str]) -> Delete:
    gone = select(of.tombstones.c.memory_id).where(_tombs(entries))
    return delete(of.memory_keys).where(of.memory_keys.c.memory_id.in_(gone))


def _entries(what: str, term: Term, reason: EntryReason) -> End:
    # By reason, as the index has them: those that are kept for long are not looked at each time.
    return End(
        what=what,
        term=term,
        at=_entry.settled_at,
        # Without their memories: an earlier step dropped these.
        which=of.EXPIRED & (_entry.reason == reason) & _NOT_ARCHIVED,
        along=(
            _keys_of,
            lambda entries: delete(of.tombstones).where(_tombs(entries)),
            lambda entries: delete(of.booking_records).where(of.booking_records.c.booking_id.in_(entries)),
        ),
    )


def _session_of(table: Table) -> ColumnElement[bool]:
    session = talk.sessions.c
    return (session.company == table.c.company) & (session.session_key == table.c.session_key)


_HELD_BACK = exists().where(
    talk.candidates.c.company == talk.sessions.c.company, talk.candidates.c.session_key == talk.sessions.c.session_key
)


def _candidates_of(sessions: Sequence[str]) -> Delete:
    return delete(talk.candidates).where(talk.candidates.c.session_key.in_(sessions))


def _times(event: str) -> ColumnElement[int]:
    other = of.history.alias()
    query = select(func.count()).where(other.c.memory_id == of.history.c.memory_id, other.c.event == event)
    return query.correlate(of.history).scalar_subquery()


def _removed_from_history() -> ColumnElement[bool]:
    return of.REMOVED_FROM_HISTORY & (_times("ADD") <= _times("DELETE"))


_ORG = Kept("the organisation's own; `memtend org` retracts it")
_ONE = Kept("one row a company")
_MEMORY = Elsewhere("facts and summaries that were replaced leave what is read; they are memory, and erased by name")
_FEW = Kept("a person started it, and it names files")

#: Of each table of the ledger by name, what ends, and when.
LEDGER: Mapping[str, tuple[End, ...] | Elsewhere | Kept] = {
    "agents": Kept("one row an agent; `memtend agents remove`"),
    "runs": (
        End(
            what="ends of sessions and tasks that removed nothing",
            term=_longest("records.session_days"),
            at=of.runs.c.created_at,
            which=of.runs.c.kind.in_(("end_session", "end_task")) & (of.runs.c.counts["ended"].as_integer() == 0),
            work=MaintenancePayload.task,
        ),
        End(
            what="other ends, and runs that removed or changed one memory",
            term=_UNDOABLE,
            at=of.runs.c.created_at,
            which=of.runs.c.kind.in_(_BRIEF),
            work=MaintenancePayload.task,
        ),
        End(
            what="other runs that have ended; of each agent the last ones stay, and so do held runs",
            term=_EXPLAINED,
            at=of.runs.c.created_at,
            which=of.runs.c.kind.not_in(_BRIEF) & ((of.runs.c.kind == "restore") | _has_newer()),
            work=MaintenancePayload.task,
        ),
    ),
    "work_items": Elsewhere("with the row of its kind; an agent has one item of compression"),
    "companies": _ONE,
    "dead_letters": Kept("they may hold memories; `memtend dead purge`"),
    "attempts": (End(what="counts of jobs that were lost", term=_EXPLAINED, at=of.attempts.c.started_at, of_all=max),),
    "ticks": _ONE,
    "measures": Kept("one row a figure"),
    "shared_log": Kept("searches follow the whole log"),
    "shared_heads": _ONE,
    "syntheses": Elsewhere("with the end of their run"),
    "consolidation_groups": Elsewhere("groups that were decided", _UNDOABLE.keys),
    "answers": Elsewhere("answers of models", _UNDOABLE.keys),
    "recorded_queries": Elsewhere("questions", ("retrieval.query_days",)),
    "memory_tests": Kept("people registered them; `memtend test remove`"),
    "core_slots": Elsewhere("with the core memory"),
    "model_spending": (
        End(
            what="sums of a day",
            term=_longest("records.usage_days"),
            at=of.model_spending.c.day,
            stored=lambda at: at.date().isoformat(),
        ),
    ),
    "model_calls": (End(what="calls of models", term=_longest("records.usage_days"), at=of.model_calls.c.called_at),),
    "model_servers": Kept("one row a model"),
    "distrusts": Kept("decisions of people"),
    "distrusted": Kept("what came of a distrusted source stays hidden"),
    "raised": Kept("decisions of people"),
    "experiences": (
        End(
            what="experience that a model has looked at; raw experience waits for one",
            term=_longest("records.experience_days"),
            at=of.experiences.c.compressed_at,
            which=of.COMPRESSED,
        ),
    ),
    "approvals": Kept("decisions of people; nothing is proposed twice"),
    "org_log": _ORG,
    "org_facts": _ORG,
    "org_terms": _ORG,
    "org_outbox": Elsewhere("when searches show it"),
    "audit": (End(what="lines", term=_longest("records.audit_days"), at=of.audit.c.at),),
    "trajectories": Elsewhere("tasks", ("procedural.evolver.keep_days",)),
    "lessons": Elsewhere("lessons; their memories stay", ("procedural.evolver.keep_days",)),
    "skills": Kept("people approved them"),
    "skill_counts": (
        End(
            what="counts of what is no skill, and was not applied for so long",
            term=_longest("procedural.evolver.keep_days"),
            at=of.skill_counts.c.last_applied_at,
            which=~exists().where(
                of.skills.c.company == of.skill_counts.c.company, of.skills.c.skill_id == of.skill_counts.c.skill_id
            ),
        ),
    ),
    "skill_applications": Elsewhere("applications", ("procedural.evolver.keep_days",)),
    "skill_cycles": Elsewhere("reports", ("procedural.evolver.keep_days",)),
    "finetune_runs": _FEW,
    "finetune_checkpoints": _FEW,
    "serving": _ONE,
    "reindexes": _ONE,
    "reindex_marks": Elsewhere("when an agent was compared"),
    "api_keys": Kept("people made them; a revoked one stays, for the audit"),
    "idempotency_keys": Elsewhere("after a day"),
    "erasures": Kept("receipts"),
    "signing_keys": Kept("one key signs receipts"),
    "webhook_endpoints": Kept("`memtend webhooks remove`"),
    "webhook_deliveries": Elsewhere("30 days after their end"),
    "conversation_owners": Kept("one row a person and agent"),
    "conversation_facts": _MEMORY,
    "conversation_arcs": _MEMORY,
    "conversation_rules": _MEMORY,
    "conversation_sessions": (
        End(
            what="sessions that have ended",
            term=_TALK,
            at=talk.sessions.c.ended_at,
            which=~_HELD_BACK,
            work=EndSessionPayload.task,
        ),
        End(
            what="those that held something back, which later sessions may confirm",
            term=_longest("conversation.archive_days", *_TALK.keys),
            at=talk.sessions.c.ended_at,
            along=(_candidates_of,),
            work=EndSessionPayload.task,
        ),
    ),
    "conversation_turns": (
        End(
            what="turns of sessions that have ended",
            term=_TALK,
            at=talk.turns.c.at,
            which=~exists().where(_session_of(talk.turns), talk.sessions.c.ended_at.is_(None)),
            work=ExtractPayload.task,
        ),
    ),
    "conversation_candidates": Elsewhere("with their session"),
    "crisis_log": Elsewhere("records", ("conversation.crisis_days",)),
    "session_feedback": Elsewhere("feedback", ("conversation.feedback_days",)),
}

#: The same of the journal.
JOURNAL: Mapping[str, tuple[End, ...] | Elsewhere | Kept] = {
    "bookings": (
        _entries("memories that ended with their session, project or task", _UNDOABLE, "ended"),
        *(_entries("memories that were changed, merged or brought back", _REPLACED, each) for each in _REPLACING),
        *(
            _entries("other removals; an entry stays while the archive holds what it removed", _EXPLAINED, each)
            for each in _REMOVING
        ),
    ),
    "booking_records": Elsewhere("with their entry; their texts go before", _UNDOABLE.keys),
    "tombstones": Elsewhere("with their entry, those of an erasure never; a job sent before may store it again then"),
    "memory_keys": Elsewhere("with the entry that removed the memory"),
    "holds": (End(what="holds that are over", term=_longest("consolidation.restored_hold_days"), at=of.holds.c.until),),
    "memory_use": Elsewhere("with the memory"),
    "use_batches": Elsewhere("after 30 days"),
    "archive": Elsewhere("archived memories", ("consolidation.archival.keep_days",)),
    "archive_terms": Elsewhere("with their memory"),
    "archive_tags": Elsewhere("with their memory"),
}

#: The same of mem0's history.
HISTORY: Mapping[str, tuple[End, ...] | Elsewhere | Kept] = {
    "history": (
        End(
            what="rows of memories that were removed",
            term=_HISTORY,
            at=of.history.c.updated_at,
            which=_removed_from_history(),
            key=(of.history.c.memory_id,),
            stored=datetime.isoformat,
            of_all=min,
        ),
    )
}


class RecordEnds:
    """Deletes the rows of ledger, journal and history that have reached their ends."""

    def __init__(self, *, ledger: Database, journal: Database, history: Database | None) -> None:
        self._history = history
        self._places = [(ledger, LEDGER), (journal, JOURNAL)]
        self._places += [] if history is None else [(history, HISTORY)]

    def close(self) -> None:
        """Close the connections to the history."""
        if self._history is not None:
            self._history.close()

    def expire(
        self, company: str, memory: CompanyMemoryConfig, *, now: datetime, goes_on: Callable[[], bool] = lambda: True
    ) -> int:
        """Delete a company's rows, step by step while ``goes_on``, and return how many; a later call goes on."""
        return sum(
            _expire(database, end, company, now - end.term.length(memory), goes_on)
            for database, end in self._ends()
            if end.of_all is None
        )

    def expire_shared(
        self,
        memories: Collection[CompanyMemoryConfig],
        *,
        now: datetime,
        goes_on: Callable[[], bool] = lambda: True,
    ) -> int:
        """Do the same with the rows that name no company, under the policies of all."""
        return sum(
            _expire(database, end, None, now - end.of_all(map(end.term.length, memories)), goes_on)
            for database, end in self._ends()
            if end.of_all is not None and memories
        )

    def _ends(self) -> Iterable[tuple[Database, End]]:
        for database, decisions in self._places:
            for decision in decisions.values():
                if isinstance(decision, tuple):
                    yield from ((database, end) for end in decision)


def _expire(database: Database, end: End, company: str | None, before: datetime, goes_on: Callable[[], bool]) -> int:
    total, old, since = 0, old_rows(end, company, before), None
    while goes_on():
        # Looked for without a lock, behind those that were passed over.
        query = old if since is None else old.where(end.at >= since)
        found = database.rows(query.order_by(end.at).limit(STEP))
        if not found:
            break
        gone = _delete(database, end, old, company, [tuple(row.values())[:-1] for row in found])
        total, is_stuck = total + gone, not gone and since == found[-1]["at"]
        since = found[-1]["at"]
        if len(found) < STEP or is_stuck:
            break
    return total


def old_rows(end: End, company: str | None, before: datetime) -> Select[Any]:
    """Return the query of the rows that may go: their names, and the time that their age is counted from."""
    query = select(*end.names, end.at.label("at")).where(end.at < end.stored(before))
    if end.which is not None:
        query = query.where(end.which)
    if company is not None:
        query = query.where(end.table.c.company == company)
    if end.work is not None:
        item = of.work_items.c
        is_its = (item.company == end.table.c.company) & (item.kind == end.work) & (item.key == end.names[-1])
        query = query.join(of.work_items, is_its)
        query = query.where(item.state.in_(ENDED_STATES), item.finished_at < before)
    return query


def _delete(
    database: Database, end: End, old: Select[Any], company: str | None, found: Sequence[tuple[Any, ...]]
) -> int:
    """Delete the rows of these names that are still old, with what belongs to them, in one transaction."""
    locked = end.table if end.work is None else of.work_items
    with database.write() as connection:
        # The item is locked first, as a claim does; what another worker holds is passed over.
        query = old.where(_named(end.names, found)).with_for_update(of=locked, skip_locked=True)
        names = [tuple(row)[:-1] for row in connection.execute(query)]
        if not names:
            return 0
        keys = [name[-1] for name in names]
        for along in end.along:
            connection.execute(_of(along(keys), company))
        gone = connection.execute(_of(delete(end.table).where(_named(end.names, names)), company)).rowcount
        if end.work is not None:
            its = of.work_items.c.kind == end.work
            connection.execute(_of(delete(of.work_items).where(its, of.work_items.c.key.in_(keys)), company))
    return gone


def _named(columns: tuple[Column[Any], ...], names: Sequence[tuple[Any, ...]]) -> ColumnElement[bool]:
    if len(columns) == 1:
        return columns[0].in_([name for (name,) in names])
    return tuple_(*columns).in_(names)


def _of(statement: Delete, company: str | None) -> Delete:
    table = statement.table
    return statement.where(table.c.company == company) if company and "company" in table.c else statement
