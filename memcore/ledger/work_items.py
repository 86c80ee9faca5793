"""Work items: the one durable queue. A row says what must happen; its message is only the signal that it is ready."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cache
from typing import Any, Literal, NamedTuple, NoReturn, TypeVar

from pydantic import Field
from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Executable,
    Select,
    Update,
    and_,
    bindparam,
    case,
    delete,
    distinct,
    func,
    literal,
    or_,
    select,
    true,
    update,
)

from memcore import ids
from memcore.clock import Clock, utc_now
from memcore.errors import LeaseLostError, MemoryNotFoundError
from memcore.jobs import Payload
from memcore.ledger.database import (
    Database,
    Records,
    Row,
    UtcDateTime,
    add_new,
    equals,
    id_chunks,
    insert_new,
    one_record,
    record_of,
    rows_with,
)
from memcore.ledger.tables import OPEN_WORK, companies, work_items
from memcore.models.base import Frozen
from memcore.models.memory import BoundedTime


class WorkState(StrEnum):
    """The state of a work item; the last four are its ends."""

    #: Ready: a message is on its way, or the sweep sends one.
    AVAILABLE = "available"
    #: It waits for a time, an answer or a person.
    WAITING = "waiting"
    #: A worker carries it out, and renews its lease.
    LEASED = "leased"
    #: The removal guard stopped it, or it proposes something: a person releases or dismisses it.
    HELD = "held"
    #: Its work is done.
    DONE = "done"
    #: There was nothing to do, or another item took its place.
    SKIPPED = "skipped"
    #: Nobody tries it again unless a person replays it.
    FAILED = "failed"
    #: A person decided against it.
    DISMISSED = "dismissed"


@dataclass(frozen=True, slots=True)
class Transition:
    """One edge of the state machine: the states from which an event leads, and the state to which."""

    sources: tuple[WorkState, ...]
    target: WorkState


_READY = (WorkState.AVAILABLE, WorkState.WAITING)

#: The states of an item that is on its way, and of one that has ended.
OPEN_STATES = frozenset({*_READY, WorkState.LEASED})
ENDED_STATES = (WorkState.DONE, WorkState.SKIPPED, WorkState.FAILED, WorkState.DISMISSED)

#: What may happen to an item.
WorkEvent = Literal[
    "claim",
    "renew",
    "release",
    "wait",
    "postpone",
    "wake",
    "finish",
    "skip",
    "fail",
    "hold",
    "approve",
    "dismiss",
    "cancel",
    "preempt",
    "settle",
    "refuse",
    "replay",
]

#: The state machine: every statement that changes a state goes through it, and the picture in the docs is made of it.
TRANSITIONS: Mapping[WorkEvent, Transition] = {
    # A leased item is claimed by another worker once its lease has ended.
    "claim": Transition((*_READY, WorkState.LEASED), WorkState.LEASED),
    "renew": Transition((WorkState.LEASED,), WorkState.LEASED),
    "release": Transition((WorkState.LEASED,), WorkState.AVAILABLE),
    "wait": Transition((WorkState.LEASED,), WorkState.WAITING),
    "postpone": Transition(_READY, WorkState.WAITING),
    "wake": Transition((WorkState.WAITING,), WorkState.AVAILABLE),
    "finish": Transition((WorkState.LEASED,), WorkState.DONE),
    "skip": Transition((WorkState.LEASED,), WorkState.SKIPPED),
    "fail": Transition((WorkState.LEASED,), WorkState.FAILED),
    "hold": Transition((WorkState.LEASED,), WorkState.HELD),
    "approve": Transition((WorkState.HELD,), WorkState.AVAILABLE),
    "dismiss": Transition((*_READY, WorkState.HELD), WorkState.DISMISSED),
    # A worker may hold it: its next renewal tells it.
    "cancel": Transition((*_READY, WorkState.LEASED), WorkState.DISMISSED),
    "preempt": Transition(_READY, WorkState.SKIPPED),
    # Ends that need no lease: another item, or a person, decided them.
    "settle": Transition(_READY, WorkState.DONE),
    "refuse": Transition(_READY, WorkState.FAILED),
    "replay": Transition(ENDED_STATES, WorkState.AVAILABLE),
}

#: Wait before an item that nobody claimed is dispatched again; it doubles with each message, since messages of items
#: for which no worker is there would only pile up for the next one.
REDISPATCH_AFTER = timedelta(minutes=2)

#: How late a message may be before the doctor says that nobody sends it: a few sweeps.
STUCK_AFTER = timedelta(minutes=3)

#: How often that wait doubles: to about an hour.
_REDISPATCH_DOUBLINGS = 5


class WorkKey(NamedTuple):
    """The name of an item: its kind is the name of the job that carries it out."""

    company: str
    kind: str
    key: str


class WorkRecord(Frozen):
    """What the records of every kind of work tell of their items.

    Attributes:
        attempt: how often it was claimed, without the claims that were released unused.
        token: the fencing token of the worker that holds it; None when nobody does.
    """

    attempt: int = 0
    token: str | None = None


class WorkItem(WorkRecord):
    """An item's row.

    Attributes:
        agent_id: the agent whose work it is; None for work of the whole company.
        lock: at most one open item of a company has it; None for an item that excludes no other.
        queue: the queue of its messages.
        payload: the message's JSON; None for an item that no message asks for. It has no text of a memory.
        lease_until: when another worker may claim it.
        dispatch_after: when the sweep sends its next message; None for never.
        dispatches: messages that the sweep has sent since it was last claimed or made ready.
        dispatched_at: when the sweep last sent one.
        reason: why it waits, is held, was skipped or failed.
    """

    company: str
    kind: str
    key: str
    agent_id: str | None = None
    lock: str | None = None
    state: WorkState = WorkState.AVAILABLE
    queue: str | None = None
    payload: str | None = Field(default=None, repr=False)
    lease_until: BoundedTime | None = None
    dispatch_after: BoundedTime | None = None
    dispatches: int = 0
    dispatched_at: BoundedTime | None = None
    reason: str | None = None
    created_at: BoundedTime
    started_at: BoundedTime | None = None
    finished_at: BoundedTime | None = None

    def is_unclaimed(self, now: datetime) -> bool:
        """Whether nobody claims it although its message was sent again, or nobody sends that."""
        is_late = self.dispatch_after is not None and now - self.dispatch_after > STUCK_AFTER
        return is_late or self.dispatches > 1


class WorkCounts(Frozen):
    """How many items a company has in a state.

    Attributes:
        open: on their way.
        stuck: of those, the ones whose message nobody sends, or nobody has taken for an hour.
        waiting: of those, the ones that wait for a time, an answer or a person.
        held: held for a person; one for each agent.
    """

    open: int = 0
    stuck: int = 0
    waiting: int = 0
    held: int = 0
    failed: int = 0


def new_item(
    name: WorkKey,
    payload: Payload | None,
    *,
    now: datetime,
    agent_id: str | None = None,
    lock: str | None = None,
) -> Row:
    """Return the row of an item that is ready now; its creator sends the first message, the sweep the next ones."""
    return {
        **name._asdict(),
        "agent_id": agent_id,
        "lock": lock,
        "state": WorkState.AVAILABLE.value,
        "queue": None if payload is None else str(payload.queue),
        "payload": None if payload is None else payload.model_dump_json(),
        "attempt": 0,
        "dispatch_after": None if payload is None else now + REDISPATCH_AFTER,
        "dispatches": 0,
        "created_at": now,
    }


def add_items(connection: Connection, rows: Iterable[Row]) -> frozenset[str]:
    """Insert the items that are new and whose locks are free, and return their keys; of one kind."""
    return insert_new(connection, work_items, sorted(rows, key=lambda row: str(row["key"])), key="key")


def _given(name: str, of: Any = None) -> Any:
    return bindparam(name, type_=of)


#: What the statements are given when they are executed, so that each is built once: that takes longer than all else.
_COMPANY, _KEY, _TOKEN, _FRESH_TOKEN = map(_given, ("of_company", "of_key", "of_token", "fresh_token"))
_NOW, _NEXT_MESSAGE, _LEASE_UNTIL = (_given(at, UtcDateTime()) for at in ("now", "next_message", "lease_until"))


def _moving(event: WorkEvent, which: ColumnElement[bool], **values: Any) -> Update:
    """Return the statement that moves the items that meet a condition, if the event leads from their states.

    The values are further columns to set. An item that becomes available counts as dispatched now.
    """
    transition = TRANSITIONS[event]
    row: Row = {"state": transition.target.value}
    if transition.target is not WorkState.LEASED:
        row |= {"token": None, "lease_until": None}
    if transition.target in ENDED_STATES:
        row |= {"finished_at": _NOW, "dispatch_after": None}
    elif transition.target is WorkState.AVAILABLE:
        row |= {"finished_at": None, "dispatches": 0, "dispatch_after": _with_message(_NEXT_MESSAGE)}
    return update(work_items).where(which, work_items.c.state.in_(transition.sources)).values(row | values)


def move(
    connection: Connection, event: WorkEvent, which: ColumnElement[bool], *, now: datetime, **values: Any
) -> tuple[str, ...]:
    """Move the items as :func:`_moving` says, and return their keys."""
    query = _moving(event, which, **values).returning(work_items.c.key)
    return tuple(connection.execute(query, {"now": now, "next_message": now + REDISPATCH_AFTER}).scalars())


def _with_message(at: ColumnElement[datetime]) -> ColumnElement[Any]:
    return case((work_items.c.payload.is_not(None), at))


def is_item(name: WorkKey, *, token: str | None = None) -> ColumnElement[bool]:
    """Return the condition for one item; with a token, only while a worker holds it with that."""
    return equals(work_items, **name._asdict(), **({} if token is None else {"token": token}))


def _claiming(its: ColumnElement[bool]) -> Update:
    """Return the statement that claims an item under a fresh token, unless another worker has it.

    If its worker dies, the first sweep after the end of the lease dispatches it.
    """
    is_free = work_items.c.token.is_(None) | (work_items.c.lease_until <= _NOW)
    values: Row = {
        "attempt": work_items.c.attempt + 1,
        "token": _FRESH_TOKEN,
        "lease_until": _LEASE_UNTIL,
        "reason": None,
        "dispatches": 0,
        "dispatch_after": _with_message(_LEASE_UNTIL),
        "started_at": func.coalesce(work_items.c.started_at, _NOW),
    }
    return _moving("claim", its & is_free, **values)


def move_leased(
    connection: Connection, event: WorkEvent, name: WorkKey, token: str, *, now: datetime, **values: Any
) -> None:
    """Move an item that this token holds. Raises LeaseLostError, MemoryNotFoundError."""
    if not move(connection, event, is_item(name, token=token), now=now, **values):
        raise_lost(connection, name)


def raise_lost(connection: Connection, name: WorkKey) -> NoReturn:
    """Raise LeaseLostError for an item that another worker holds or that has ended, MemoryNotFoundError for none."""
    state = connection.execute(select(work_items.c.state).where(is_item(name))).scalar_one_or_none()
    if state is None:
        raise MemoryNotFoundError(f"{name.kind}: {name.key!r} names no work")
    raise LeaseLostError(f"{name.kind} {name.key} is {state} and no longer held with this token; stop without writing")


class WorkItems(Records[WorkItem]):
    """The work_items table, whatever the kind: what the sweep and people look at."""

    _table = work_items
    _model = WorkItem

    def get(self, name: WorkKey) -> WorkItem | None:
        """Return the item, or None."""
        return self._one(select(work_items).where(is_item(name)))

    def hasten(self, company: str) -> None:
        """Make the next message of a company's open items due, but for those that a worker holds: after a pause."""
        ready = equals(work_items, company=company) & work_items.c.state.in_(_READY) & work_items.c.payload.is_not(None)
        self._update(ready, {"dispatch_after": self._clock(), "dispatches": 0})

    def take_due(
        self,
        *,
        limit: int,
        company: str | None = None,
        keys: Collection[str] | None = None,
        without: Collection[str] = (),
    ) -> tuple[WorkItem, ...]:
        """Return open items, of all companies or of one, whose next message is due, as dispatched now: send those.

        Companies and agents take turns, so that the many items of one do not hold up those of the others. Two sweeps
        at once dispatch an item once. Only those with these keys where ``keys`` are given, at most some thousands;
        kinds in ``without`` are left out.
        """
        now = self._clock()
        removed = select(companies.c.company).where(companies.c.state == "removed")
        is_wanted = work_items.c.kind.not_in(without) & work_items.c.company.not_in(removed)
        due = and_(OPEN_WORK, work_items.c.dispatch_after <= now, is_wanted)
        if company is not None:
            due &= work_items.c.company == company
        if keys is not None:
            due &= work_items.c.key.in_(keys)
        turns = {WorkKey(**row): turn for turn, row in enumerate(self._database.rows(_in_turns(due, limit=limit)))}
        if not turns:
            return ()  # most sweeps end here, and take no lock
        with self._database.write() as connection:
            # Still due: another sweep may have taken them meanwhile, or take them now.
            query = select(work_items).where(due).with_for_update(skip_locked=True)
            rows = rows_with(connection, query, work_items.c.key, (name.key for name in turns))
            found = {WorkKey(row["company"], row["kind"], row["key"]): row for row in rows}
            taken = tuple(self._record(found[name]) for name in turns if name in found)
            for (whose, kind, dispatches), those in _grouped(taken).items():
                values = {
                    "dispatches": dispatches + 1,
                    "dispatched_at": now,
                    "dispatch_after": now + REDISPATCH_AFTER * 2 ** min(dispatches, _REDISPATCH_DOUBLINGS),
                }
                for part in id_chunks(those):
                    these = equals(work_items, company=whose, kind=kind) & work_items.c.key.in_(part)
                    # What waited for this time waits no longer.
                    move(connection, "wake", these, now=now)
                    connection.execute(update(work_items).where(these).values(values))
        return taken

    def leased(self, company: str) -> int:
        """Return how many of a company's items workers carry out now."""
        return self._database.count(work_items, equals(work_items, company=company, state=WorkState.LEASED.value))

    def counts(self, *, without: Collection[str] = ()) -> dict[str, WorkCounts]:
        """Return the counts of each company that has work which is open, held or failed, but for kinds ``without``."""
        of, stuck_at = work_items.c, self._clock() - STUCK_AFTER
        counted = {
            "open": OPEN_WORK,
            # A message that comes again and again means no more than a long queue, until an hour has passed.
            "stuck": and_(OPEN_WORK, or_(of.dispatch_after < stuck_at, of.dispatches > _REDISPATCH_DOUBLINGS)),
            "waiting": of.state == WorkState.WAITING,
            "failed": of.state == WorkState.FAILED,
        }
        columns = [func.count(case((which, 1))).label(name) for name, which in counted.items()]
        # An earlier release left one for each maintenance run.
        columns.append(func.count(distinct(case((of.state == WorkState.HELD, of.agent_id)))).label("held"))
        is_counted = or_(OPEN_WORK, of.state.in_((WorkState.HELD, WorkState.FAILED)))
        query = select(of.company, *columns).where(is_counted, of.kind.not_in(without)).group_by(of.company)
        return {row["company"]: record_of(WorkCounts, row) for row in self._database.rows(query)}

    def open(self, company: str, kind: str) -> tuple[WorkItem, ...]:
        """Return a company's items of a kind that have not ended; for kinds of which there are few at once."""
        return self._all(select(work_items).where(equals(work_items, company=company, kind=kind), OPEN_WORK))


def _in_turns(due: ColumnElement[bool], *, limit: int) -> Select[*tuple[Any, ...]]:
    """Return the query of due items by turns: of each company the first, each time of another agent, and so on."""
    of, at = work_items.c, work_items.c.dispatch_after
    agents_turn = func.row_number().over(partition_by=(of.company, of.agent_id), order_by=at)
    each = select(of.company, of.kind, of.key, at, agents_turn.label("turn")).where(due).subquery()
    order = (each.c.turn, each.c.dispatch_after)
    companys_turn = func.row_number().over(partition_by=each.c.company, order_by=order)
    return select(each.c.company, each.c.kind, each.c.key).order_by(companys_turn, each.c.dispatch_after).limit(limit)


def _grouped(found: Iterable[WorkItem]) -> dict[tuple[str, str, int], list[str]]:
    groups: defaultdict[tuple[str, str, int], list[str]] = defaultdict(list)
    for item in found:
        groups[item.company, item.kind, item.dispatches].append(item.key)
    return groups


_Record = TypeVar("_Record", bound=WorkRecord)

#: What a record of a kind tells of its item, unless its own table has a column of that name.
_SHOWN = (
    "state", "reason", "attempt", "token", "lease_until", "dispatch_after", "created_at", "started_at", "finished_at",
)  # fmt: skip


class Work(Records[_Record]):
    """The base of a repository of one kind of work: its own table says what is particular, keyed by the item.

    A method that changes both does so in one transaction, and one that a worker calls is fenced by the item's token.
    """

    _kind: str

    def __init__(self, database: Database, *, clock: Clock = utc_now) -> None:
        super().__init__(database, clock=clock)
        self._kept = cache(self._with_parameters)

    @classmethod
    def _name(cls, company: str, key: str) -> WorkKey:
        return WorkKey(company, cls._kind, key)

    @property
    def _key(self) -> Column[Any]:
        *_, key = self._table.primary_key
        return key

    def _rows(self) -> Select[*tuple[Any, ...]]:
        """Return the query of all rows with their items."""
        own = self._table.c
        shown = [work_items.c[name] for name in _SHOWN if name not in own]
        is_its = equals(work_items, kind=self._kind) & (work_items.c.company == own.company)
        return select(*own, *shown).join(work_items, is_its & (work_items.c.key == self._key))

    def _is(self, company: str, key: str) -> ColumnElement[bool]:
        return and_(self._table.c.company == company, self._key == key)

    def get(self, company: str, key: str) -> _Record | None:
        """Return the record of an id, or None when this company has none with it."""
        return self._one(self._rows().where(self._is(company, key)))

    def claim(self, company: str, key: str, *, lease: timedelta) -> _Record | None:
        """Claim it under a fresh token; None when it has ended or is held, or another worker has it."""
        with self._changing() as connection:
            return self._claimed(connection, company, key, lease=lease, own=self._at_claim())

    def _claimed(self, connection: Connection, company: str, key: str, *, lease: timedelta, own: Row) -> _Record | None:
        given = {"fresh_token": ids.new_id(), "lease_until": self._clock() + lease}
        return self._changed(connection, "claim", company, key, own=own, given=given)

    def _at_claim(self) -> Row:
        """Return the values of its own row that a claim sets."""
        return {}

    def renew(self, company: str, key: str, token: str, *, lease: timedelta) -> None:
        """Renew the lease. Raises LeaseLostError: another worker holds it, or it has ended."""
        now = self._clock()
        until: Row = {"lease_until": now + lease, "dispatch_after": _with_message(literal(now + lease, UtcDateTime()))}
        with self._database.statement(writes=True) as connection:
            move_leased(connection, "renew", self._name(company, key), token, now=now, **until)

    def release(
        self,
        company: str,
        key: str,
        token: str,
        *,
        after: timedelta = REDISPATCH_AFTER,
        reason: str | None = None,
        is_unused: bool = False,
    ) -> None:
        """Make a leased item available again, whose message the sweep sends after a delay; unused, the attempt is free.

        Raises LeaseLostError.
        """
        values: Row = {"reason": reason, "attempt": work_items.c.attempt - int(is_unused)}
        values["dispatch_after"] = _with_message(literal(self._clock() + after, UtcDateTime()))
        self._leased(company, key, token, "release", **values)

    def wait(
        self, company: str, key: str, token: str, *, until: datetime | timedelta, reason: str, is_unused: bool = False
    ) -> None:
        """Let a leased item wait until a time, or for so long; unused, the attempt does not count.

        Raises LeaseLostError.
        """
        at = self._clock() + until if isinstance(until, timedelta) else until
        attempt = work_items.c.attempt - int(is_unused)
        self._leased(company, key, token, "wait", reason=reason, dispatch_after=at, attempt=attempt)

    def fail(self, company: str, key: str, token: str, reason: str) -> _Record:
        """End a leased item as failed: nobody attempts it again unless a person replays it. Raises LeaseLostError."""
        return self._leased(company, key, token, "fail", reason=reason)

    def item(self, company: str, key: str) -> WorkItem:
        """Return the item, to be dispatched. Raises MemoryNotFoundError."""
        with self._database.read() as connection:
            found = one_record(connection, WorkItem, select(work_items).where(is_item(self._name(company, key))))
        if found is None:
            raise MemoryNotFoundError(f"{self._kind}: {key!r} names no work")
        return found

    def _insert(self, connection: Connection, rows: Mapping[str, Row], items: Iterable[Row]) -> frozenset[str]:
        """Insert new items and their rows by key, in one transaction, and return the keys of those that are new."""
        added = add_items(connection, items)
        add_new(connection, self._table, [rows[key] for key in sorted(added)])
        return added

    def _leased(
        self,
        company: str,
        key: str,
        token: str,
        event: WorkEvent = "renew",
        *,
        own: Row | None = None,
        **values: Any,
    ) -> _Record:
        """Move the item that this token holds, and change its own row; without an event it stays leased.

        Raises LeaseLostError, MemoryNotFoundError.
        """
        with self._changing() as connection:
            return self._leased_in(connection, company, key, token, event, own=own, **values)

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
    ) -> _Record:
        record = self._changed(connection, event, company, key, own=own, given={"of_token": token}, **values)
        return record or raise_lost(connection, self._name(company, key))

    def _changing(self) -> AbstractContextManager[Connection]:
        """Open what :meth:`_changed` needs: on PostgreSQL, its one statement is a transaction by itself."""
        is_one = self._database.dialect == "postgresql"
        return self._database.statement(writes=True) if is_one else self._database.write()

    def _changed(
        self,
        connection: Connection,
        event: WorkEvent,
        company: str,
        key: str,
        *which: ColumnElement[bool],
        own: Row | None = None,
        given: Row,
        **values: Any,
    ) -> _Record | None:
        """Move an item, then change its own row, and return the record; None when the first finds nothing to update.

        It is fenced if ``of_token`` is among what is given to the statement.
        """
        own, now = own or {}, self._clock()
        given = given | {"of_company": company, "of_key": key, "now": now, "next_message": now + REDISPATCH_AFTER}
        shape = connection.dialect.name, event, "of_token" in given
        if which or any(isinstance(value, ColumnElement) for value in (*own.values(), *values.values())):
            statements = self._statements(*shape, own, values, *which)
        else:
            statements = self._kept(*shape, tuple(own), tuple(values))
            given |= {f"own_{name}": value for name, value in own.items()}
            given |= {f"new_{name}": value for name, value in values.items()}
        record: Row = {}
        for statement in statements:
            row = connection.execute(statement, given).mappings().one_or_none()
            if row is None:
                return None
            record |= row
        return self._record(record)

    def _with_parameters(
        self, dialect: str, event: WorkEvent, is_fenced: bool, own: tuple[str, ...], values: tuple[str, ...]
    ) -> tuple[Executable, ...]:
        """Return what :meth:`_statements` does, with parameters for the values of these names."""
        own_row: Row = {name: bindparam(f"own_{name}") for name in own}
        return self._statements(dialect, event, is_fenced, own_row, {name: bindparam(f"new_{name}") for name in values})

    def _statements(
        self, dialect: str, event: WorkEvent, is_fenced: bool, own: Row, values: Row, *which: ColumnElement[bool]
    ) -> tuple[Executable, ...]:
        """Return the statements that move an item and change its own row; together their rows are the record."""
        its = and_(is_item(self._name(_COMPANY, _KEY), token=_TOKEN if is_fenced else None), *which)
        query = _claiming(its) if event == "claim" else _moving(event, its, **values)
        return self._with_own(dialect, query, own)

    def _with_own(self, dialect: str, query: Update, own: Row) -> tuple[Executable, ...]:
        query = query.returning(*(work_items.c[name] for name in _SHOWN if name not in self._table.c))
        its = self._is(_COMPANY, _KEY)
        if dialect != "postgresql":
            mine = update(self._table).values(own).returning(self._table) if own else select(self._table)
            return query, mine.where(its)
        moved = query.cte("moved")
        if own:
            row = update(self._table).where(its, select(moved).exists()).values(own).returning(self._table).cte("own")
            return (select(row, moved).select_from(row.join(moved, true())),)
        # Locked, so that it is as the worker before left it: one statement sees the other rows as they were when it
        # began, although it waits for the item's row.
        both = select(self._table, moved).select_from(self._table.join(moved, true())).where(its)
        return (both.with_for_update(of=self._table),)

    def _in(self, connection: Connection, company: str, key: str) -> _Record:
        return self._record(connection.execute(self._rows().where(self._is(company, key))).mappings().one())

    def _move(
        self,
        company: str,
        key: str,
        event: WorkEvent,
        *which: ColumnElement[bool],
        own: Row | None = None,
        **values: Any,
    ) -> _Record | None:
        """Move the item without a lease, and change its own row; None when the event does not lead from its state."""
        with self._changing() as connection:
            return self._changed(connection, event, company, key, *which, own=own, given={}, **values)

    def _drop(self, company: str, *which: ColumnElement[bool]) -> int:
        """Delete a company's rows of this kind with their items, and return how many there were."""
        mine, items = self._table.c.company == company, equals(work_items, company=company, kind=self._kind)
        gone: list[str] = []
        with self._database.write() as connection:
            for part in id_chunks(connection.execute(select(self._key).where(mine, *which)).scalars()):
                # The item first, as a claim locks them; then the row, unless it was changed meanwhile.
                found = items & work_items.c.key.in_(part)
                connection.execute(select(work_items.c.key).where(found).order_by(work_items.c.key).with_for_update())
                rows = delete(self._table).where(mine, self._key.in_(part), *which).returning(self._key)
                gone += (keys := connection.execute(rows).scalars().all())
                connection.execute(delete(work_items).where(found, work_items.c.key.in_(keys)))
        return len(gone)


class PlainWork(Work[WorkItem]):
    """The base of a repository of a kind without a table of its own: its record is its item."""

    _table = work_items
    _model = WorkItem

    def request(
        self, key: str, payload: Payload, *, agent_id: str | None = None, lock: str | None = None
    ) -> WorkItem | None:
        """Make the item of a key ready, a new one or one that has ended, and return it; None while it is open."""
        now, name = self._clock(), self._name(payload.company, key)
        with self._database.write() as connection:
            is_new = add_items(connection, [new_item(name, payload, now=now, agent_id=agent_id, lock=lock)])
            if is_new or move(connection, "replay", is_item(name), now=now, attempt=0, reason=None):
                return self._in(connection, payload.company, key)
        return None

    def finish(self, company: str, key: str, token: str) -> WorkItem:
        """End a leased item as done. Raises LeaseLostError."""
        return self._leased(company, key, token, "finish")

    def skip(self, company: str, key: str, token: str, reason: str) -> WorkItem:
        """End a leased item for which there was nothing to do. Raises LeaseLostError."""
        return self._leased(company, key, token, "skip", reason=reason)

    def _rows(self) -> Select[*tuple[Any, ...]]:
        return select(work_items).where(work_items.c.kind == self._kind)

    def _is(self, company: str, key: str) -> ColumnElement[bool]:
        return is_item(self._name(company, key))

    def _with_own(self, dialect: str, query: Update, own: Row) -> tuple[Executable, ...]:
        del dialect
        return (query.values(own).returning(work_items),)
