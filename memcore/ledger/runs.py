"""Runs: maintenance, an undo, the end of a scope, a restore, the removal of a memory, or changes that were found."""

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Literal, NamedTuple, Self

from pydantic import Field, model_validator
from sqlalchemy import ColumnElement, Connection, and_, exists, func, select, update
from sqlalchemy.exc import IntegrityError

from memcore import ids
from memcore.errors import MemoryInputError, MemoryNotFoundError, MemoryStoreError
from memcore.jobs import MaintenancePayload
from memcore.ledger.consolidation_groups import GroupState, answer_proposed, withdraw_proposed
from memcore.ledger.database import Row, UtcDateTime, add_new, equals, record_of
from memcore.ledger.organization.audit import AuditNote, append
from memcore.ledger.tables import OPEN_WORK, agents, runs, work_items
from memcore.ledger.webhooks.outbox import announce
from memcore.ledger.work_items import (
    Work,
    WorkEvent,
    WorkItem,
    WorkKey,
    WorkRecord,
    WorkState,
    add_items,
    move,
    new_item,
)
from memcore.models.base import NotBlankStr, ValidatedModel
from memcore.models.memory import BoundedTime, Key, StoredKey
from memcore.models.webhook import EventNotice, WebhookEventType

RunKind = Literal[
    "maintenance", "undo", "end_session", "end_project", "end_task", "restore", "remove", "update", "changes"
]
EndKind = Literal["end_session", "end_project", "end_task"]

#: The kinds that end something.
END_KINDS: tuple[EndKind, ...] = ("end_session", "end_project", "end_task")

#: The kinds that are requested once, for one thing: they wait for as long as another run is under way.
SCOPED_KINDS: tuple[RunKind, ...] = (*END_KINDS, "restore", "remove", "update")

#: Who asked for a run: the schedule, a person, or an engine that deleted or changed a memory.
RunOrigin = Literal["scheduled", "manual", "engine"]


class RunStep(StrEnum):
    """The next step of a run."""

    RETENTION = "retention"
    CONSOLIDATION = "consolidation"
    #: It writes down what consolidation would do, and is held with it.
    PROPOSAL = "proposal"
    #: A person decides about its groups; it carries out those that were adopted.
    ADOPTION = "adoption"
    ENFORCEMENT = "enforcement"
    UNDO = "undo"
    END = "end"
    RESTORE = "restore"
    REMOVE = "remove"
    FINISHED = "finished"


#: Counts of a run that may ask a model: the memories that it left unmerged, and the groups that wait for the next run.
LEFT_UNMERGED, POSTPONED = "left_unmerged", "postponed"

#: Counts of a held run: what its plan said that consolidation and enforcement would remove.
PLANNED_MERGED, PLANNED_ENFORCED = "planned_consolidated", "planned_enforced"


#: Count of a first run: how many memories consolidation and enforcement together may remove.
FIRST_RUN_LIMIT = "planned_limit"


class ApprovedPlan(NamedTuple):
    """What a released run may remove at most: the figures that its held plan showed."""

    merged: int
    enforced: int


def _run_id(fields: dict[str, Any]) -> str:
    # In UTC, so that one instant written in two zones is one run.
    planned_at = fields["planned_at"].astimezone(UTC).isoformat()
    return ids.run_id(company=fields["company"], agent_id=fields["agent_id"], job=fields["kind"], planned_at=planned_at)


class NewRun(ValidatedModel):
    """A run to create.

    Attributes:
        planned_at: the slot, or the time a person asked.
        undo_of: the run to undo; needed for kind "undo", refused otherwise.
        allow_large: a person has approved a large removal before there was a plan.
        scope_id: the session, project or task that ends, the archived memory that returns, or the memory that goes;
            needed for these kinds, refused otherwise.
        run_id: left out, it is made from company, agent, kind and slot (memcore.ids.run_id).

    Raises:
        MemoryInputError: a value breaks its limit; the message names the field.
    """

    company: Key
    agent_id: StoredKey
    kind: RunKind = "maintenance"
    origin: RunOrigin = "scheduled"
    planned_at: BoundedTime
    undo_of: NotBlankStr | None = None
    allow_large: bool = False
    scope_id: StoredKey | None = None
    run_id: NotBlankStr = Field(default_factory=_run_id)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.kind == "undo") != (self.undo_of is not None):
            raise MemoryInputError("undo_of", "names the run to undo for kind undo, and only then")
        if (self.kind in SCOPED_KINDS) != (self.scope_id is not None):
            raise MemoryInputError(
                "scope_id", "names what ends, returns or goes for the kinds that need it, and only then"
            )
        return self


class Run(WorkRecord):
    """A run's row, with its work item's.

    Attributes:
        step: what it does next; what lies before is done and saved.
        allow_large: a person has approved a large removal, or released the run.
        lease_until: when another worker may take it over.
        dispatch_after: when the sweep sends its next message: of a waiting run, until when it waits.
        counts: small figures per step.
        reason: why it waits, is held, was skipped or failed.
    """

    run_id: str
    company: str
    agent_id: str
    kind: RunKind
    origin: RunOrigin
    state: WorkState
    step: RunStep
    planned_at: BoundedTime
    undo_of: str | None = None
    allow_large: bool = False
    lease_until: BoundedTime | None = None
    dispatch_after: BoundedTime | None = None
    counts: dict[str, int] = Field(default_factory=dict)
    reason: str | None = None
    created_at: BoundedTime
    started_at: BoundedTime | None = None
    finished_at: BoundedTime | None = None
    scope_id: str | None = None

    @property
    def is_unbounded(self) -> bool:
        """Whether a person allowed a large removal before there was a plan."""
        return self.allow_large and "planned" not in self.counts

    @property
    def approved(self) -> ApprovedPlan | None:
        """What a person was shown when they released the run; None of a run that was not released."""
        if not self.allow_large or self.is_unbounded:
            return None
        # A run that an earlier release held has no figures of its steps: it is held once more, with them.
        return ApprovedPlan(self.counts.get(PLANNED_MERGED, 0), self.counts.get(PLANNED_ENFORCED, 0))

    @property
    def is_preemptible(self) -> bool:
        """Whether it is a maintenance run that waits, or was woken: a run of another kind preempts it."""
        is_ready = self.state in {WorkState.AVAILABLE, WorkState.WAITING}
        return self.kind == "maintenance" and is_ready and self.reason is not None


_FIRST_STEPS = {
    "maintenance": RunStep.RETENTION,
    "undo": RunStep.UNDO,
    "restore": RunStep.RESTORE,
    "remove": RunStep.REMOVE,
    # No worker carries it out.
    "update": RunStep.FINISHED,
    "changes": RunStep.FINISHED,
}


def add_runs(connection: Connection, new: Iterable[NewRun], *, now: datetime, **item: Any) -> tuple[WorkItem, ...]:
    """Insert the runs that are new and whose agents have no other open run, with their items, and return those.

    The values are columns of the items.
    """
    rows, items = dict[str, Row](), dict[str, Row]()
    for run in new:
        fields, name = run.model_dump(), WorkKey(run.company, MaintenancePayload.task, run.run_id)
        step = _FIRST_STEPS.get(run.kind, RunStep.END).value
        rows[run.run_id] = {**fields, "step": step, "counts": {}, "created_at": now}
        # Who asks for these does them: no worker gets a job of that kind.
        kind = {"update": "remove", "changes": "maintenance"}.get(run.kind, run.kind)
        sent = MaintenancePayload(**{**fields, "kind": kind})
        row = new_item(name, sent, now=now, agent_id=run.agent_id, lock=f"agent:{run.agent_id}")
        items[run.run_id] = row | item
    added = add_items(connection, items.values())
    add_new(connection, runs, [rows[run_id] for run_id in sorted(added)])
    return tuple(record_of(WorkItem, row) for run_id, row in items.items() if run_id in added)


#: How a claimed run may end, or stop; a held one can be released or dismissed later.
_ENDS: dict[WorkState, WorkEvent] = {
    WorkState.DONE: "finish",
    WorkState.SKIPPED: "skip",
    WorkState.FAILED: "fail",
    WorkState.HELD: "hold",
}

#: What tells of the end of a claimed run, or that it stopped.
_ANNOUNCED: dict[WorkEvent, WebhookEventType] = {
    "hold": WebhookEventType.RUN_HELD,
    "finish": WebhookEventType.RUN_FINISHED,
    "skip": WebhookEventType.RUN_FINISHED,
    "fail": WebhookEventType.RUN_FAILED,
}


#: The items of runs whose groups wait for a person.
_PROPOSES = exists().where(
    runs.c.company == work_items.c.company, runs.c.run_id == work_items.c.key, runs.c.step == RunStep.ADOPTION.value
)


class Runs(Work[Run]):
    """The runs table and its work items; an agent has at most one open run."""

    _kind = MaintenancePayload.task
    _table = runs
    _model = Run

    def create(self, run: NewRun, *, note: AuditNote | None = None) -> Run | None:
        """Queue a run; None when the id exists already, or the agent has an open run.

        A maintenance run that waits is preempted: one that waits a day for its budget must not keep a person from
        undoing an earlier one.

        The run and its line for the audit are both written, or neither.
        """
        now = self._clock()
        with self._database.write() as connection:
            is_new = bool(add_runs(connection, [run], now=now))
            if not is_new and not (run.kind != "maintenance" and self._preempt(connection, run, now=now)):
                return None
            if note is not None:
                append(connection, run.company, note, at=now)
            return self._in(connection, run.company, run.run_id)

    def _preempt(self, connection: Connection, run: NewRun, *, now: datetime) -> bool:
        """Skip the agent's waiting maintenance run and insert this run instead; or change nothing."""
        waits = equals(runs, company=run.company, agent_id=run.agent_id, kind="maintenance")
        its = and_(work_items.c.company == run.company, work_items.c.kind == self._kind)
        its &= work_items.c.reason.is_not(None) & work_items.c.key.in_(select(runs.c.run_id).where(waits))
        # The run's id may be taken: then nothing may be preempted.
        with connection.begin_nested() as both:
            if move(connection, "preempt", its, now=now, reason=f"preempted by {run.kind}; the next run goes on"):
                if add_runs(connection, [run], now=now):
                    return True
                both.rollback()
        return False

    def note_done(self, run: NewRun) -> Run:
        """Insert a run that no worker carries out, as done; its counts are set with :meth:`count` once it is."""
        now = self._clock()
        done: Row = {"state": WorkState.DONE.value, "payload": None, "queue": None, "dispatch_after": None}
        with self._database.write() as connection:
            add_runs(connection, [run], now=now, **done, started_at=now, finished_at=now)
            connection.execute(update(runs).where(runs.c.run_id == run.run_id).values(step=RunStep.FINISHED.value))
            return self._in(connection, run.company, run.run_id)

    def count(self, run_id: str, counts: dict[str, int]) -> None:
        """Set the counts of a run that is done."""
        self._update(runs.c.run_id == run_id, {"counts": counts})

    def add_counts(self, company: str, run_id: str, added: Mapping[str, int]) -> None:
        """Add to the counts of a run that has ended: what was found out behind it."""
        its = self._is(company, run_id)
        with self._database.write() as connection:
            saved = connection.execute(select(runs.c.counts).where(its).with_for_update()).scalar_one_or_none()
            if saved is not None:
                sums = {name: saved.get(name, 0) + count for name, count in added.items()}
                connection.execute(update(runs).where(its).values(counts={**saved, **sums}))

    def advance(self, company: str, run_id: str, token: str, *, step: RunStep, counts: dict[str, int]) -> Run:
        """Save that the steps before ``step`` are done, and set these counts; doing it twice changes nothing."""
        with self._database.write() as connection:
            return self._counted(connection, company, run_id, token, "renew", counts, own={"step": step.value})

    def finish(
        self,
        company: str,
        run_id: str,
        token: str,
        *,
        state: WorkState,
        counts: dict[str, int],
        reason: str | None = None,
        step: RunStep = RunStep.CONSOLIDATION,
        replaces_held: bool = False,
    ) -> Run:
        """End the run as done, skipped, failed or held, and release it; LeaseLostError when another worker holds it.

        A run that is held, at a ``step``, takes the place of the agent's other held run, which is dismissed; so does
        one that ``replaces_held`` because it found nothing to hold.
        """
        if state not in _ENDS:
            raise MemoryInputError("state", f"{state} does not end a run; use done, skipped, failed or held")
        own: Row = {"step": RunStep.FINISHED.value} if state is WorkState.DONE else {}
        values: Row = {"reason": reason}
        if state is WorkState.HELD:
            own = {"step": step.value, "allow_large": False}
        elif state is not WorkState.FAILED:
            # Nobody sends its message again, and a third of the rows' bytes would be that.
            values["payload"] = None
        with self._database.write() as connection:
            run = self._counted(connection, company, run_id, token, _ENDS[state], counts, own=own, **values)
            if state in {WorkState.DONE, WorkState.SKIPPED} and run.kind == "maintenance":
                agent = equals(agents, company=run.company, agent_id=run.agent_id)
                connection.execute(update(agents).where(agent).values(last_run_at=self._clock()))
            if state is WorkState.HELD or replaces_held:
                self._replace_held(connection, run)
        return run

    def fail(self, company: str, key: str, token: str, reason: str) -> Run:
        """End a leased run as failed, as every kind of work does, in one transaction with what tells of it."""
        with self._database.write() as connection:
            return self._leased_in(connection, company, key, token, "fail", own=None, reason=reason)

    def _leased_in(
        self,
        connection: Connection,
        company: str,
        key: str,
        token: str,
        event: WorkEvent,
        *,
        own: Row | None,
        **values: Any,
    ) -> Run:
        run = super()._leased_in(connection, company, key, token, event, own=own, **values)
        if event in _ANNOUNCED:
            announce(connection, company, _notice(_ANNOUNCED[event], run), at=self._clock())
        return run

    def _replace_held(self, connection: Connection, run: Run) -> None:
        """Dismiss the other held runs of a run's agent: a person decides about the newest figures."""
        mine = equals(runs, company=run.company, agent_id=run.agent_id) & (runs.c.run_id != run.run_id)
        held = equals(work_items, company=run.company, kind=self._kind, state=WorkState.HELD.value)
        held &= work_items.c.key.in_(select(runs.c.run_id).where(mine))
        reason = f"replaced by {run.run_id}, which looked again"
        if replaced := move(connection, "dismiss", held, now=self._clock(), reason=reason):
            withdraw_proposed(connection, run.company, replaced)

    def _counted(
        self,
        connection: Connection,
        company: str,
        run_id: str,
        token: str,
        event: WorkEvent,
        counts: dict[str, int],
        *,
        own: Row,
        **values: Any,
    ) -> Run:
        saved = connection.execute(select(runs.c.counts).where(self._is(company, run_id))).scalar_one_or_none()
        own |= {"counts": {**(saved or {}), **counts}}
        return self._leased_in(connection, company, run_id, token, event, own=own, **values)

    def wake(self, company: str, run_id: str) -> WorkItem | None:
        """Wake a waiting run, and return its item to be dispatched; None when it does not wait.

        The next sweep dispatches it too, so a lost message costs no more than that wait.
        """
        now = self._clock()
        run = self._move(company, run_id, "wake", work_items.c.dispatch_after > now, dispatch_after=now)
        return None if run is None else self.item(company, run_id)

    def approve_held(self, company: str, run_id: str, *, note: AuditNote | None = None) -> WorkItem:
        """Approve what a held run's plan showed: queue it again, and return its item to be dispatched.

        It begins anew with retention. The line for the audit is written with it, or neither is.

        Raises:
            MemoryNotFoundError: the id names no run.
            MemoryInputError: the run is not held, or its agent has another open run.
        """
        own: Row = {"allow_large": True, "step": RunStep.RETENTION.value}
        self._decide(company, run_id, "approve", note, ~_PROPOSES, own=own, reason=None)
        return self.item(company, run_id)

    def decide_groups(
        self,
        company: str,
        run_id: str,
        state: Literal[GroupState.APPROVED, GroupState.DISMISSED],
        *,
        by: str,
        places: Collection[int] | None = None,
        note: AuditNote | None = None,
    ) -> WorkItem:
        """Decide about groups that a held run proposes, all or those of these numbers.

        The run is queued again, and its item returned to be dispatched: it carries out what was adopted, and is held
        again while groups are left. The line for the audit is written with it, or neither is.

        Raises:
            MemoryNotFoundError: the id names no run.
            MemoryInputError: the run does not propose these groups now, or its agent has another open run.
        """

        def answer(connection: Connection) -> None:
            at, wanted = self._clock(), set(places or ())
            answered = answer_proposed(connection, company, run_id, state, by=by, at=at, places=places)
            if not answered or wanted.difference(answered):
                missing = ", ".join(map(str, sorted(wanted.difference(answered)))) or "none"
                raise MemoryInputError("group", f"{missing}: no such group is proposed; see `memtend runs diff`")

        own: Row = {"allow_large": True}
        self._decide(company, run_id, "approve", note, _PROPOSES, own=own, reason=None, then=answer)
        return self.item(company, run_id)

    def dismiss(self, company: str, run_id: str, *, by: str, note: AuditNote | None = None) -> Run:
        """Decide against a held run, with all that it proposes: it removes nothing more.

        Raises as :meth:`approve_held`.
        """

        def answer(connection: Connection) -> None:
            at = self._clock()
            answer_proposed(connection, company, run_id, GroupState.DISMISSED, by=by, at=at, places=None)

        return self._decide(company, run_id, "dismiss", note, reason=f"dismissed by {by}", then=answer)

    def _decide(
        self,
        company: str,
        run_id: str,
        event: Literal["approve", "dismiss"],
        note: AuditNote | None,
        *which: ColumnElement[bool],
        own: Row | None = None,
        reason: str | None,
        then: Callable[[Connection], None] | None = None,
    ) -> Run:
        """Move a held run as a person decided, do what belongs to it, and write the line for the audit."""
        is_held = work_items.c.state == WorkState.HELD
        try:
            with self._database.write() as connection:
                run = self._changed(
                    connection, event, company, run_id, is_held, *which, own=own, given={}, reason=reason
                )
                if run is not None:
                    if then is not None:
                        then(connection)
                    if note is not None:
                        append(connection, company, note, at=self._clock())
                    return run
        except MemoryStoreError as error:
            if not isinstance(error.__cause__, IntegrityError):
                raise
            raise MemoryInputError("run_id", "its agent has an active run; wait until that has ended") from None
        found = self.get(company, run_id)
        if found is None:
            raise MemoryNotFoundError(f"run_id: {run_id!r} names no run")
        if found.state is WorkState.HELD:
            proposes = found.step is RunStep.ADOPTION
            raise MemoryInputError(
                "run_id",
                f"the run {'proposes groups' if proposes else 'proposes no group'}; "
                f"use `memtend runs {'adopt' if proposes else 'release'}`",
            )
        raise MemoryInputError("run_id", f"the run is {found.state}; only a held run can be released or dismissed")

    def list(
        self, company: str, *, agent_id: str | None = None, state: WorkState | None = None, limit: int | None = 50
    ) -> tuple[Run, ...]:
        """Return a company's runs, the newest first; with None as the limit all of them."""
        wanted = [runs.c.company == company]
        wanted += [] if agent_id is None else [runs.c.agent_id == agent_id]
        wanted += [] if state is None else [work_items.c.state == state]
        return self._newest(*wanted, limit=limit)

    def restores_of(self, company: str, scope_id: str) -> "tuple[Run, ...]":
        """Return the runs that bring back what this names, newest first."""
        return self._newest(equals(runs, company=company, kind="restore", scope_id=scope_id), limit=None)

    def last_done(self, company: str, agent_id: str) -> Run | None:
        """Return the agent's newest maintenance run that is done."""
        mine = equals(runs, company=company, agent_id=agent_id, kind="maintenance")
        return next(iter(self._newest(mine, work_items.c.state == WorkState.DONE, limit=1)), None)

    def failed(self, company: str, *, limit: int) -> "tuple[Run, ...]":
        """Return each agent's newest failed run of a kind, unless one was done since; the newest first."""
        later, its = runs.alias("later"), work_items.alias("its")
        made_good = exists().where(
            later.c.company == runs.c.company,
            later.c.agent_id == runs.c.agent_id,
            later.c.kind == runs.c.kind,
            later.c.created_at > runs.c.created_at,
            equals(its, kind=self._kind) & (its.c.company == later.c.company) & (its.c.key == later.c.run_id),
            its.c.state.in_((WorkState.DONE, WorkState.FAILED)),
        )
        is_failed = work_items.c.state == WorkState.FAILED
        return self._newest(runs.c.company == company, is_failed, ~made_good, limit=limit)

    def asleep(self, company: str, *, limit: int) -> "tuple[Run, ...]":
        """Return the runs that wait for a model, a budget or the end of a pause; the newest first."""
        return self._newest(runs.c.company == company, work_items.c.state == WorkState.WAITING, limit=limit)

    def leased(self, company: str, *, limit: int) -> "tuple[Run, ...]":
        """Return the runs that workers carry out now, those that have taken longest first."""
        # Not by its name alone: SQLite would read all runs of the company.
        its = (runs.c.company.concat("") == company, OPEN_WORK, work_items.c.state == WorkState.LEASED)
        order = (work_items.c.started_at, runs.c.run_id)
        return self._all(self._rows().where(*its).order_by(*order).limit(limit))

    def active(self, company: str, agent_id: str) -> Run | None:
        """Return the agent's open run, if it has one."""
        mine = equals(runs, company=company, agent_id=agent_id)
        return self._one(self._rows().where(mine, OPEN_WORK))

    def is_settled(self, company: str, agent_id: str) -> bool:
        """Return whether an agent had a run before, but for first ones that were bounded.

        A run that was held or dismissed counts, and so does an undo: somebody decides about this agent.
        """
        for run in self.list(company, agent_id=agent_id, limit=None):
            is_bounded = run.kind != "maintenance" or FIRST_RUN_LIMIT in run.counts
            is_over = run.state is WorkState.DONE and not is_bounded
            if run.kind == "undo" or is_over or run.state in {WorkState.HELD, WorkState.DISMISSED}:
                return True
        return False

    def ended(self, company: str, agent_id: str, kind: EndKind, scope_ids: Collection[str]) -> dict[str, datetime]:
        """Return when those of the sessions, projects or tasks were last ended that were; an end undone is none."""
        undo, its = runs.alias("undo"), work_items.alias("its")
        undone = exists().where(
            undo.c.undo_of == runs.c.run_id,
            equals(its, kind=self._kind, state=WorkState.DONE.value),
            (its.c.company == undo.c.company) & (its.c.key == undo.c.run_id),
        )
        query = (
            self._rows()
            .with_only_columns(runs.c.scope_id, func.max(runs.c.planned_at, type_=UtcDateTime()).label("at"))
            .where(equals(runs, company=company, agent_id=agent_id, kind=kind))
            .where(work_items.c.state == WorkState.DONE, ~undone)
            .group_by(runs.c.scope_id)
        )
        return {row["scope_id"]: row["at"] for row in self._database.rows_with(query, runs.c.scope_id, scope_ids)}

    def _newest(self, *wanted: ColumnElement[bool], limit: int | None) -> "tuple[Run, ...]":
        return self._all(self._rows().where(*wanted).order_by(runs.c.created_at.desc(), runs.c.run_id).limit(limit))


def _notice(event: WebhookEventType, run: Run) -> EventNotice:
    data: dict[str, Any] = {"run_id": run.run_id, "kind": run.kind, "origin": run.origin, "state": run.state.value}
    # The reason of a hold is made of figures; that of a failure may quote what is stored.
    reason = {"reason": run.reason} if event is WebhookEventType.RUN_HELD else {}
    return EventNotice(event=event, agent_id=run.agent_id, data={**data, "counts": run.counts, **reason})
