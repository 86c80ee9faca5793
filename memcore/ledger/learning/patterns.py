"""Patterns across executions, counted in SQL: the order in which executions arrived cannot matter."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any

from pydantic import Field
from sqlalchemy import (
    BigInteger,
    CompoundSelect,
    Double,
    Select,
    Subquery,
    and_,
    case,
    cast,
    distinct,
    func,
    literal,
    select,
    true,
    union_all,
)

from memcore.ledger.database import Records, record_of
from memcore.ledger.tables import trajectories
from memcore.models.base import Frozen
from memcore.models.memory import BoundedTime


class PatternKind(StrEnum):
    """What a pattern's executions share."""

    #: They failed in one category.
    FAILURE = "failure"
    #: They succeeded with one chain of tools, and this chain does better than the rest.
    SUCCESS = "success"


class Pattern(Frozen):
    """A pattern of a window.

    Attributes:
        key: the category of the failures, or the key of the chain (memcore.ids.tools_key).
        exposure: the executions that could have shown it: of a failure, all those of the task types in which it
            occurred; of a chain, all those that called it.
    """

    kind: PatternKind
    key: str
    occurrences: int = Field(ge=1)
    agents: int = Field(ge=1)
    exposure: int = Field(ge=1)

    @property
    def confidence(self) -> float:
        """How sure it is, 0 to 1: half and half the rate for failures, the rate for successes."""
        rate = self.occurrences / self.exposure
        return 0.5 + 0.5 * rate if self.kind is PatternKind.FAILURE else rate


class PatternTally(Frozen):
    """How many patterns a window has, how many of them enough agents show, and how many of those are sure enough."""

    found: int = 0
    shared: int = 0
    sure: int = 0


#: Patterns read in one go.
MAX_PAGE = 128

_AGENT = trajectories.c.agent_id
_CATEGORY = trajectories.c.error_category
_CHAIN = trajectories.c.tools_key

#: Executions without a task type are of one type; no type is blank.
_TYPE = func.coalesce(trajectories.c.task_type, "")

_IS_SUCCESS = _CATEGORY.is_(None)


class Window(Frozen):
    """Which executions are looked at, from ``since`` on and before ``until``, and what a sure pattern must have."""

    since: BoundedTime
    until: BoundedTime
    min_agents: int
    min_confidence: float


class Patterns(Records[Pattern]):
    """Patterns of the trajectories table; the stream takes a transaction for each page."""

    _model = Pattern

    def tally(self, company: str, window: Window) -> PatternTally:
        """Return how many patterns a window has, how many enough agents show, and how many of those are sure."""
        all_of_them = _patterns(company, window)
        is_shared = all_of_them.c.agents >= window.min_agents
        is_sure = and_(is_shared, all_of_them.c.confidence >= literal(window.min_confidence, Double))
        counts = (func.count().label("found"), _how_many(is_shared).label("shared"), _how_many(is_sure).label("sure"))
        query = select(*counts).select_from(all_of_them)
        (row,) = self._database.rows(query)
        return record_of(PatternTally, row)

    def surest(self, company: str, window: Window) -> Iterator[Pattern]:
        """Yield those that enough agents show and that are sure, the surest first, then those that occur most.

        No more than a page is held, and no transaction stays open.
        """
        start = 0
        while page := self._part(company, window, start):
            yield from page
            start += len(page)

    def _part(self, company: str, window: Window, start: int) -> tuple[Pattern, ...]:
        found = _patterns(company, window)
        query = (
            select(found.c.kind, found.c.key, found.c.occurrences, found.c.agents, found.c.exposure)
            .where(found.c.agents >= window.min_agents)
            .where(found.c.confidence >= literal(window.min_confidence, Double))
            .order_by(found.c.confidence.desc(), found.c.occurrences.desc(), found.c.kind, found.c.key)
            .limit(MAX_PAGE)
            .offset(start)
        )
        return self._all(query)


def _patterns(company: str, window: Window) -> Subquery:
    each: CompoundSelect[*tuple[Any, ...]] = union_all(_failures(company, window), _successes(company, window))
    return each.subquery("patterns")


def _failures(company: str, window: Window) -> Select[*tuple[Any, ...]]:
    failed = _executions(company, window, _CATEGORY.label("key"), _AGENT, _TYPE.label("type")).where(~_IS_SUCCESS)
    executed = _executions(company, window, _TYPE.label("type"), func.count().label("number"))
    types = executed.group_by(_TYPE).subquery("types")
    failures = failed.subquery("failures")
    shown = (
        select(
            failures.c.key, func.count().label("occurrences"), func.count(distinct(failures.c.agent_id)).label("agents")
        )
        .group_by(failures.c.key)
        .subquery("shown")
    )
    where = select(failures.c.key, failures.c.type).distinct().subquery("where_it_occurred")
    exposed = (
        select(where.c.key, func.sum(types.c.number).label("exposure"))
        .join(types, types.c.type == where.c.type)
        .group_by(where.c.key)
        .subquery("exposed")
    )
    rate = cast(shown.c.occurrences, Double) / cast(exposed.c.exposure, Double)
    # The same arithmetic as Pattern.confidence, on the same numbers: what is sure here is sure there.
    confidence = literal(0.5, Double) + literal(0.5, Double) * rate
    return select(
        literal(str(PatternKind.FAILURE)).label("kind"),
        shown.c.key,
        shown.c.occurrences,
        shown.c.agents,
        cast(exposed.c.exposure, BigInteger).label("exposure"),
        confidence.label("confidence"),
    ).join(exposed, exposed.c.key == shown.c.key)


def _successes(company: str, window: Window) -> Select[*tuple[Any, ...]]:
    every = _executions(
        company, window, func.count().label("number"), _how_many(_IS_SUCCESS).label("successes")
    ).subquery("every")
    chains = (
        _executions(
            company,
            window,
            _CHAIN.label("key"),
            func.count().label("exposure"),
            _how_many(_IS_SUCCESS).label("occurrences"),
            func.count(distinct(case((_IS_SUCCESS, _AGENT)))).label("agents"),
        )
        .where(_CHAIN.is_not(None))
        .group_by(_CHAIN)
        .subquery("chains")
    )
    rate = cast(chains.c.occurrences, Double) / cast(chains.c.exposure, Double)
    return (
        select(
            literal(str(PatternKind.SUCCESS)).label("kind"),
            chains.c.key,
            chains.c.occurrences,
            chains.c.agents,
            cast(chains.c.exposure, BigInteger).label("exposure"),
            rate.label("confidence"),
        )
        .select_from(chains.join(every, true()))
        .where(chains.c.occurrences * every.c.number > every.c.successes * chains.c.exposure)
    )


def _executions(company: str, window: Window, *columns: Any) -> Select[*tuple[Any, ...]]:
    at = trajectories.c.ended_at
    of_window = and_(trajectories.c.company == company, at >= window.since, at < window.until)
    return select(*columns).select_from(trajectories).where(of_window)


def _how_many(which: Any) -> Any:
    return func.coalesce(func.sum(case((which, 1), else_=0)), 0)
