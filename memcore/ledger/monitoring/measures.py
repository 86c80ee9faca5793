"""Figures that outlive the process that measures them: counters that workers add to, and what the canary found."""

from collections.abc import Collection
from datetime import datetime
from enum import StrEnum

from sqlalchemy import select

from memcore.ledger.database import Records, checked_key, insert_for, insert_one, put
from memcore.ledger.tables import measures
from memcore.models.base import Frozen
from memcore.models.memory import BoundedTime


class MeasureName(StrEnum):
    """What is measured."""

    #: Memories that store jobs wrote; a redelivered one counts again.
    MEMORIES_STORED = "memories_stored"
    #: Of those, what others wrote that reads like an order, a password or an account to pay to.
    SUSPECT_STORED = "suspect_stored"
    #: The newest canary: when it was sent.
    CANARY_SENT = "canary_sent"
    #: The newest canary that was found: when it was sent, and the seconds until it could be found.
    CANARY_FOUND = "canary_found"


class Measure(Frozen):
    """One figure of a company.

    Attributes:
        at: when the value was set last; of a canary, when it was sent.
    """

    company: str
    name: MeasureName
    value: float
    at: BoundedTime


class Measures(Records[Measure]):
    """The measures table, one row a company and name."""

    _table = measures
    _model = Measure

    def note(self, company: str, name: MeasureName, value: float, *, at: datetime) -> None:
        """Set a figure; of two at once either may win."""
        with self._database.write() as connection:
            put(connection, measures, [_row(company, name, value, at)])

    def begin(self, company: str, name: MeasureName, value: float, *, at: datetime) -> None:
        """Set a figure that has none yet."""
        with self._database.write() as connection:
            insert_one(connection, measures, _row(company, name, value, at))

    def add(self, company: str, name: MeasureName, amount: float) -> None:
        """Add to a counter; any number of processes may at once."""
        row = _row(company, name, amount, self._clock())
        with self._database.write() as connection:
            statement = insert_for(connection, measures).values(row)
            grown = {"value": measures.c.value + statement.excluded.value, "at": statement.excluded["at"]}
            connection.execute(statement.on_conflict_do_update(index_elements=list(measures.primary_key), set_=grown))

    def of(self, companies: Collection[str]) -> tuple[Measure, ...]:
        """Return every figure of these companies."""
        query = select(measures).where(measures.c.company.in_(list(companies)))
        return self._all(query.where(measures.c.name.in_([name.value for name in MeasureName])))


def _row(company: str, name: MeasureName, value: float, at: datetime) -> dict[str, object]:
    return {"company": checked_key("company", company), "name": name.value, "value": value, "at": at}
