"""Distrusts: what a person has said is not to be trusted, and the memories that came of it."""

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Column, Index, String, Table, select

from memcore import ids
from memcore.errors import MemoryNotFoundError
from memcore.ledger.database import Records, Row, UtcDateTime, add_new, checked_key, equals, insert_one, json_document
from memcore.ledger.organization import audit
from memcore.ledger.organization.audit import Confirmation
from memcore.ledger.tables import metadata
from memcore.models.base import Frozen
from memcore.models.distrust import DistrustRule
from memcore.models.memory import BoundedTime

distrusts = Table(
    "distrusts",
    metadata,
    Column("company", String, primary_key=True),
    Column("distrust_id", String, primary_key=True),
    Column("rule", json_document(), nullable=False),
    Column("reason", String, nullable=False),
    Column("by", String, nullable=False),
    Column("at", UtcDateTime, nullable=False),
    # When all that came of it until then was found.
    Column("completed_at", UtcDateTime),
    Column("lifted_at", UtcDateTime),
    Column("lifted_by", String),
)

#: The memories that came of what is distrusted; their origins alone would not always say so.
distrusted = Table(
    "distrusted",
    metadata,
    Column("company", String, primary_key=True),
    Column("distrust_id", String, primary_key=True),
    Column("agent_id", String, primary_key=True),
    Column("memory_id", String, primary_key=True),
    Index("distrusted_of_agent", "company", "agent_id"),
)

#: Most distrusts of a page.
MAX_PAGE = 200


class Distrust(Frozen):
    """A distrust in force, or lifted.

    Attributes:
        completed_at: when all that came of it was found, the last time; None while that goes on.
        lifted_at: since when it is trusted again.
    """

    company: str
    distrust_id: str
    rule: DistrustRule
    reason: str
    by: str
    at: BoundedTime
    completed_at: BoundedTime | None = None
    lifted_at: BoundedTime | None = None
    lifted_by: str | None = None


class Distrusts(Records[Distrust]):
    """The tables distrusts and distrusted. Every call raises MemoryConnectionError and MemoryStoreError."""

    _table = distrusts
    _model = Distrust
    _newest_by = (distrusts.c.at, distrusts.c.distrust_id)
    _page_size = MAX_PAGE

    def add(self, company: str, rule: DistrustRule, confirmation: Confirmation) -> Distrust:
        """Distrust from now on, with its line of the audit, and return it; the one in force where the rule is the same.

        Whoever asks again after an error does not make a second one, which would hide on after the first is lifted.
        """
        row: Row = {
            "company": checked_key("company", company),
            "distrust_id": ids.new_id(),
            "rule": rule.model_dump(mode="json", exclude_none=True),
            "reason": confirmation.reason,
            "by": confirmation.actor,
            "at": self._clock(),
        }
        same = next((each for each in self.in_force(row["company"]) if each.rule == rule), None)
        distrust_id = row["distrust_id"] if same is None else same.distrust_id
        with self._database.write() as connection:
            if same is None:
                insert_one(connection, distrusts, row)
            audit.append(connection, company, confirmation.note("distrust", distrust_id), at=row["at"])
        return self._record(row) if same is None else same

    def find(self, company: str, distrust_id: str) -> Distrust | None:
        """Return one; None where the company has none with this id."""
        return self._one(select(distrusts).where(equals(distrusts, company=company, distrust_id=distrust_id)))

    def get(self, company: str, distrust_id: str) -> Distrust:
        """Return one. Raises MemoryNotFoundError."""
        found = self.find(company, distrust_id)
        if found is None:
            raise MemoryNotFoundError("distrust_id: names no distrust; see `memtend distrust list`")
        return found

    def list(self, company: str, *, limit: int = MAX_PAGE) -> tuple[Distrust, ...]:
        """Return the newest first, those that were lifted too."""
        return self._page(select(distrusts).where(distrusts.c.company == company), before=None, limit=limit)

    def in_force(self, company: str) -> tuple[Distrust, ...]:
        """Return those that were not lifted."""
        mine = (distrusts.c.company == company) & distrusts.c.lifted_at.is_(None)
        return self._all(select(distrusts).where(mine).order_by(distrusts.c.distrust_id))

    def reach(self, company: str, distrust_id: str, agent_id: str, memory_ids: Collection[str]) -> None:
        """Keep memories that came of it; those that are known already stay.

        Where all was found before, ``completed_at`` becomes now: by it readers see that there is more.
        """
        named = {"company": company, "distrust_id": distrust_id, "agent_id": agent_id}
        rows: list[Row] = [{**named, "memory_id": each} for each in sorted(memory_ids)]
        mine = equals(distrusts, company=company, distrust_id=distrust_id) & distrusts.c.completed_at.is_not(None)
        with self._database.write() as connection:
            add_new(connection, distrusted, rows)
            connection.execute(distrusts.update().where(mine).values(completed_at=self._clock()))

    def complete(self, company: str, distrust_id: str) -> Distrust:
        """Note that all that came of it was found, and return it."""
        mine = equals(distrusts, company=company, distrust_id=distrust_id)
        self._update(mine & distrusts.c.completed_at.is_(None), {"completed_at": self._clock()})
        return self.get(company, distrust_id)

    def lift(self, company: str, distrust_id: str, confirmation: Confirmation) -> Distrust:
        """Trust again, with its line of the audit, and return it; one that was lifted stays as it is."""
        mine = equals(distrusts, company=company, distrust_id=distrust_id) & distrusts.c.lifted_at.is_(None)
        now = self._clock()
        with self._database.write() as connection:
            changed = connection.execute(
                distrusts.update().where(mine).values(lifted_at=now, lifted_by=confirmation.actor)
            )
            if changed.rowcount:
                audit.append(connection, company, confirmation.note("trust", distrust_id), at=now)
        return self.get(company, distrust_id)

    def reached(self, company: str, distrust_id: str) -> Mapping[str, frozenset[str]]:
        """Return the memories that came of it, by their agents."""
        return self._by_agent(equals(distrusted, company=company, distrust_id=distrust_id))

    def all_reached(self, company: str, distrust_ids: Collection[str]) -> Mapping[str, frozenset[str]]:
        """Return the memories that came of any of these, by their agents."""
        return self._by_agent(equals(distrusted, company=company) & distrusted.c.distrust_id.in_(sorted(distrust_ids)))

    def _by_agent(self, which: Any) -> Mapping[str, frozenset[str]]:
        found: dict[str, set[str]] = {}
        for row in self._database.rows(select(distrusted.c.agent_id, distrusted.c.memory_id).where(which)):
            found.setdefault(row["agent_id"], set()).add(row["memory_id"])
        return {agent_id: frozenset(each) for agent_id, each in found.items()}
