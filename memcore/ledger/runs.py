"""Runs: maintenance, an undo, the end of a session, project or task, a restore, or the removal of a memory."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Literal, NoReturn, Self

from pydantic import Field, model_validator
from sqlalchemy import ColumnElement, Connection, exists, func, literal, select, update
from sqlalchemy.exc import IntegrityError

from memcore import ids
from memcore.errors import LeaseLostError, MemoryInputError, MemoryNotFoundError
from memcore.ledger.database import Row, UtcDateTime, changed, equals, insert_one, record_of
from memcore.ledger.organization.audit import AuditNote, append
from memcore.ledger.rows import Records
from memcore.ledger.tables import ACTIVE, agents, runs
from memcore.models.base import Frozen, NotBlankStr, ValidatedModel
from memcore.models.memory import BoundedTime, Key, StoredKey

RunKind = Literal["maintenance", "undo", "end_session", "end_project", "end_task", "restore", "remove"]
EndKind = Literal["end_session", "end_project", "end_task"]

#: The kinds that end something.
END_KINDS: tuple[EndKind, ...] = ("end_session", "end_project", "end_task")

#: The kinds that are requested once, for one thing: they wait for as long as another run is under way.
SCOPED_KINDS: tuple[RunKind, ...] = (*END_KINDS, "restore", "remove")

#: Who asked for a run: the schedule, a person, or an engine that deleted a memory.
RunOrigin = Literal["scheduled", "manual", "engine"]


class RunState(StrEnum):
    """The state of a run.

    ::

        queued --claim--> running --finish--> done | skipped | failed
          ^                 |  |
          +----release------+  +--finish--> held --approve_held--> queued

    A released maintenance run may also go from queued to skipped: a run of another kind preempts it.
    """

    QUEUED = "queued"
    RUNNING = "running"
    HELD = "held"
    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"


class RunStep(StrEnum):
    """The next step of a run."""

    RETENTION = "retention"
    CONSOLIDATION = "consolidation"
    ENFORCEMENT = "enforcement"
    UNDO = "undo"
    END = "end"
    RESTORE = "restore"
    REMOVE = "remove"
    FINISHED = "finished"


def _run_id(fields: dict[str, Any]) -> str:
    # In UTC, so that one instant written in two zones is one run.
    planned_at = fields["planned_at"].astimezone(UTC).isoformat()
    return ids.run_id(company=fields["company"], agent_id=fields["agent_id"], job=fields["kind"], planned_at=planned_at)


class NewRun(ValidatedModel):
    """A run to create.

    Attributes:
        planned_at: the slot, or the time a person asked.
        undo_of: the run to undo; needed for kind "undo", refused otherwise.
        allow_large: a person has approved a large removal.
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


class Run(Frozen):
    """A run's row.

    Attributes:
        step: what it does next; what lies before is done and saved.
        attempt: how often it was claimed, without the claims that were released.
        token: the fencing token of the worker that holds it; None when nobody does.
        lease_until: when another worker may take it over.
        counts: small figures per step.
        reason: why it is held, skipped, failed or queued again.
        wake_at: until when it sleeps, queued; None when it does not.
    """

    run_id: str
    company: str
    agent_id: str
    kind: RunKind
    origin: RunOrigin
    state: RunState
    step: RunStep
    planned_at: BoundedTime
    undo_of: str | None = None
    allow_large: bool = False
    attempt: int = 0
    token: str | None = None
    lease_until: BoundedTime | None = None
    counts: dict[str, int] = Field(default_factory=dict)
    reason: str | None = None
    created_at: BoundedTime
    started_at: BoundedTime | None = None
    finished_at: BoundedTime | None = None
    scope_id: str | None = None
    wake_at: BoundedTime | None = None

    @property
    def is_preemptible(self) -> bool:
        """Whether it is a released maintenance run that waits: a run of another kind preempts it."""
        return self.kind == "maintenance" and self.state is RunState.QUEUED and self.reason is not None


_FIRST_STEPS = {
    "maintenance": RunStep.RETENTION,
    "undo": RunStep.UNDO,
    "restore": RunStep.RESTORE,
    "remove": RunStep.REMOVE,
}


def new_row(run: NewRun, *, now: datetime) -> Row:
    """Return the row of a run that is about to be queued."""
    return {
        **run.model_dump(),
        "state": RunState.QUEUED.value,
        "step": _FIRST_STEPS.get(run.kind, RunStep.END).value,
        "attempt": 0,
        "counts": {},
        "created_at": now,
        "rung_at": now,
    }


def _preempt_idle_run(connection: Connection, row: Row, *, now: datetime) -> bool:
    """Preempt the agent's released maintenance run: skip it and insert this run instead; or change nothing.

    A run that merely waits for a worker has no reason, and is never preempted; nor is one that a worker holds.
    """
    queued = equals(
        runs, company=row["company"], agent_id=row["agent_id"], kind="maintenance", state=RunState.QUEUED.value
    )
    waits = queued & ACTIVE & runs.c.reason.is_not(None)
    skipped = {
        "state": RunState.SKIPPED.value,
        "reason": f"preempted by {row['kind']}; the next run goes on",
        "finished_at": now,
        "wake_at": None,
    }
    # The run's id or its slot may be taken: then nothing may be preempted.
    with connection.begin_nested() as both:
        if connection.execute(update(runs).where(waits).values(**skipped)).rowcount:
            if insert_one(connection, runs, row):
                return True
            both.rollback()
    return False


#: How a claimed run may end; a held one can be released later.
_ENDS = frozenset({RunState.DONE, RunState.SKIPPED, RunState.FAILED, RunState.HELD})

#: The least time between two runs of one kind that were planned for one agent.
_MOMENT = timedelta(microseconds=1)


class Runs(Records[Run]):
    """The runs table."""

    _table = runs
    _model = Run

    def create(self, run: NewRun, *, note: AuditNote | None = None) -> Run | None:
        """Queue a run; None when the id, or its slot, exists already, or the agent has an active run.

        A released maintenance run is preempted: one that waits a day for its budget must not keep a person from undoing
        an earlier one.

        The run and its line for the audit are both written, or neither.
        """
        now = self._clock()
        row = new_row(run, now=now)
        with self._database.write() as connection:
            is_new = insert_one(connection, runs, row)
            if not is_new and not (run.kind != "maintenance" and _preempt_idle_run(connection, row, now=now)):
                return None
            if note is not None:
                append(connection, run.company, note, at=now)
        return record_of(Run, row)

    def note_done(self, run: NewRun) -> Run:
        """Insert a run that no worker carries out, as done; a microsecond later where one has the same kind and time.

        Its counts are set with :meth:`count` once it is carried out.
        """
        now = self._clock()
        row = new_row(run, now=now)
        row |= {"state": RunState.DONE.value, "step": RunStep.FINISHED.value, "started_at": now, "finished_at": now}
        with self._database.write() as connection:
            while not insert_one(connection, runs, row):
                row["planned_at"] += _MOMENT
        return record_of(Run, row)

    def count(self, run_id: str, counts: dict[str, int]) -> None:
        """Set the counts of a run that is done."""
        self._update((runs.c.run_id == run_id) & (runs.c.state == RunState.DONE), {"counts": counts})

    def claim(self, company: str, run_id: str, *, lease: timedelta) -> Run | None:
        """Claim a queued run, or one whose lease has expired, under a fresh token; None when it is not free."""
        now = self._clock()
        free = (runs.c.state == RunState.QUEUED) | ((runs.c.state == RunState.RUNNING) & (runs.c.lease_until <= now))
        mine = equals(runs, company=company, run_id=run_id)
        values = {
            "state": RunState.RUNNING.value,
            "attempt": runs.c.attempt + 1,
            "token": ids.new_id(),
            "lease_until": now + lease,
            "reason": None,
            "wake_at": None,
            "started_at": func.coalesce(runs.c.started_at, literal(now, UtcDateTime())),
        }
        return self._changed(mine & free, values)

    def renew(self, run_id: str, token: str, *, lease: timedelta) -> Run:
        """Renew the lease; LeaseLostError when another worker holds the run."""
        return self._held(run_id, token, {"lease_until": self._clock() + lease})

    def advance(self, run_id: str, token: str, *, step: RunStep, counts: dict[str, int]) -> Run:
        """Save that the steps before ``step`` are done, and set these counts; doing it twice changes nothing."""
        return self._held(run_id, token, {"step": step.value}, counts=counts)

    def finish(
        self, run_id: str, token: str, *, state: RunState, counts: dict[str, int], reason: str | None = None
    ) -> Run:
        """End the run as done, skipped, failed or held, and release it; LeaseLostError when another worker holds it."""
        if state not in _ENDS:
            raise MemoryInputError("state", f"{state} does not end a run; use done, skipped, failed or held")
        now = self._clock()
        values: Row = {"state": state.value, "token": None, "lease_until": None, "reason": reason}
        if state is not RunState.HELD:
            values["finished_at"] = now
        if state is RunState.DONE:
            values["step"] = RunStep.FINISHED.value
        with self._database.write() as connection:
            run = _change(connection, run_id, token, values, counts=counts)
            if state in {RunState.DONE, RunState.SKIPPED} and run.kind == "maintenance":
                agent = equals(agents, company=run.company, agent_id=run.agent_id)
                connection.execute(update(agents).where(agent).values(last_run_at=now))
        return run

    def release(self, run_id: str, token: str, *, reason: str, wake_at: datetime | None = None) -> Run:
        """Queue the run again without using up the attempt; LeaseLostError when another worker holds it.

        Until ``wake_at`` the sweep does not dispatch it; None leaves it to the sweep's schedule.
        """
        values = {
            "state": RunState.QUEUED.value,
            "attempt": runs.c.attempt - 1,
            "token": None,
            "lease_until": None,
            "reason": reason,
            "rung_at": self._clock(),
            "wake_at": wake_at,
        }
        return self._held(run_id, token, values)

    def wake(self, run_id: str) -> Run | None:
        """Wake a sleeping run, and return it to be dispatched; None when it does not sleep.

        The next sweep dispatches it too, so a lost message costs no more than that wait.
        """
        now = self._clock()
        sleeps = (runs.c.run_id == run_id) & (runs.c.state == RunState.QUEUED) & (runs.c.wake_at > now)
        return self._changed(sleeps, {"wake_at": now})

    def approve_held(self, run_id: str) -> Run:
        """Approve a held run: queue it again, past the removal guard.

        Raises:
            MemoryNotFoundError: the id names no run.
            MemoryInputError: the run is not held, or its agent has another active run.
        """
        values = {"state": RunState.QUEUED.value, "allow_large": True, "reason": None, "wake_at": None}
        values |= {"rung_at": self._clock()}
        with self._database.write() as connection:
            query = update(runs).where(runs.c.run_id == run_id, runs.c.state == RunState.HELD).values(values)
            try:
                run = changed(connection, Run, query)
            except IntegrityError:
                raise MemoryInputError("run_id", "its agent has an active run; wait until that has ended") from None
            if run is None:
                state = _state(connection, run_id)
                raise MemoryInputError("run_id", f"the run is {state}; only a held run can be released")
        return run

    def mark_dispatched(self, run_ids: Collection[str]) -> None:
        """Mark the runs as dispatched now, so that the next sweeps leave them for a while."""
        if run_ids:
            self._update(runs.c.run_id.in_(run_ids) & ACTIVE, {"rung_at": self._clock()})

    def get(self, run_id: str) -> Run | None:
        """Return the run, or None when the id names none."""
        return self._one(select(runs).where(runs.c.run_id == run_id))

    def list(
        self, company: str, *, agent_id: str | None = None, state: RunState | None = None, limit: int = 50
    ) -> tuple[Run, ...]:
        """Return a company's runs, the newest first."""
        wanted = [runs.c.company == company]
        given = {"agent_id": agent_id, "state": state}
        wanted += [runs.c[name] == value for name, value in given.items() if value is not None]
        return self._newest(*wanted, limit=limit)

    def failed(self, company: str, *, limit: int) -> "tuple[Run, ...]":
        """Return each agent's newest failed run of a kind, unless one was done since; the newest first."""
        later = runs.alias("later")
        made_good = exists().where(
            later.c.company == runs.c.company,
            later.c.agent_id == runs.c.agent_id,
            later.c.kind == runs.c.kind,
            later.c.state.in_((RunState.DONE, RunState.FAILED)),
            later.c.created_at > runs.c.created_at,
        )
        return self._newest(runs.c.company == company, runs.c.state == RunState.FAILED, ~made_good, limit=limit)

    def asleep(self, company: str, *, limit: int) -> "tuple[Run, ...]":
        """Return the runs that were put off until later, because of a model, a budget or a pause; the newest first."""
        sleeps = (runs.c.state == RunState.QUEUED) & runs.c.wake_at.is_not(None) & runs.c.reason.is_not(None)
        return self._newest(runs.c.company == company, sleeps, limit=limit)

    def active(self, company: str, agent_id: str) -> Run | None:
        """Return the agent's queued or running run, if it has one."""
        mine = equals(runs, company=company, agent_id=agent_id)
        return self._one(select(runs).where(mine, ACTIVE))

    def ended(self, company: str, agent_id: str, kind: EndKind, scope_ids: Collection[str]) -> dict[str, datetime]:
        """Return when those of the sessions, projects or tasks were last ended that were; an end undone is none."""
        undo = runs.alias("undo")
        undone = exists().where(undo.c.undo_of == runs.c.run_id, undo.c.state == RunState.DONE)
        query = (
            select(runs.c.scope_id, func.max(runs.c.planned_at, type_=UtcDateTime()).label("at"))
            .where(equals(runs, company=company, agent_id=agent_id, kind=kind))
            .where(runs.c.state == RunState.DONE, ~undone)
            .group_by(runs.c.scope_id)
        )
        return {row["scope_id"]: row["at"] for row in self._database.rows_with(query, runs.c.scope_id, scope_ids)}

    def stale(self, company: str, *, queued_for: timedelta, limit: int) -> "tuple[Run, ...]":
        """Return a company's runs whose message may be lost: queued longer than that, or running under an ended lease.

        An orphan is dispatched once when its lease ends, then no more often than a queued run: while no worker is there
        to take it, a message for every sweep would only pile up for the next worker. A sleeping run is dispatched in
        the same way when its time has come.
        """
        now = self._clock()
        is_dispatch_old = runs.c.rung_at <= now - queued_for
        woken = (runs.c.wake_at <= now) & ((runs.c.rung_at <= runs.c.wake_at) | is_dispatch_old)
        undispatched = (runs.c.state == RunState.QUEUED) & (woken | (runs.c.wake_at.is_(None) & is_dispatch_old))
        ended = (runs.c.state == RunState.RUNNING) & (runs.c.lease_until <= now)
        orphaned = ended & ((runs.c.rung_at <= runs.c.lease_until) | is_dispatch_old)
        query = (
            select(runs)
            .where(runs.c.company == company, ACTIVE, undispatched | orphaned)
            .order_by(runs.c.rung_at, runs.c.run_id)
            .limit(limit)
        )
        return self._all(query)

    def _newest(self, *wanted: ColumnElement[bool], limit: int) -> "tuple[Run, ...]":
        return self._all(select(runs).where(*wanted).order_by(runs.c.created_at.desc(), runs.c.run_id).limit(limit))

    def _held(self, run_id: str, token: str, values: Row, *, counts: dict[str, int] | None = None) -> Run:
        with self._database.write() as connection:
            return _change(connection, run_id, token, values, counts=counts)


def _change(connection: Connection, run_id: str, token: str, values: Row, *, counts: dict[str, int] | None) -> Run:
    mine: ColumnElement[bool] = (runs.c.run_id == run_id) & (runs.c.token == token) & (runs.c.state == RunState.RUNNING)
    if counts is not None:
        saved = connection.execute(select(runs.c.counts).where(mine).with_for_update()).scalar_one_or_none()
        if saved is None:
            _lost(connection, run_id)
        values = {**values, "counts": {**saved, **counts}}
    return changed(connection, Run, update(runs).where(mine).values(values)) or _lost(connection, run_id)


def _lost(connection: Connection, run_id: str) -> NoReturn:
    state = _state(connection, run_id)
    raise LeaseLostError(f"run {run_id} is {state} and no longer held with this token; stop without writing")


def _state(connection: Connection, run_id: str) -> str:
    state: str | None = connection.execute(select(runs.c.state).where(runs.c.run_id == run_id)).scalar_one_or_none()
    if state is None:
        raise MemoryNotFoundError(f"run_id: {run_id!r} names no run")
    return state
