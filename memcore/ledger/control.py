"""Ticks and switches: when the scheduler last looked for due agents, and which companies are paused."""

from sqlalchemy import select

from memcore.clock import Clock
from memcore.ledger.database import Database, checked_key, insert_for
from memcore.ledger.tables import switches, ticks
from memcore.models.base import Frozen
from memcore.models.memory import BoundedTime


class Tick(Frozen):
    """A company's last tick, the sign that beat, broker and worker all work: its end, and how many runs it sent."""

    ended_at: BoundedTime
    sent: int


class Ticks:
    """The ticks table, one row a company; every method is one short transaction.

    Args:
        database: the ledger.
        clock: what time it is.
    """

    def __init__(self, database: Database, *, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def note(self, company: str, *, sent: int) -> None:
        """Save that a tick has just ended; of two at once either may win."""
        new = {"ended_at": self._clock(), "sent": sent}
        with self._database.write() as connection:
            statement = insert_for(connection, ticks).values(company=checked_key("company", company), **new)
            connection.execute(statement.on_conflict_do_update(index_elements=["company"], set_=new))

    def last(self, company: str) -> Tick | None:
        """Return the company's last tick; None when there was none."""
        query = select(ticks.c.ended_at, ticks.c.sent).where(ticks.c.company == company)
        with self._database.read() as connection:
            row = connection.execute(query).mappings().one_or_none()
        return Tick.model_validate(dict(row)) if row else None


class Switches:
    """The switches table; every method is one short transaction, read anew on every call.

    Args:
        database: the ledger.
        clock: what time it is.
    """

    def __init__(self, database: Database, *, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def pause(self, company: str) -> None:
        """Pause the maintenance of a company; runs under way stop before their next entry."""
        self._set(company, paused=True)

    def resume(self, company: str) -> None:
        """Resume the maintenance of a company."""
        self._set(company, paused=False)

    def paused(self, company: str) -> bool:
        """Return whether the company's maintenance is paused; an unreadable switch raises, and then nothing may run."""
        query = select(switches.c.paused).where(switches.c.company == company)
        with self._database.read() as connection:
            return bool(connection.execute(query).scalar_one_or_none())

    def _set(self, company: str, *, paused: bool) -> None:
        new = {"paused": paused, "changed_at": self._clock()}
        with self._database.write() as connection:
            statement = insert_for(connection, switches).values(company=checked_key("company", company), **new)
            connection.execute(statement.on_conflict_do_update(index_elements=["company"], set_=new))
