"""Patterns across executions, counted in SQL: the order in which executions arrived cannot matter."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any

from pydantic import Field
from sqlalchemy import Select, Subquery, and_, case, distinct, func, literal, select, true, union_all

from memcore.ledger.database import Records, record_of
from memcore.ledger.tables import IS_EVIDENCE, trajectories
from memcore.models.base import Frozen
from memcore.models.memory import BoundedTime


class PatternKind(StrEnum):
    """What a pattern's executions share."""

    #: They failed in one category.
    FAILURE = "failure"
    #: They succeeded with one chain of tools, and this chain does better than the rest.
    SUCCESS = "success"


class Pattern(Frozen):
    """A pattern of a window, in executions of agents that a person added.

    Attributes:
        key: the category of the failures, or the key of the chain (memcore.ids.tools_key).
        occurrences: the executions that show it.
        agents: the distinct agents that show it.
    """

    kind: PatternKind
    key: str
    occurrences: int = Field(ge=1)
    agents: int = Field(ge=1)


class PatternTally(Frozen):
    """How many patterns a window has, and how many of them enough agents show."""

    found: int = 0
    shared: int = 0


#: Patterns read in one go.
MAX_PAGE = 128

_AGENT = trajectories.c.agent_id
_CATEGORY = trajectories.c.error_category
_CHAIN = trajectories.c.tools_key

_IS_SUCCESS = _CATEGORY.is_(None)


class Window(Frozen):
    """The executions from ``since`` on and before ``until``, and how many agents must show a pattern."""

    since: BoundedTime
    until: BoundedTime
    min_agents: int


class Patterns(Records[Pattern]):
    """Patterns of the trajectories table; the stream takes a transaction for each page."""

    _model = Pattern

    def tally(self, company: str, window: Window) -> PatternTally:
        """Return how many patterns a window has, and how many of them enough agents show."""
        all_of_them = _patterns(company, window)
        shared = _how_many(all_of_them.c.agents >= window.min_agents)
        query = select(func.count().label("found"), shared.label("shared")).select_from(all_of_them)
        (row,) = self._database.rows(query)
        return record_of(PatternTally, row)

    def shared(self, company: str, window: Window) -> Iterator[Pattern]:
        """Yield those that enough agents show: those of most agents first, then those that occur most.

        No more than a page is held, and no transaction stays open.
        """
        start = 0
        while page := self._part(company, window, start):
            yield from page
            start += len(page)

    def _part(self, company: str, window: Window, start: int) -> tuple[Pattern, ...]:
        found = _patterns(company, window)
        query = (
            select(found)
            .where(found.c.agents >= window.min_agents)
            .order_by(found.c.agents.desc(), found.c.occurrences.desc(), found.c.kind, found.c.key)
            .limit(MAX_PAGE)
            .offset(start)
        )
        return self._all(query)


def _patterns(company: str, window: Window) -> Subquery:
    return union_all(_failures(company, window), _successes(company, window)).subquery("patterns")


def _failures(company: str, window: Window) -> Select[*tuple[Any, ...]]:
    columns = (func.count().label("occurrences"), func.count(distinct(_AGENT)).label("agents"))
    kind = literal(str(PatternKind.FAILURE)).label("kind")
    return _executions(company, window, kind, _CATEGORY.label("key"), *columns).where(~_IS_SUCCESS).group_by(_CATEGORY)


def _successes(company: str, window: Window) -> Select[*tuple[Any, ...]]:
    every = _executions(
        company, window, func.count().label("number"), _how_many(_IS_SUCCESS).label("successes")
    ).subquery("every")
    chains = (
        _executions(
            company,
            window,
            _CHAIN.label("key"),
            func.count().label("number"),
            _how_many(_IS_SUCCESS).label("occurrences"),
            func.count(distinct(case((_IS_SUCCESS, _AGENT)))).label("agents"),
        )
        .where(_CHAIN.is_not(None))
        .group_by(_CHAIN)
        .subquery("chains")
    )
    return (
        select(literal(str(PatternKind.SUCCESS)).label("kind"), chains.c.key, chains.c.occurrences, chains.c.agents)
        .select_from(chains.join(every, true()))
        .where(chains.c.occurrences * every.c.number > every.c.successes * chains.c.number)
    )


def _executions(company: str, window: Window, *columns: Any) -> Select[*tuple[Any, ...]]:
    at = trajectories.c.ended_at
    of_window = and_(trajectories.c.company == company, at >= window.since, at < window.until)
    return select(*columns).select_from(trajectories).where(of_window, IS_EVIDENCE)


def _how_many(which: Any) -> Any:
    return func.coalesce(func.sum(case((which, 1), else_=0)), 0)
