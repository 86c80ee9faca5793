"""Agents, their slots, the claim of the agents that are due, and the scheduler's ticks."""

import builtins
import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import Field
from sqlalchemy import ColumnElement, Connection, Select, bindparam, case, func, literal, or_, select, update

from memcore.errors import MaintenancePausedError, MemoryInputError, MemoryNotFoundError
from memcore.ledger.companies import CompanyState
from memcore.ledger.database import (
    CompanyRecords,
    Records,
    Row,
    UtcDateTime,
    checked_key,
    checked_time,
    insert_new,
    insert_one,
    known_keys,
    put,
    record_of,
    values_table,
)
from memcore.ledger.runs import NewRun, add_runs
from memcore.ledger.tables import COMPANY_INTERVAL, OWN_INTERVAL, agents, companies, ticks, work_items
from memcore.ledger.work_items import WorkItem, WorkState
from memcore.models.base import Frozen, ValidatedModel
from memcore.models.memory import BoundedTime, ConsolidationInterval, Key, MemoryCategory, MemoryLevel, NewAgentId

#: Most memories one agent may be allowed; PostgreSQL's integer ends a little above.
MAX_MEMORIES = 2_000_000_000

#: Longest retention, in days (about a hundred years); longer is "for ever", which is None.
MAX_RETENTION_DAYS = 36_525

#: An agent overdue by more than this, beyond some ticks, means that scheduler or workers are down.
LATE = timedelta(minutes=5)

Days = Annotated[int, Field(ge=1, le=MAX_RETENTION_DAYS)]


class AgentSpec(ValidatedModel):
    """The values to set on an agent: fields left out stay as they are, None goes back to the company's value.

    Attributes:
        role: what the agent does.
        department: where it belongs.
        level: how long its memories live.
        interval: its own interval; None follows the company's.
        max_memories: 1 to 2,000,000,000.
        retention_days: 1 to 36,525.
        retention_overrides: days per category, each 1 to 36,525.

    Raises:
        MemoryInputError: a value breaks its limit; the message names the field.
    """

    company: Key
    agent_id: NewAgentId
    role: Key | None = None
    department: Key | None = None
    level: MemoryLevel | None = None
    interval: ConsolidationInterval | None = None
    max_memories: int | None = Field(default=None, ge=1, le=MAX_MEMORIES)
    retention_days: Days | None = None
    retention_overrides: dict[MemoryCategory, Days] = Field(default_factory=dict)


class Agent(Frozen):
    """An agent's row.

    Attributes:
        interval: None when it follows the company's.
        next_due_at: None when it is never due, or when the next tick will plan it.
        registered_at: when it was added, or stored its first memory.
        added_at: when a person added it, or set something of it; None when nobody has.
    """

    company: str
    agent_id: str
    role: str | None = None
    department: str | None = None
    level: MemoryLevel | None = None
    interval: ConsolidationInterval | None = None
    max_memories: int | None = None
    retention_days: int | None = None
    retention_overrides: Annotated[dict[MemoryCategory, int], known_keys(set(MemoryCategory))] = Field(
        default_factory=dict
    )
    paused: bool = False
    next_due_at: BoundedTime | None = None
    registered_at: BoundedTime
    added_at: BoundedTime | None = None
    last_run_at: BoundedTime | None = None


#: What agents share.
PeerCriterion = Literal["role", "department"]


#: How long each interval is; "never" has no length.
LENGTHS: dict[ConsolidationInterval, timedelta] = {
    ConsolidationInterval.HOURLY: timedelta(hours=1),
    ConsolidationInterval.DAILY: timedelta(days=1),
    ConsolidationInterval.WEEKLY: timedelta(weeks=1),
}

#: Slots count from here.
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

#: Offsets are whole seconds: fine enough to spread 100,000 agents over an hour, and easy to read.
_GRAIN = timedelta(seconds=1)


def next_slot(agent_key: str, interval: ConsolidationInterval, after: datetime) -> datetime:
    """Return the agent's first slot strictly after a time: a multiple of the interval plus the agent's own offset.

    Raises:
        MemoryInputError: the interval is "never", or ``after`` has no zone.
    """
    if interval is ConsolidationInterval.NEVER:
        raise MemoryInputError("interval", "never has no slots")
    if after.tzinfo is None:
        raise MemoryInputError("after", "needs a time zone")
    length = LENGTHS[interval]
    # Not hash(): Python salts it per process, and then every process would plan another slot.
    digest = hashlib.blake2b(agent_key.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    offset = _GRAIN * (int.from_bytes(digest, "big") % (length // _GRAIN))
    passed = (after - _EPOCH - offset) // length
    return _EPOCH + offset + (passed + 1) * length


def last_slot(company: str, interval: ConsolidationInterval, now: datetime) -> datetime:
    """Return the company's own slot that has begun last, for what is done once for all of its agents.

    Raises:
        MemoryInputError: the interval is "never", or ``now`` has no zone.
    """
    return next_slot(f"{len(company)}:{company}", interval, now) - LENGTHS[interval]


def first_due(company: str, agent_id: str, interval: ConsolidationInterval, now: datetime) -> datetime | None:
    """Return an agent's first slot after now; None when its interval is "never"."""
    if interval is ConsolidationInterval.NEVER:
        return None
    # The company's length keeps ("ab", "c") and ("a", "bc") apart.
    return next_slot(f"{len(company)}:{company}/{agent_id}", interval, now)


#: Agents with an interval of their own that has slots.
OWN = OWN_INTERVAL & (agents.c.interval != ConsolidationInterval.NEVER)


def _companies_with_due(default: ConsolidationInterval, now: datetime) -> Select[*tuple[Any, ...]]:
    interval = func.coalesce(companies.c.interval, str(default))
    times = {str(each): literal(now + length, UtcDateTime()) for each, length in LENGTHS.items()}
    # Each condition is one step into an index for each company, however many agents it has.
    slot = agents.c.next_due_at
    waits = (slot <= now, slot.is_(None), slot > case(times, value=interval))
    follows = or_(*(_any_agent(COMPANY_INTERVAL, wait) for wait in waits))
    is_own = or_(_any_agent(OWN, waits[0]), _any_agent(OWN, slot > now + LENGTHS[ConsolidationInterval.WEEKLY]))
    is_due = or_(is_own, (interval != str(ConsolidationInterval.NEVER)) & follows)
    query = select(companies.c.company, interval.label("interval")).order_by(companies.c.company)
    return query.where(companies.c.state == CompanyState.ACTIVE, is_due)


def _any_agent(*which: ColumnElement[bool]) -> ColumnElement[bool]:
    """Say whether any of the company's agents is such a one."""
    # With a limit, because PostgreSQL reads the whole table for EXISTS among other conditions, and hashes it.
    found = select(agents.c.agent_id).where(agents.c.company == companies.c.company, *which).limit(1)
    return found.correlate(companies).scalar_subquery().is_not(None)


def _claim_due(
    connection: Connection, names: Collection[str], *, interval: ConsolidationInterval, limit: int, now: datetime
) -> tuple[WorkItem, ...]:
    is_due = agents.c.next_due_at <= now
    # Further away than any interval: the clock was ahead when it was planned.
    lost = _claimed(connection, names, OWN, agents.c.next_due_at > now + LENGTHS[ConsolidationInterval.WEEKLY], limit)
    _advance(connection, lost, interval=interval, now=now)
    due = _claimed(connection, names, OWN, is_due, limit)
    if interval is not ConsolidationInterval.NEVER:
        for misplaced in _misplaced(interval, now):
            planned = _claimed(connection, names, COMPANY_INTERVAL, misplaced, limit)
            _advance(connection, planned, interval=interval, now=now)
        due += _claimed(connection, names, COMPANY_INTERVAL, is_due, limit)
    due = sorted(due, key=lambda row: (row["turn"], row["next_due_at"], row["agent_id"]))[:limit]
    if not due:
        return ()
    # The slot after now, not the one after the last: an agent that slept through ten slots gets one run.
    _advance(connection, due, interval=interval, now=now)
    # An agent whose run is open keeps that one: the insert skips it, and its slot has moved on all the same, or else a
    # few stuck agents would stand first in every tick and starve the others.
    new = (NewRun(company=row["company"], agent_id=row["agent_id"], planned_at=row["next_due_at"]) for row in due)
    return add_runs(connection, new, now=now)


def _misplaced(interval: ConsolidationInterval, now: datetime) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    # An agent that follows the company and has no slot yet, or one further away than an interval, is planned anew: the
    # second makes a change from weekly to hourly take effect before the week is over.
    return agents.c.next_due_at.is_(None), agents.c.next_due_at > now + LENGTHS[interval]


def _claimed(
    connection: Connection,
    names: Collection[str],
    which: ColumnElement[bool],
    due: ColumnElement[bool],
    limit: int,
) -> list[Row]:
    # The companies take turns: each one's longest due agent, then each one's next.
    in_company = func.row_number().over(partition_by=agents.c.company, order_by=agents.c.next_due_at)
    ranked = select(agents.c.company, agents.c.agent_id, agents.c.next_due_at, in_company.label("turn"))
    turns = ranked.where(agents.c.company.in_(names), which, due).subquery()
    first = select(turns).order_by(turns.c.turn, turns.c.next_due_at).limit(limit).subquery()
    found = select(agents.c.company, agents.c.agent_id, agents.c.interval, agents.c.next_due_at, first.c.turn)
    found = found.join(first, (agents.c.company == first.c.company) & (agents.c.agent_id == first.c.agent_id))
    # The conditions once more: while the lock was waited for, another tick may have claimed the agent.
    locked = found.where(which, due).with_for_update(skip_locked=True, of=agents)
    return [row._asdict() for row in connection.execute(locked)]


def _advance(connection: Connection, rows: list[Row], *, interval: ConsolidationInterval, now: datetime) -> None:
    if not rows:
        return
    values = [
        {
            "of_company": row["company"],
            "of_agent": row["agent_id"],
            "slot": first_due(row["company"], row["agent_id"], ConsolidationInterval(row["interval"] or interval), now),
        }
        for row in rows
    ]
    query = update(agents)
    if connection.dialect.name == "postgresql":
        real = {"of_company": agents.c.company, "of_agent": agents.c.agent_id, "slot": agents.c.next_due_at}
        given = values_table(real, values)
        query = query.where(agents.c.company == given.c.of_company, agents.c.agent_id == given.c.of_agent)
        connection.execute(query.values(next_due_at=given.c.slot))
    else:
        query = query.where(agents.c.company == bindparam("of_company"), agents.c.agent_id == bindparam("of_agent"))
        connection.execute(query.values(next_due_at=bindparam("slot")), values)


class Agents(CompanyRecords[Agent]):
    """The agents table."""

    _table = agents
    _model = Agent

    def register(self, company: str, agent_ids: Iterable[str], *, interval: ConsolidationInterval) -> int:
        """Insert the agents that are not known yet, with the company's interval, and return how many were new."""
        company = checked_key("company", company)
        wanted = sorted({checked_key("agent_id", agent_id) for agent_id in agent_ids})
        # An agent stores often and is new once: the read keeps every later store away from the write lock.
        known = self._database.remembered(("known", company, *wanted), lambda: self._known(company, wanted))
        missing = [agent_id for agent_id in wanted if agent_id not in known]
        if not missing:
            return 0
        now = self._clock()
        rows = [_new_row(company, agent_id, now, first_due(company, agent_id, interval, now)) for agent_id in missing]
        with self._database.write() as connection:
            return len(insert_new(connection, agents, rows, key="agent_id"))

    def _known(self, company: str, wanted: Sequence[str]) -> frozenset[str]:
        query = select(agents.c.agent_id).where(agents.c.company == company)
        return frozenset(row["agent_id"] for row in self._database.rows_with(query, agents.c.agent_id, wanted))

    def put(self, agent: AgentSpec) -> Agent:
        """Create the agent, or change the fields that were given; a changed interval plans a new slot."""
        given = agent.model_dump(mode="json", exclude_unset=True, exclude={"company", "agent_id"})
        now = self._clock()
        if "interval" in given:
            # None waits for the next tick, which knows the company's interval.
            own = agent.interval
            slot = first_due(agent.company, agent.agent_id, own, now) if own else None
            # Only a change plans anew: setting what is set already must not push an overdue agent to its next slot.
            changed = agents.c.interval.is_distinct_from(given["interval"])
            given["next_due_at"] = case((changed, literal(slot, UtcDateTime())), else_=agents.c.next_due_at)
        row = _new_row(agent.company, agent.agent_id, now, None)
        with self._database.write() as connection:
            insert_one(connection, agents, row)
            query = update(agents).where(self._is(agent.company, agent.agent_id))
            query = query.values(given | {"added_at": func.coalesce(agents.c.added_at, now)})
            return record_of(Agent, connection.execute(query.returning(agents)).mappings().one())

    def levels(self, company: str, agent_ids: Iterable[str]) -> Mapping[str, MemoryLevel]:
        """Return the levels of those of the agents that have one of their own."""
        wanted = sorted(set(agent_ids))
        return self._database.remembered(("levels", company, *wanted), lambda: self._levels(company, wanted))

    def _levels(self, company: str, agent_ids: Sequence[str]) -> Mapping[str, MemoryLevel]:
        query = select(agents.c.agent_id, agents.c.level)
        query = query.where(agents.c.company == company, agents.c.level.is_not(None))
        rows = self._database.rows_with(query, agents.c.agent_id, agent_ids)
        return MappingProxyType({row["agent_id"]: MemoryLevel(row["level"]) for row in rows})

    def like(
        self, company: str, agent_id: str, *, by: PeerCriterion, level: MemoryLevel, limit: int
    ) -> tuple[str, ...]:
        """Return the agent's first peers by id: the other agents of its role or department.

        Paused agents, and those whose memories do not outlive a project, are left out.

        ``level`` is the company's, for agents that have none of their own.
        """
        shared = agents.c[by]
        # Nothing equals NULL: an agent without a role has no peers by it.
        own = select(shared).where(self._is(company, agent_id)).scalar_subquery()
        keeps = agents.c.level == str(MemoryLevel.PERSISTENT)
        if level is MemoryLevel.PERSISTENT:
            keeps = keeps | agents.c.level.is_(None)
        query = (
            select(agents.c.agent_id)
            .where(agents.c.company == company, shared == own, agents.c.agent_id != agent_id)
            .where(agents.c.paused.is_(False), keeps)
            .order_by(agents.c.agent_id)
            .limit(limit)
        )
        return tuple(row["agent_id"] for row in self._database.rows(query))

    def list(
        self, company: str, *, after: str | None = None, limit: int = 1000, among: Collection[str] | None = None
    ) -> tuple[Agent, ...]:
        """Return a company's agents in the order of their ids; ``after`` is the last id of the page before.

        ``among`` names the only agents that are wanted.
        """
        query = select(agents).where(agents.c.company == company).order_by(agents.c.agent_id).limit(limit)
        if after is not None:
            query = query.where(agents.c.agent_id > after)
        if among is not None:
            query = query.where(agents.c.agent_id.in_(among))
        return self._all(query)

    def counts(self) -> dict[str, int]:
        """Return how many agents each company has that has some."""
        return self._counts()

    def late(self, *, default: ConsolidationInterval, before: datetime) -> dict[str, int]:
        """Return how many agents of each active company have been due since before a time, where there are some.

        ``default`` is the interval of companies that have none of their own. It reads the rows of late agents alone:
        every scrape asks.
        """
        of, has_slots = (
            companies.c,
            func.coalesce(companies.c.interval, str(default)) != str(ConsolidationInterval.NEVER),
        )
        is_late = (agents.c.company == of.company) & (agents.c.next_due_at < checked_time("before", before))
        own, following = (
            select(func.count()).select_from(agents).where(which, is_late).correlate(companies).scalar_subquery()
            for which in (OWN, COMPANY_INTERVAL)
        )
        query = select(of.company, (own + case((has_slots, following), else_=0)).label("count"))
        rows = self._database.rows(query.where(of.state == CompanyState.ACTIVE).order_by(of.company))
        return {row["company"]: row["count"] for row in rows if row["count"]}

    def pause(self, company: str, agent_id: str) -> None:
        """Pause the agent: no tick plans it; MemoryNotFoundError when it is unknown."""
        self._change(company, agent_id, paused=True)

    def resume(self, company: str, agent_id: str) -> None:
        """Resume the agent: ticks plan it again; MemoryNotFoundError when it is unknown."""
        self._change(company, agent_id, paused=False)

    def set_due(self, company: str, agent_id: str, at: datetime) -> None:
        """Plan the agent for a time, at most one interval ahead; MemoryNotFoundError when it is unknown."""
        self._change(company, agent_id, next_due_at=checked_time("at", at))

    def why_paused(self, company: str, agent_id: str | None = None) -> str | None:
        """Return what pauses the agent, or the whole company's work; None for nothing. One read."""
        state = select(companies.c.state).where(companies.c.company == company)
        paused = select(agents.c.paused).where(agents.c.company == company, agents.c.agent_id == agent_id)
        query = select(state.scalar_subquery().label("state"), paused.scalar_subquery().label("is_paused"))
        row = self._database.rows(query)[0]
        if row["state"] not in {None, CompanyState.ACTIVE}:
            return "paused for all agents"
        return "paused for this agent" if row["is_paused"] else None

    def due(self, *, default: ConsolidationInterval) -> dict[str, ConsolidationInterval]:
        """Return the active companies that have due agents, in the order of their names, with their intervals.

        It is one read whatever the number of companies, and takes no lock: most ticks end here. ``default`` is the
        interval of companies that have none of their own.
        """
        rows = self._database.rows(_companies_with_due(default, self._clock()))
        return {row["company"]: ConsolidationInterval(row["interval"]) for row in rows}

    def claim_due(self, names: Collection[str], *, interval: ConsolidationInterval, limit: int) -> tuple[WorkItem, ...]:
        """Claim companies' due agents, plan their next slots, and return their items to dispatch.

        Each company's agents come oldest first, and the companies take turns. ``interval`` is that of all of these
        companies, for agents that have none of their own.

        The runs are committed when this returns: dispatch them then; the sweep dispatches what a crash left unsent.
        Of concurrent calls, one claims each due agent. An agent whose run is still active gets no second one.
        """
        if limit < 1:
            raise MemoryInputError("limit", f"is {limit}; it must be at least 1")
        with self._database.write() as connection:
            return _claim_due(connection, names, interval=interval, limit=limit, now=self._clock())

    def remove(self, company: str, agent_id: str) -> bool:
        """Take an agent off the schedule, with its settings; False when it is not known.

        Its next memory registers it anew.
        """
        return self._delete(self._is(company, agent_id)) > 0

    def _change(self, company: str, agent_id: str, **values: Any) -> None:
        if not self._update(self._is(company, agent_id), values):
            raise MemoryNotFoundError(f"agent_id: {agent_id!r} is not registered with {company!r}")


def _new_row(company: str, agent_id: str, now: datetime, due: datetime | None) -> Row:
    return {
        "company": company,
        "agent_id": agent_id,
        "retention_overrides": {},
        "paused": False,
        "registered_at": now,
        "next_due_at": due,
    }


#: Longest time between two ticks that is no jump of the clock: a machine may be off over a holiday.
LONGEST_GAP = timedelta(days=30)

#: How far the clock may go back between two ticks: those of two machines differ.
SET_BACK = timedelta(hours=1)


#: Longer than any lease, which lasts 45 seconds and is renewed.
LONGEST_LEASE = timedelta(hours=1)

#: How long nothing expires after a jump of the clock: what went by a wrong clock could not be undone.
DOUBTED_FOR = timedelta(days=7)


def jumped(since: datetime, now: datetime) -> bool:
    """Return whether the clock can hardly have gone from one time to the other by itself."""
    return not since - SET_BACK <= now <= since + LONGEST_GAP


class Tick(Frozen):
    """A company's last tick, the sign that beat, broker and worker all work: its end, and how many runs it sent.

    Attributes:
        jumped_from: the last time before a jump of the clock; None where there was none, or the clock is right again.
        jumped_at: the time behind it.
    """

    ended_at: BoundedTime
    sent: int
    jumped_from: BoundedTime | None = None
    jumped_at: BoundedTime | None = None


class Ticks(Records[Tick]):
    """The ticks table, one row a company."""

    _model = Tick

    def note(self, company: str, *, sent: int) -> None:
        """Save that a tick has just ended; of two at once either may win."""
        row: Row = {"company": checked_key("company", company), "ended_at": self._clock(), "sent": sent}
        with self._database.write() as connection:
            put(connection, ticks, [row])

    def watch(self, company: str) -> Tick | None:
        """Save a jump of the clock since the company's last tick, and return that tick; None when there was none.

        A jump back to where the last one began ends that one. Leases that were given while the clock was ahead end.
        """
        tick, now = self.last(company), self._clock()
        if tick is None or not jumped(tick.ended_at, now):
            return None
        is_back = tick.jumped_from is not None and not jumped(tick.jumped_from, now)
        new = {"jumped_from": None if is_back else tick.ended_at, "jumped_at": None if is_back else now}
        lease, after, message = work_items.c.lease_until, work_items.c.dispatch_after, work_items.c.payload
        is_lost = (work_items.c.state == WorkState.LEASED.value) & (lease > now + LONGEST_LEASE)
        ended = {"lease_until": now, "dispatch_after": case((message.is_not(None), now), else_=after)}
        with self._database.write() as connection:
            connection.execute(update(ticks).where(ticks.c.company == company).values(new))
            connection.execute(update(work_items).where(is_lost).values(ended))
        return tick

    def jumped_at(self) -> datetime | None:
        """Return when the installation's clock jumped: now, where no tick has seen it yet; None when it did not."""
        tick, now = self._one(select(ticks).order_by(ticks.c.ended_at.desc()).limit(1)), self._clock()
        if tick is None:
            return None
        return now if jumped(tick.ended_at, now) else tick.jumped_at

    def doubted(self) -> bool:
        """Return whether the installation's clock jumped lately: nothing expires before a person can have seen it."""
        at = self.jumped_at()
        return at is not None and self._clock() < at + DOUBTED_FOR

    def last(self, company: str) -> Tick | None:
        """Return the company's last tick; None when there was none."""
        return self._one(select(ticks).where(ticks.c.company == company))


def check_kill_switch(rows: Agents, company: str, agent_id: str | None = None, *, is_enabled: bool = True) -> None:
    """Return if nothing pauses the agent, or the whole company's work; each of the three switches is read anew.

    Beside the ledger's two, the policy's ``consolidation.enabled`` counts where it is given. Raises
    MaintenancePausedError, also when a switch cannot be read.
    """
    try:
        reason = rows.why_paused(company, agent_id) if is_enabled else "off: consolidation.enabled is false"
    except (builtins.MemoryError, RecursionError):
        raise
    except Exception as error:
        # An operator who has paused must be obeyed even when the ledger is in trouble: not knowing means no.
        raise MaintenancePausedError(
            f"the kill switch cannot be read ({type(error).__name__}), so maintenance does not run"
        ) from error
    if reason is not None:
        raise MaintenancePausedError(f"maintenance is {reason}")
