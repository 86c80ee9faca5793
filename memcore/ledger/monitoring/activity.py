"""What happened to agents: who had something of late, what runs removed by reason, and the archive over time.

Every query is bounded: by newest rows, by a few agents, or by the one agent that is asked about.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Row, case, func, select

from memcore.jobs import MaintenancePayload
from memcore.ledger.consolidation_groups import GroupState
from memcore.ledger.database import Database, equals
from memcore.ledger.journal import EntryReason, moves_with
from memcore.ledger.runs import RunKind
from memcore.ledger.tables import (
    HELD_WORK,
    KEPT,
    OPEN,
    archive,
    booking_records,
    bookings,
    consolidation_groups,
    runs,
    work_items,
)
from memcore.ledger.work_items import WorkState

#: Newest entries of the journal, and newest runs, that are looked at for agents to show.
MOST_ROWS = 500

#: What people call a removal, by the reason of its entry.
REMOVALS: Mapping[EntryReason, str] = {
    "consolidated": "merged",
    "retention": "expired",
    "expired": "expired",
    "ended": "expired",
    "enforced": "over the limit",
    "pruned": "over the limit",
    "deleted": "deleted",
}

#: What came back by an undo or a restore.
RETURNED = "came back"


@dataclass(slots=True, kw_only=True)
class AgentActivity:
    """What happened to one agent in a time.

    Attributes:
        at: the newest of it.
        run_id: the newest run that moved a memory, else the newest run.
        held_id: a run that waits for a person.
        failed_id: the newest run, where it failed.
        moved: memories by what became of them, see ``REMOVALS`` and ``RETURNED``.
        archived: memories that went into the archive.
        refused: groups that the gate refused.
    """

    agent_id: str
    at: datetime
    run_id: str | None = None
    held_id: str | None = None
    failed_id: str | None = None
    moved: Counter[str] = field(default_factory=Counter)
    archived: int = 0
    refused: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentActivity:
    """What happened to agents of a company since a time.

    Attributes:
        agents: first those with a run that waits for a person or failed, then the newest.
        others: how many more had a run.
        held: how many runs wait for a person, of all agents that were asked about.
    """

    agents: tuple[AgentActivity, ...]
    others: int
    held: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRun:
    """A run on the timeline of an agent."""

    run_id: str
    kind: RunKind
    undo_of: str | None
    at: datetime
    state: WorkState


class RunTests(NamedTuple):
    """How many registered tests were asked behind a run, and how many of these failed or had no answer."""

    at: datetime
    asked: int
    failed: int
    errors: int


#: Counts of runs of the tests that did not pass.
_NOT_PASSED = ("tests_failed", "tests_error")


class ActivityReader:
    """Reads what happened from the journal and the runs; writes nothing."""

    def __init__(self, *, journal: Database, ledger: Database) -> None:
        self._journal = journal
        self._ledger = ledger

    def recent(
        self,
        company: str,
        *,
        since: datetime,
        most: int,
        among: Collection[str] | None = None,
        without: Collection[str] = (),
    ) -> RecentActivity:
        """Return what happened since a time to at most so many agents; ``among`` names the only ones wanted."""
        held = self._held(company, among, without)
        newest = self._newest_runs(company, since, among, without)
        last_runs = {row.agent_id: row for row in reversed(newest)}
        failed = {name: row for name, row in last_runs.items() if row.state == WorkState.FAILED}
        movers = {row.agent_id: row for row in reversed(self._newest_entries(company, since, among, without))}
        by_time = sorted((*movers.values(), *newest), key=lambda row: row.at, reverse=True)
        moved_first = sorted(by_time, key=lambda row: row.agent_id not in movers)
        order = list(dict.fromkeys([*held, *failed, *(row.agent_id for row in moved_first)]))[:most]
        found = dict[str, AgentActivity]()
        for name in order:
            last = movers.get(name) or last_runs.get(name) or held[name]
            found[name] = AgentActivity(
                agent_id=name,
                at=last.at,
                run_id=last.run_id,
                held_id=held[name].run_id if name in held else None,
                failed_id=failed[name].run_id if name in failed else None,
            )
        self._count(company, since, found)
        others = select(func.count(runs.c.agent_id.distinct()))
        others = others.where(*_of(runs, company, among, {*found, *without}), runs.c.created_at >= since)
        return RecentActivity(
            agents=tuple(found.values()),
            others=int(self._ledger.value(others)),
            held=self._count_held(company, among, without),
        )

    def removed(
        self, company: str, agent_id: str, *, since: datetime, until: datetime
    ) -> tuple[tuple[datetime, str, int], ...]:
        """Return what runs of an agent removed in a time, and what came back: when, what became of it, how many."""
        query = (
            moves_with(bookings.c.settled_at, bookings.c.reason, booking_records.c.kind)
            .with_only_columns(
                bookings.c.settled_at, bookings.c.reason, booking_records.c.kind, func.count().label("times")
            )
            .where(equals(bookings, company=company, agent_id=agent_id), ~OPEN)
            .where(bookings.c.settled_at >= since, bookings.c.settled_at <= until)
            .group_by(bookings.c.booking_id, bookings.c.settled_at, bookings.c.reason, booking_records.c.kind)
            .order_by(bookings.c.settled_at)
        )
        rows = (
            (row["settled_at"], _fate(row["reason"], row["kind"]), row["times"]) for row in self._journal.rows(query)
        )
        return tuple((at, fate, times) for at, fate, times in rows if fate is not None)

    def archived_at(self, company: str, agent_id: str, times: Sequence[datetime]) -> tuple[int, ...]:
        """Return how many of an agent's memories lay in the archive at each time, as far as it holds them still."""
        if not times:
            return ()
        came, back = archive.c.archived_at, archive.c.returned_at
        lay = (func.count(case(((came <= at) & (back.is_(None) | (back > at)), 1))) for at in times)
        query = select(*lay).where(equals(archive, company=company, agent_id=agent_id))
        with self._journal.statement() as connection:
            return tuple(int(count) for count in connection.execute(query).one())

    def runs_between(
        self, company: str, agent_id: str, *, since: datetime, until: datetime, most: int
    ) -> tuple[AgentRun, ...]:
        """Return an agent's runs of a time, the newest ones of more, oldest first."""
        its = equals(work_items, company=company, kind=MaintenancePayload.task) & (work_items.c.key == runs.c.run_id)
        query = (
            select(runs.c.run_id, runs.c.kind, runs.c.undo_of, runs.c.created_at.label("at"), work_items.c.state)
            .join(work_items, its)
            .where(equals(runs, company=company, agent_id=agent_id))
            .where(runs.c.created_at >= since, runs.c.created_at <= until)
            .order_by(runs.c.created_at.desc(), runs.c.run_id)
            .limit(most)
        )
        return tuple(AgentRun(**row) for row in reversed(self._ledger.rows(query)))

    def tested(
        self,
        company: str,
        *,
        since: datetime,
        most: int,
        among: Collection[str] | None = None,
        without: Collection[str] = (),
    ) -> tuple[RunTests, ...]:
        """Return what came of registered tests behind runs since a time, at most so many runs, the newest first."""
        asked, failed, errors = (runs.c.counts[name].as_integer() for name in ("tests_asked", *_NOT_PASSED))
        query = (
            select(runs.c.created_at.label("at"), asked.label("asked"), failed.label("failed"), errors.label("errors"))
            .where(*_of(runs, company, among, without), runs.c.created_at >= since, asked.is_not(None))
            .order_by(runs.c.created_at.desc(), runs.c.run_id)
            .limit(most)
        )
        return tuple(
            RunTests(row.at, row.asked, row.failed or 0, row.errors or 0) for row in _rows(self._ledger, query)
        )

    def first_run_at(self, company: str, agent_id: str) -> datetime | None:
        """Return when the agent's first run that is known was created."""
        mine = equals(runs, company=company, agent_id=agent_id)
        found: datetime | None = self._ledger.value(
            select(runs.c.created_at).where(mine).order_by(runs.c.created_at).limit(1)
        )
        return found

    def undoable(self, run_ids: Collection[str]) -> frozenset[str]:
        """Return those of the runs that have entries, each carried out and still held in full."""
        whole = func.count(case((KEPT, 1))) == func.count()
        query = select(bookings.c.run_id).group_by(bookings.c.run_id).having(whole)
        return frozenset(row["run_id"] for row in self._journal.rows_with(query, bookings.c.run_id, run_ids))

    def _held(self, company: str, among: Collection[str] | None, without: Collection[str]) -> dict[str, Any]:
        query = (
            select(work_items.c.agent_id, work_items.c.key.label("run_id"), work_items.c.created_at.label("at"))
            .where(*_of(work_items, company, among, without), work_items.c.kind == MaintenancePayload.task, HELD_WORK)
            .order_by(work_items.c.created_at.desc(), work_items.c.key)
            .limit(MOST_ROWS)
        )
        return {row.agent_id: row for row in reversed(_rows(self._ledger, query))}

    def _count_held(self, company: str, among: Collection[str] | None, without: Collection[str]) -> int:
        its = (*_of(work_items, company, among, without), work_items.c.kind == MaintenancePayload.task, HELD_WORK)
        return self._ledger.count(work_items, *its)

    def _newest_runs(
        self, company: str, since: datetime, among: Collection[str] | None, without: Collection[str]
    ) -> Sequence[Row[Any]]:
        newest = (
            select(runs.c.agent_id, runs.c.run_id, runs.c.created_at.label("at"))
            .where(*_of(runs, company, among, without), runs.c.created_at >= since)
            .order_by(runs.c.created_at.desc(), runs.c.run_id)
            .limit(MOST_ROWS)
            .subquery()
        )
        its = equals(work_items, company=company, kind=MaintenancePayload.task)
        query = select(newest, work_items.c.state).join(work_items, its & (work_items.c.key == newest.c.run_id))
        query = query.order_by(newest.c.at.desc(), newest.c.run_id)
        return _rows(self._ledger, query)

    def _newest_entries(
        self, company: str, since: datetime, among: Collection[str] | None, without: Collection[str]
    ) -> Sequence[Row[Any]]:
        query = (
            select(bookings.c.agent_id, bookings.c.run_id, bookings.c.settled_at.label("at"))
            # Not by its name alone: SQLite, which knows no better, would read all entries of the company.
            .where(bookings.c.company.concat("") == company, *_among(bookings, among, without))
            .where(KEPT, bookings.c.settled_at >= since)
            .order_by(bookings.c.settled_at.desc(), bookings.c.run_id)
            .limit(MOST_ROWS)
        )
        return _rows(self._journal, query)

    def _count(self, company: str, since: datetime, found: Mapping[str, AgentActivity]) -> None:
        """Add to each agent what runs moved, what was archived, and what the gate refused."""
        late = (*_of(bookings, company, found, ()), KEPT, bookings.c.settled_at >= since)
        moved = (
            moves_with()
            .with_only_columns(
                bookings.c.agent_id, bookings.c.reason, booking_records.c.kind, func.count().label("times")
            )
            .where(*late)
            .group_by(bookings.c.agent_id, bookings.c.reason, booking_records.c.kind)
        )
        for row in self._journal.rows(moved):
            fate = _fate(row["reason"], row["kind"])
            if fate is not None:
                found[row["agent_id"]].moved[fate] += row["times"]
        archived = (
            select(bookings.c.agent_id, func.count().label("times"))
            .join(archive, archive.c.booking_id == bookings.c.booking_id)
            .where(*late)
            .group_by(bookings.c.agent_id)
        )
        for row in self._journal.rows(archived):
            found[row["agent_id"]].archived = row["times"]
        groups = consolidation_groups.c
        refused = (
            select(groups.agent_id, func.count().label("times"))
            .where(*_of(consolidation_groups, company, found, ()))
            .where(groups.created_at >= since, groups.state == GroupState.REFUSED)
            .group_by(groups.agent_id)
        )
        for row in self._ledger.rows(refused):
            found[row["agent_id"]].refused = row["times"]


def _fate(reason: EntryReason, kind: str) -> str | None:
    if kind == "restored":
        return RETURNED
    return REMOVALS.get(reason) if kind == "removed" else None


def _of(
    table: Any, company: str, among: Iterable[str] | None, without: Iterable[str]
) -> tuple[ColumnElement[bool], ...]:
    return (table.c.company == company, *_among(table, among, without))


def _among(table: Any, among: Iterable[str] | None, without: Iterable[str]) -> tuple[ColumnElement[bool], ...]:
    wanted = () if among is None else (table.c.agent_id.in_(sorted(among)),)
    return (*wanted, table.c.agent_id.not_in(sorted(without))) if without else wanted


def _rows(database: Database, query: Any) -> Sequence[Row[Any]]:
    with database.statement() as connection:
        return connection.execute(query).all()
