"""The kill switch of each company; one agent's own is Agents.pause."""

from sqlalchemy import select

from memcore.clock import Clock
from memcore.ledger.agent import checked_key
from memcore.ledger.engine import Database
from memcore.ledger.insert import insert_for
from memcore.ledger.ledger_tables import switches


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
        """Stop the maintenance of a company; runs under way stop before their next booking."""
        self._set(company, paused=True)

    def resume(self, company: str) -> None:
        """Let the maintenance of a company go on."""
        self._set(company, paused=False)

    def paused(self, company: str) -> bool:
        """Say whether the company's maintenance is stopped; an unreadable switch raises, and then nothing may run."""
        query = select(switches.c.paused).where(switches.c.company == company)
        with self._database.read() as connection:
            return bool(connection.execute(query).scalar_one_or_none())

    def _set(self, company: str, *, paused: bool) -> None:
        new = {"paused": paused, "changed_at": self._clock()}
        with self._database.write() as connection:
            statement = insert_for(connection, switches).values(company=checked_key("company", company), **new)
            connection.execute(statement.on_conflict_do_update(index_elements=["company"], set_=new))
