"""Runs: one row per planned maintenance or undo, held by one worker at a time."""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any, NoReturn

from sqlalchemy import ColumnElement, Connection, exists, func, literal, select, update
from sqlalchemy.exc import IntegrityError

from memcore import ids
from memcore.clock import Clock
from memcore.errors import LeaseLostError, MemoryInputError, MemoryNotFoundError
from memcore.ledger.audit import AuditNote, append
from memcore.ledger.columns import Moment
from memcore.ledger.engine import Database
from memcore.ledger.giving_way import take_place
from memcore.ledger.insert import insert_new
from memcore.ledger.ledger_tables import ACTIVE, agents, runs
from memcore.ledger.run import EndKind, NewRun, Run, RunState, RunStep
from memcore.ledger.run_rows import new_row, run_of
from memcore.ledger.tombstones import parts

#: How a claimed run may end; a held one can be released later.
_ENDS = frozenset({RunState.DONE, RunState.SKIPPED, RunState.FAILED, RunState.HELD})

#: The least time between two runs of one kind that were planned for one agent.
_MOMENT = timedelta(microseconds=1)


class Runs:
    """The runs table; every method is one short transaction.

    Args:
        database: the ledger.
        clock: what time it is.
    """

    def __init__(self, database: Database, *, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def create(self, run: NewRun, *, note: AuditNote | None = None) -> Run | None:
        """Queue a run; None when the id, or its slot, exists already, or the agent has an active run.

        A night that was given back and waits makes room for anything else (memcore.ledger.giving_way): one that waits
        a day for its budget must not keep a person from undoing an earlier one.

        Args:
            run: what is queued.
            note: a line for the audit; both are written, or neither.
        """
        now = self._clock()
        row = new_row(run, now=now)
        with self._database.write() as connection:
            is_new = bool(insert_new(connection, runs, [row], key="run_id"))
            if not is_new and not (run.kind != "maintenance" and take_place(connection, row, now=now)):
                return None
            if note is not None:
                append(connection, run.company, note, at=now)
        return run_of(row)

    def note_done(self, run: NewRun) -> Run:
        """Write down a run that no worker carries out, as done; one of the same kind and time makes it a moment later.

        Its counts are set with :meth:`count` once it is carried out.
        """
        now = self._clock()
        row = new_row(run, now=now)
        row |= {"state": RunState.DONE.value, "step": RunStep.FINISHED.value, "started_at": now, "finished_at": now}
        with self._database.write() as connection:
            while not insert_new(connection, runs, [row], key="run_id"):
                row["planned_at"] += _MOMENT
        return run_of(row)

    def count(self, run_id: str, counts: dict[str, int]) -> None:
        """Set the counts of a run that is done."""
        done = (runs.c.run_id == run_id) & (runs.c.state == RunState.DONE)
        with self._database.write() as connection:
            connection.execute(update(runs).where(done).values(counts=counts))

    def claim(self, run_id: str, *, lease: timedelta) -> Run | None:
        """Take a queued run, or one whose lease has run out, under a fresh token; None when it is not free."""
        now = self._clock()
        free = (runs.c.state == RunState.QUEUED) | ((runs.c.state == RunState.RUNNING) & (runs.c.lease_until <= now))
        values = {
            "state": RunState.RUNNING.value,
            "attempt": runs.c.attempt + 1,
            "token": ids.new_id(),
            "lease_until": now + lease,
            "reason": None,
            "wake_at": None,
        }
        with self._database.write() as connection:
            query = update(runs).where(runs.c.run_id == run_id, free).values(**values)
            query = query.values(started_at=_first(runs.c.started_at, now))
            row = connection.execute(query.returning(runs)).mappings().one_or_none()
        return run_of(row) if row else None

    def renew(self, run_id: str, token: str, *, lease: timedelta) -> Run:
        """Keep the run for another lease; LeaseLostError when someone else has it."""
        return self._held(run_id, token, {"lease_until": self._clock() + lease})

    def advance(self, run_id: str, token: str, *, step: RunStep, counts: dict[str, int]) -> Run:
        """Save that the steps before ``step`` are done, and set these counts; doing it twice changes nothing."""
        return self._held(run_id, token, {"step": step.value}, counts=counts)

    def finish(
        self, run_id: str, token: str, *, state: RunState, counts: dict[str, int], reason: str | None = None
    ) -> Run:
        """End the run as done, skipped, failed or held, and let go of it; LeaseLostError when someone else has it."""
        if state not in _ENDS:
            raise MemoryInputError("state", f"{state} does not end a run; use done, skipped, failed or held")
        now = self._clock()
        values: dict[str, Any] = {"state": state.value, "token": None, "lease_until": None, "reason": reason}
        if state is not RunState.HELD:
            values["finished_at"] = now
        if state is RunState.DONE:
            values["step"] = RunStep.FINISHED.value
        with self._database.write() as connection:
            run = _change(connection, run_id, token, values, counts=counts)
            if state in {RunState.DONE, RunState.SKIPPED} and run.kind == "maintenance":
                agent = (agents.c.company == run.company) & (agents.c.agent_id == run.agent_id)
                connection.execute(update(agents).where(agent).values(last_run_at=now))
        return run

    def give_back(self, run_id: str, token: str, *, reason: str, wake_at: datetime | None = None) -> Run:
        """Queue the run again without using up the attempt; LeaseLostError when someone else has it.

        Args:
            run_id: a run that is held with the token.
            token: of the worker that gives it back.
            reason: what it waits for.
            wake_at: until then the sweep does not ring for it; None leaves it to the sweep's own pace.
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
        """Let a sleeping run go on now, and return it to be rung for; None when it does not sleep.

        The next sweep rings for it too, so that a waker whose bell is lost costs it nothing but that wait.
        """
        now = self._clock()
        sleeps = (runs.c.run_id == run_id) & (runs.c.state == RunState.QUEUED) & (runs.c.wake_at > now)
        with self._database.write() as connection:
            query = update(runs).where(sleeps).values(wake_at=now).returning(runs)
            row = connection.execute(query).mappings().one_or_none()
        return run_of(row) if row else None

    def release(self, run_id: str) -> Run:
        """Queue a held run again and let it remove much.

        Raises:
            MemoryNotFoundError: the id names no run.
            MemoryInputError: the run is not held, or its agent has another active run.
        """
        values = {"state": RunState.QUEUED.value, "allow_large": True, "reason": None, "wake_at": None}
        values |= {"rung_at": self._clock()}
        with self._database.write() as connection:
            query = update(runs).where(runs.c.run_id == run_id, runs.c.state == RunState.HELD).values(**values)
            try:
                row = connection.execute(query.returning(runs)).mappings().one_or_none()
            except IntegrityError:
                raise MemoryInputError("run_id", "its agent has an active run; wait until that has ended") from None
            if row is None:
                found = _found(connection, run_id)
                raise MemoryInputError("run_id", f"the run is {found.state}; only a held run can be released")
        return run_of(row)

    def rung(self, run_ids: Collection[str]) -> None:
        """Note that the bell was rung again for these runs, so that the next sweeps leave them for a while."""
        if not run_ids:
            return
        query = update(runs).where(runs.c.run_id.in_(run_ids), ACTIVE)
        with self._database.write() as connection:
            connection.execute(query.values(rung_at=self._clock()))

    def get(self, run_id: str) -> Run | None:
        """Return the run, or None when the id names none."""
        with self._database.read() as connection:
            row = connection.execute(select(runs).where(runs.c.run_id == run_id)).mappings().one_or_none()
        return run_of(row) if row else None

    def list(
        self, company: str, *, agent_id: str | None = None, state: RunState | None = None, limit: int = 50
    ) -> tuple[Run, ...]:
        """Return a company's runs, the newest first."""
        wanted = [runs.c.company == company]
        if agent_id is not None:
            wanted.append(runs.c.agent_id == agent_id)
        if state is not None:
            wanted.append(runs.c.state == state)
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
        query = select(runs).where(runs.c.company == company, runs.c.agent_id == agent_id, ACTIVE)
        with self._database.read() as connection:
            row = connection.execute(query).mappings().one_or_none()
        return run_of(row) if row else None

    def ended(self, company: str, agent_id: str, kind: EndKind, scope_ids: Collection[str]) -> dict[str, datetime]:
        """Return when those of the sessions, projects or tasks were last ended that were; an end undone is none."""
        undo = runs.alias("undo")
        undone = exists().where(undo.c.undo_of == runs.c.run_id, undo.c.state == RunState.DONE)
        query = (
            select(runs.c.scope_id, func.max(runs.c.planned_at, type_=Moment()))
            .where(runs.c.company == company, runs.c.agent_id == agent_id, runs.c.kind == kind)
            .where(runs.c.state == RunState.DONE, ~undone)
            .group_by(runs.c.scope_id)
        )
        found: dict[str, datetime] = {}
        with self._database.read() as connection:
            for part in parts(sorted(scope_ids)):
                rows = connection.execute(query.where(runs.c.scope_id.in_(part)))
                found.update((scope_id, at) for scope_id, at in rows)
        return found

    def stale(self, company: str, *, queued_for: timedelta, limit: int) -> "tuple[Run, ...]":
        """Return a company's runs whose bell may be lost: queued longer than that, or running under an ended lease.

        An orphan is rung for once when its lease ends, then no more often than a queued run: while no worker is there
        to take it, a bell for every sweep would only pile up messages that the next worker must wade through. A run
        that sleeps is rung for in the same way when its time has come.
        """
        now = self._clock()
        unheard_since = runs.c.rung_at <= now - queued_for
        woken = (runs.c.wake_at <= now) & ((runs.c.rung_at <= runs.c.wake_at) | unheard_since)
        unheard = (runs.c.state == RunState.QUEUED) & (woken | (runs.c.wake_at.is_(None) & unheard_since))
        ended = (runs.c.state == RunState.RUNNING) & (runs.c.lease_until <= now)
        orphaned = ended & ((runs.c.rung_at <= runs.c.lease_until) | unheard_since)
        query = (
            select(runs)
            .where(runs.c.company == company, ACTIVE, unheard | orphaned)
            .order_by(runs.c.rung_at, runs.c.run_id)
            .limit(limit)
        )
        with self._database.read() as connection:
            return tuple(run_of(row) for row in connection.execute(query).mappings())

    def _newest(self, *wanted: ColumnElement[bool], limit: int) -> "tuple[Run, ...]":
        query = select(runs).where(*wanted).order_by(runs.c.created_at.desc(), runs.c.run_id).limit(limit)
        with self._database.read() as connection:
            return tuple(run_of(row) for row in connection.execute(query).mappings())

    def _held(self, run_id: str, token: str, values: dict[str, Any], *, counts: dict[str, int] | None = None) -> Run:
        with self._database.write() as connection:
            return _change(connection, run_id, token, values, counts=counts)


def _change(
    connection: Connection, run_id: str, token: str, values: dict[str, Any], *, counts: dict[str, int] | None
) -> Run:
    mine: ColumnElement[bool] = (runs.c.run_id == run_id) & (runs.c.token == token) & (runs.c.state == RunState.RUNNING)
    if counts is not None:
        saved = connection.execute(select(runs.c.counts).where(mine).with_for_update()).scalar_one_or_none()
        if saved is None:
            _lost(connection, run_id)
        values = {**values, "counts": {**saved, **counts}}
    query = update(runs).where(mine).values(**values)
    row = connection.execute(query.returning(runs)).mappings().one_or_none()
    if row is None:
        _lost(connection, run_id)
    return run_of(row)


def _lost(connection: Connection, run_id: str) -> NoReturn:
    found = _found(connection, run_id)
    raise LeaseLostError(f"run {run_id} is {found.state} and no longer held with this token; stop without writing")


def _found(connection: Connection, run_id: str) -> Run:
    row = connection.execute(select(runs).where(runs.c.run_id == run_id)).mappings().one_or_none()
    if row is None:
        raise MemoryNotFoundError(f"run_id: {run_id!r} names no run")
    return run_of(row)


def _first(column: ColumnElement[Any], value: Any) -> ColumnElement[Any]:
    return func.coalesce(column, literal(value, Moment()))
