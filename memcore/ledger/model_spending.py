"""What language models used for each agent and day, reserved before a call and settled after it: the hard cap."""

from datetime import UTC, date, datetime, time, timedelta

from sqlalchemy import ColumnElement, Connection, and_, select, update

from memcore import ids
from memcore.clock import Clock
from memcore.ledger.agent import checked_key
from memcore.ledger.engine import Database
from memcore.ledger.insert import insert_for
from memcore.ledger.ledger_tables import model_calls, model_spending
from memcore.ledger.model_call import CallState, Caps, DaySpent, NewCall, Reservation, Spent


class ModelSpending:
    """The tables model_spending and model_calls; every method is one short transaction.

    The sum of a day's calls is always that day's spending: both are written together.

    Args:
        database: the ledger.
        clock: what time it is; days are days of UTC.
    """

    def __init__(self, database: Database, *, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def reserve(self, call: NewCall, *, caps: Caps) -> Reservation:
        """Set aside what a call may use at most, or refuse it; of callers at once none goes over a cap.

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
            row = {
                "call_id": call_id,
                "company": call.company,
                "agent_id": call.agent_id,
                "run_id": call.run_id,
                "question_id": call.question_id,
                "purpose": call.purpose,
                "model": call.model,
                "state": CallState.ASKING if is_within else CallState.REFUSED,
                "attempts": 0,
                "called_at": now,
                "settled_at": None if is_within else now,
                **_columns(call.most if is_within else Spent()),
            }
            connection.execute(insert_for(connection, model_calls).values(row).on_conflict_do_nothing())
        if not is_within:
            return Reservation(call_id=None, before=today, until=until)
        before = DaySpent(tokens=today.tokens - call.most.tokens, cost=today.cost - call.most.cost)
        return Reservation(call_id=call_id, before=before, until=until)

    def settle(self, call_id: str, state: CallState, *, spent: Spent | None, attempts: int) -> bool:
        """Put what a call used in the place of what was set aside for it; True the first time, and False after that.

        Args:
            call_id: as reserve gave it.
            state: how it ended.
            spent: what it used; None leaves all that was set aside as spent, since nobody knows.
            attempts: requests that it took.
        """
        open_call = and_(model_calls.c.call_id == call_id, model_calls.c.state == CallState.ASKING)
        with self._database.write() as connection:
            row = connection.execute(select(model_calls).where(open_call).with_for_update()).mappings().one_or_none()
            if row is None:
                return False
            used = spent or Spent(**{name: row[name] for name in ("prompt_tokens", "completion_tokens", "cost")})
            ended = {"state": state, "attempts": attempts, "settled_at": self._clock()}
            connection.execute(update(model_calls).where(open_call).values(**ended, **_columns(used)))
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
        with self._database.read() as connection:
            return tuple(sorted(connection.execute(query).scalars()))

    def _taken(self, connection: Connection, call: NewCall, caps: Caps, day: date) -> bool:
        first = {"company": checked_key("company", call.company), "agent_id": checked_key("agent_id", call.agent_id)}
        row = insert_for(connection, model_spending).values(**first, day=day.isoformat(), tokens=0, cost=0.0)
        connection.execute(row.on_conflict_do_nothing())
        tokens, cost = model_spending.c.tokens + call.most.tokens, model_spending.c.cost + call.most.cost
        # One statement looks and takes: whoever waits for this row on PostgreSQL looks anew once it is committed.
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


def _of(company: str, agent_id: str, day: date) -> ColumnElement[bool]:
    return and_(
        model_spending.c.company == company,
        model_spending.c.agent_id == agent_id,
        model_spending.c.day == day.isoformat(),
    )


def _columns(spent: Spent) -> dict[str, float]:
    return {
        "prompt_tokens": spent.prompt_tokens,
        "completion_tokens": spent.completion_tokens,
        "cost": spent.cost,
    }
