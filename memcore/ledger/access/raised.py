"""Memories that a person has given more authority than their origins do: of each the approval, and of which text."""

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Column, Index, Select, String, Table, delete, select

from memcore.ledger.database import Repository, checked_key, equals, insert_one
from memcore.ledger.tables import approvals, metadata
from memcore.models.approval import ApprovalState
from memcore.models.origin import Authority, Raised

raised = Table(
    "raised",
    metadata,
    Column("company", String, primary_key=True),
    Column("approval_id", String, primary_key=True),
    *(Column(name, String, nullable=False) for name in ("agent_id", "memory_id", "authority", "digest")),
    Index("raised_of_agent", "company", "agent_id"),
)


class RaisedMemories(Repository):
    """The table raised. Every call raises MemoryConnectionError and MemoryStoreError."""

    def add(self, company: str, found: Raised, *, agent_id: str, memory_id: str) -> bool:
        """Raise a memory; False, and nothing changes, where the approval is not in force, as after its undo."""
        row = {
            "company": checked_key("company", company),
            "approval_id": found.approval_id,
            "agent_id": agent_id,
            "memory_id": memory_id,
            "authority": found.to.value,
            "digest": found.digest,
        }
        its = equals(approvals, company=company, approval_id=found.approval_id)
        with self._database.write() as connection:
            # Locked: an undo waits for this, and then finds the row that it takes back.
            state = connection.execute(select(approvals.c.state).where(its).with_for_update()).scalar_one_or_none()
            if state != ApprovalState.APPROVED.value:
                return False
            insert_one(connection, raised, row)
        return True

    def remove(self, company: str, approval_id: str) -> None:
        """Lower what an approval has raised; a second time changes nothing."""
        self._database.change(delete(raised).where(equals(raised, company=company, approval_id=approval_id)))


def raised_rows(company: str) -> Select[*tuple[Any, ...]]:
    """Return the query for what is raised; its columns are the agent, the memory, and those of ``raised_of``."""
    query = select(raised.c.agent_id, raised.c.memory_id, raised.c.approval_id, raised.c.authority, raised.c.digest)
    return query.where(raised.c.company == company)


def raised_of(rows: Iterable[tuple[Any, ...]]) -> Mapping[str, Mapping[str, Raised]]:
    """Return what raises each memory the most, by its agent and id, from rows of that query."""
    found: dict[str, dict[str, Raised]] = {}
    for agent_id, memory_id, approval_id, to, digest in sorted(rows):
        each, of_agent = (
            Raised(to=Authority(to), approval_id=approval_id, digest=digest),
            found.setdefault(agent_id, {}),
        )
        if memory_id not in of_agent or not of_agent[memory_id].to.reaches(each.to):
            of_agent[memory_id] = each
    return found
