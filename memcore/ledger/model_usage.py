"""What language models used, for people who ask what it was for: sums over the calls."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, Integer, case, cast, func, select

from memcore.ledger.engine import Database
from memcore.ledger.ledger_tables import model_calls
from memcore.ledger.model_call import CallState

#: Most rows of one report.
MAX_ROWS = 10_000


class UsageBy(StrEnum):
    """What a report has a row for."""

    AGENT = "agent"
    DAY = "day"
    PURPOSE = "purpose"
    RUN = "run"
    MODEL = "model"


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """One line of a report.

    Attributes:
        key: which agent, day, purpose, run or model; None gathers the calls outside of runs.
        calls: questions that were asked, answered or not.
        refused: questions that the budget refused, each counted once a day.
        failed: of the calls, those that ended in trouble.
        open: of the calls, those under way or of a process that died; they count with all that they may use.
        attempts: requests that the calls took.
        prompt_tokens: read.
        completion_tokens: written.
        cost: in the currency of the price list.
    """

    key: str | None
    calls: int
    refused: int
    failed: int
    open: int
    attempts: int
    prompt_tokens: int
    completion_tokens: int
    cost: float


class ModelUsage:
    """Reports over the table model_calls.

    Args:
        database: the ledger.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def report(
        self,
        company: str,
        by: UsageBy,
        *,
        since: date,
        until: date,
        agent_id: str | None = None,
        limit: int = MAX_ROWS,
    ) -> tuple[UsageRow, ...]:
        """Return a row for each agent, day, purpose, run or model, the dearest first; days in their order.

        Args:
            company: the company.
            by: what has a row of its own.
            since: the first day of UTC.
            until: the last day.
            agent_id: one agent alone; None takes all.
            limit: most rows.
        """
        key = self._key(by).label("key")
        cost, tokens = (
            func.sum(model_calls.c.cost),
            func.sum(model_calls.c.prompt_tokens + model_calls.c.completion_tokens),
        )
        query = (
            select(
                key,
                _count(model_calls.c.state != CallState.REFUSED).label("calls"),
                _count(model_calls.c.state == CallState.REFUSED).label("refused"),
                _count(model_calls.c.state == CallState.FAILED).label("failed"),
                _count(model_calls.c.state == CallState.ASKING).label("open"),
                cast(func.sum(model_calls.c.attempts), Integer).label("attempts"),
                _total(model_calls.c.prompt_tokens).label("prompt_tokens"),
                _total(model_calls.c.completion_tokens).label("completion_tokens"),
                cost.label("cost"),
            )
            .where(
                model_calls.c.company == company,
                model_calls.c.called_at >= datetime.combine(since, time(), UTC),
                model_calls.c.called_at < datetime.combine(until + timedelta(days=1), time(), UTC),
                *([] if agent_id is None else [model_calls.c.agent_id == agent_id]),
            )
            .group_by(key)
            .order_by(*([key] if by is UsageBy.DAY else [cost.desc(), tokens.desc(), key]))
            .limit(min(limit, MAX_ROWS))
        )
        with self._database.read() as connection:
            return tuple(UsageRow(**row) for row in connection.execute(query).mappings())

    def _key(self, by: UsageBy) -> ColumnElement[Any]:
        match by:
            case UsageBy.AGENT:
                return model_calls.c.agent_id
            case UsageBy.PURPOSE:
                return model_calls.c.purpose
            case UsageBy.RUN:
                return model_calls.c.run_id
            case UsageBy.MODEL:
                return model_calls.c.model
            case UsageBy.DAY if self._database.dialect == "postgresql":
                return func.to_char(func.timezone("UTC", model_calls.c.called_at), "YYYY-MM-DD")
            case UsageBy.DAY:
                return func.strftime("%Y-%m-%d", model_calls.c.called_at)


def _count(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.sum(case((condition, 1), else_=0))


def _total(column: ColumnElement[int]) -> ColumnElement[int]:
    # PostgreSQL adds up bigints to a numeric, which reads as a Decimal.
    return cast(func.sum(column), column.type)
