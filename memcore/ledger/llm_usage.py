"""Calls of language models: reservations against the budget, spending, and reports on usage."""

from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, Connection, Integer, and_, case, cast, func, select, update

from memcore import ids
from memcore.ledger.database import Repository, checked_key, equals, insert_one
from memcore.ledger.tables import model_calls, model_spending
from memcore.ledger.webhooks.outbox import announce
from memcore.models.webhook import EventNotice, WebhookEventType


class CallState(StrEnum):
    """How far a call has come.

    ``asking`` is also what remains of a process that died while it waited: what it reserved stays spent. ``failed``
    ended in trouble, ``refused`` was over the budget and asked nobody.
    """

    ASKING = "asking"
    ANSWERED = "answered"
    FAILED = "failed"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What calls used, or what was set aside for them; the cost is in the currency of the price list."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0

    @property
    def tokens(self) -> int:
        """Read and written together, as budgets count them."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """The most that one agent may use in a day; None is no cap."""

    tokens: int | None = None
    cost: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DaySpent:
    """What an agent's calls used on a day, with what is set aside for calls under way."""

    tokens: int = 0
    cost: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCall:
    """A call that is about to be made, and what it may use at most; a question asked again is another call."""

    company: str
    agent_id: str
    run_id: str | None
    question_id: str
    purpose: str
    model: str
    most: Spent


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """What was set aside for a call; None as ``call_id`` when it would have gone over the budget.

    ``before`` is what the agent had used on that day; the next day's budget begins at ``until``.
    """

    call_id: str | None
    before: DaySpent
    until: datetime


class ModelSpending(Repository):
    """The tables model_spending and model_calls.

    The sum of a day's calls is always that day's spending: both are written together.
    """

    def reserve(self, call: NewCall, *, caps: Caps) -> Reservation:
        """Reserve what a call may use at most, or refuse it; concurrent callers together stay within the cap.

        A refusal leaves a row too, one for each question and day, so that people see who waits.

        Raises MemoryStoreError, MemoryConnectionError.
        """
        now = self._clock()
        day = now.astimezone(UTC).date()
        until = datetime.combine(day + timedelta(days=1), time(), UTC)
        with self._database.write() as connection:
            is_within = self._taken(connection, call, caps, day)
            today = self._spent(connection, call.company, call.agent_id, day)
            call_id = ids.new_id() if is_within else f"{call.company}/{call.agent_id}/{call.question_id}/{day}"
            named = {name: value for name, value in asdict(call).items() if name != "most"}
            row = {
                "call_id": call_id,
                **named,
                "state": CallState.ASKING if is_within else CallState.REFUSED,
                "attempts": 0,
                "called_at": now,
                "settled_at": None if is_within else now,
                **asdict(call.most if is_within else Spent()),
            }
            insert_one(connection, model_calls, row)
            if not is_within:
                announce(connection, call.company, _spent_notice(call, today, day), at=now)
        if not is_within:
            return Reservation(call_id=None, before=today, until=until)
        before = DaySpent(tokens=today.tokens - call.most.tokens, cost=today.cost - call.most.cost)
        return Reservation(call_id=call_id, before=before, until=until)

    def settle(
        self,
        call_id: str,
        state: CallState,
        *,
        spent: Spent | None,
        attempts: int,
        status: int | None = None,
        error_kind: str | None = None,
    ) -> bool:
        """Put what a call used in the place of what was set aside for it; True the first time, and False after that.

        None as ``spent`` leaves all that was set aside as spent, since nobody knows; attempts are requests. A call that
        failed has the status that refused it, and the error's type.
        """
        open_call = and_(model_calls.c.call_id == call_id, model_calls.c.state == CallState.ASKING)
        with self._database.write() as connection:
            row = connection.execute(select(model_calls).where(open_call).with_for_update()).mappings().one_or_none()
            if row is None:
                return False
            used = spent or Spent(**{name: row[name] for name in asdict(Spent())})
            ended = {"state": state, "attempts": attempts, "status": status, "error_kind": error_kind}
            ended["settled_at"] = self._clock()
            connection.execute(update(model_calls).where(open_call).values(**ended, **asdict(used)))
            day = row["called_at"].astimezone(UTC).date()
            reserved = row["prompt_tokens"] + row["completion_tokens"]
            connection.execute(
                update(model_spending)
                .where(_of(row["company"], row["agent_id"], day))
                .values(
                    tokens=model_spending.c.tokens - reserved + used.tokens,
                    cost=model_spending.c.cost - row["cost"] + used.cost,
                )
            )
        return True

    def of(self, company: str, agent_id: str, day: date) -> DaySpent:
        """Return what an agent's calls used on a day of UTC, with what is set aside for those under way."""
        with self._database.read() as connection:
            return self._spent(connection, company, agent_id, day)

    def waiting(self, company: str, day: date) -> tuple[str, ...]:
        """Return the agents whose budget refused a call on a day of UTC, in order."""
        start = datetime.combine(day, time(), UTC)
        query = (
            select(model_calls.c.agent_id)
            .distinct()
            .where(
                model_calls.c.company == company,
                model_calls.c.called_at >= start,
                model_calls.c.called_at < start + timedelta(days=1),
                model_calls.c.state == CallState.REFUSED,
            )
        )
        return tuple(sorted(row["agent_id"] for row in self._database.rows(query)))

    def _taken(self, connection: Connection, call: NewCall, caps: Caps, day: date) -> bool:
        owner = {"company": checked_key("company", call.company), "agent_id": checked_key("agent_id", call.agent_id)}
        insert_one(connection, model_spending, {**owner, "day": day.isoformat(), "tokens": 0, "cost": 0.0})
        tokens, cost = model_spending.c.tokens + call.most.tokens, model_spending.c.cost + call.most.cost
        # One statement checks and reserves: on PostgreSQL a caller that waits for this row checks anew after a commit.
        within = and_(
            _of(call.company, call.agent_id, day),
            *([] if caps.tokens is None else [tokens <= caps.tokens]),
            *([] if caps.cost is None else [cost <= caps.cost]),
        )
        taken = update(model_spending).where(within).values(tokens=tokens, cost=cost)
        return connection.execute(taken.returning(model_spending.c.tokens)).first() is not None

    def _spent(self, connection: Connection, company: str, agent_id: str, day: date) -> DaySpent:
        query = select(model_spending.c.tokens, model_spending.c.cost).where(_of(company, agent_id, day))
        row = connection.execute(query).mappings().one_or_none()
        return DaySpent(**row) if row else DaySpent()


def _spent_notice(call: NewCall, today: DaySpent, day: date) -> EventNotice:
    """Return what tells that an agent's budget is spent, once a day."""
    return EventNotice(
        event=WebhookEventType.BUDGET_SPENT,
        agent_id=call.agent_id,
        data={"day": day.isoformat(), "run_id": call.run_id, "purpose": call.purpose, **asdict(today)},
        cause=f"{len(call.agent_id)}/{call.agent_id}/{day}",
    )


def _of(company: str, agent_id: str, day: date) -> ColumnElement[bool]:
    return equals(model_spending, company=company, agent_id=agent_id, day=day.isoformat())


#: Most rows of one report.
MAX_ROWS = 10_000


class UsageBy(StrEnum):
    """What a report has a row for."""

    AGENT = "agent"
    DAY = "day"
    PURPOSE = "purpose"
    RUN = "run"
    MODEL = "model"
    COMPANY = "company"


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """One line of a report.

    Attributes:
        key: which agent, day, purpose, run, model or company; None gathers the calls outside of runs.
        calls: questions that were asked, answered or not.
        refused: questions that the budget refused, each counted once a day.
        asked_again: of the calls, those that asked once more since the answer could not be read.
        open: of the calls, those under way or of a process that died; they count with all that they may use.
    """

    key: str | None
    calls: int
    refused: int
    failed: int
    asked_again: int
    open: int
    attempts: int
    prompt_tokens: int
    completion_tokens: int
    cost: float


#: How far back a failure is looked for.
_FAILING_WITHIN = timedelta(days=7)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingModel:
    """A model that has answered nothing since a question failed.

    Attributes:
        since: when the first of these questions was asked.
        status: the HTTP status of the last one; None where none came.
        error_kind: its type.
    """

    model: str
    since: datetime
    status: int | None
    error_kind: str | None


class ModelUsage(Repository):
    """Reports over the table model_calls."""

    def failing(self, company: str, *, without: str) -> tuple[FailingModel, ...]:
        """Return the models whose last questions of a week all failed, by name; those of one purpose do not count."""
        calls = model_calls.c
        query = (
            select(calls.model, calls.state, calls.called_at, calls.status, calls.error_kind)
            .where(
                calls.company == company,
                calls.called_at >= self._clock() - _FAILING_WITHIN,
                calls.state.in_((CallState.ANSWERED, CallState.FAILED)),
                calls.purpose != without,
            )
            .order_by(calls.called_at.desc(), calls.call_id)
            .limit(MAX_ROWS)
        )
        found, working = dict[str, FailingModel](), set[str]()
        for row in self._database.rows(query):
            model, last = row["model"], found.get(row["model"])
            if model in working:
                continue
            if row["state"] == CallState.ANSWERED:
                working.add(model)
            elif last is None:
                failure = {"status": row["status"], "error_kind": row["error_kind"]}
                found[model] = FailingModel(model=model, since=row["called_at"], **failure)
            else:
                found[model] = replace(last, since=row["called_at"])
        return tuple(found[model] for model in sorted(found))

    def first_day(self, company: str, *, agent_id: str | None = None) -> date | None:
        """Return the day of UTC of the first call that the account has; None without one."""
        whose = {"company": company} | ({} if agent_id is None else {"agent_id": agent_id})
        rows = self._database.rows(
            select(func.min(model_calls.c.called_at).label("at")).where(equals(model_calls, **whose))
        )
        at: datetime | None = next(iter(rows))["at"]
        return None if at is None else at.astimezone(UTC).date()

    def report(
        self,
        company: str | None,
        by: UsageBy,
        *,
        since: date,
        until: date,
        agent_id: str | None = None,
        limit: int = MAX_ROWS,
    ) -> tuple[UsageRow, ...]:
        """Return a row for each agent, day, purpose, run, model or company, the dearest first; days in order.

        ``since`` is the first day of UTC and ``until`` the last one; without an agent, or a company, all count.
        """
        key = self._key(by).label("key")
        cost = func.sum(model_calls.c.cost)
        tokens = func.sum(model_calls.c.prompt_tokens + model_calls.c.completion_tokens)
        query = (
            select(
                key,
                _count(model_calls.c.state != CallState.REFUSED).label("calls"),
                _count(model_calls.c.state == CallState.REFUSED).label("refused"),
                _count(model_calls.c.state == CallState.FAILED).label("failed"),
                _count(model_calls.c.question_id.contains(ids.ASKED_AGAIN)).label("asked_again"),
                _count(model_calls.c.state == CallState.ASKING).label("open"),
                cast(func.sum(model_calls.c.attempts), Integer).label("attempts"),
                _total(model_calls.c.prompt_tokens).label("prompt_tokens"),
                _total(model_calls.c.completion_tokens).label("completion_tokens"),
                cost.label("cost"),
            )
            .where(
                *([] if company is None else [model_calls.c.company == company]),
                model_calls.c.called_at >= datetime.combine(since, time(), UTC),
                model_calls.c.called_at < datetime.combine(until + timedelta(days=1), time(), UTC),
                *([] if agent_id is None else [model_calls.c.agent_id == agent_id]),
            )
            .group_by(key)
            .order_by(*([key] if by is UsageBy.DAY else [cost.desc(), tokens.desc(), key]))
            .limit(min(limit, MAX_ROWS))
        )
        return tuple(UsageRow(**row) for row in self._database.rows(query))

    def _key(self, by: UsageBy) -> ColumnElement[Any]:
        if by is not UsageBy.DAY:
            return model_calls.c[{UsageBy.AGENT: "agent_id", UsageBy.RUN: "run_id"}.get(by, by.value)]
        if self._database.dialect == "postgresql":
            return func.to_char(func.timezone("UTC", model_calls.c.called_at), "YYYY-MM-DD")
        return func.strftime("%Y-%m-%d", model_calls.c.called_at)


def _count(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.sum(case((condition, 1), else_=0))


def _total(column: ColumnElement[int]) -> ColumnElement[int]:
    # PostgreSQL adds up bigints to a numeric, which reads as a Decimal.
    return cast(func.sum(column), column.type)
