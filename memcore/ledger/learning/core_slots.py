"""The places of an agent's core memory: how many it has taken is counted here, so that two writers never share one."""

from collections.abc import Collection
from datetime import timedelta

from sqlalchemy import delete, select

from memcore.ledger.database import Repository, equals, insert_one
from memcore.ledger.tables import core_slots

#: For how long a place counts whose memory is not in the store: longer than any write takes.
WRITE_TIME = timedelta(minutes=2)

#: The row that writers of one agent wait at; no memory has this id.
_LOCK = ""


class CoreSlots(Repository):
    """The table of places. The store says which core memories there are; a place says which are about to be."""

    def claim(self, company: str, agent_id: str, memory_id: str, *, stored: Collection[str], most: int) -> bool:
        """Take a place for a memory that is about to be written; False when ``most`` are taken.

        ``stored`` are the agent's core memories that the store has, read just before, also those that others wrote:
        they take places. A memory that has a place keeps it. Of any number of claims at once, no more win than there
        are places. Raises MemoryConnectionError, MemoryStoreError.
        """
        now = self._clock()
        mine = equals(core_slots, company=company, agent_id=agent_id)
        row = {"company": company, "agent_id": agent_id}
        with self._database.write() as connection:
            insert_one(connection, core_slots, {**row, "memory_id": _LOCK, "claimed_at": now})
            connection.execute(
                select(core_slots.c.memory_id).where(mine, core_slots.c.memory_id == _LOCK).with_for_update()
            )
            # A place whose memory never came, or is gone, is free again once no writer can still be on its way.
            old = core_slots.c.claimed_at < now - WRITE_TIME
            gone = core_slots.c.memory_id.not_in([_LOCK, *stored])
            connection.execute(delete(core_slots).where(mine, old, gone))
            held = select(core_slots.c.memory_id).where(mine, core_slots.c.memory_id != _LOCK)
            taken = {*connection.execute(held).scalars(), *stored}
            if memory_id in taken:
                return True
            if len(taken) >= most:
                return False
            return insert_one(connection, core_slots, {**row, "memory_id": memory_id, "claimed_at": now})

    def free(self, company: str, agent_id: str, memory_id: str) -> None:
        """Give back a memory's place: it was not written, or it is gone. Raises as ``claim``."""
        which = equals(core_slots, company=company, agent_id=agent_id, memory_id=memory_id)
        self._database.change(delete(core_slots).where(which))

    def taken(self, company: str, agent_id: str) -> frozenset[str]:
        """Return the memories that have places."""
        query = select(core_slots.c.memory_id).where(equals(core_slots, company=company, agent_id=agent_id))
        return frozenset(row["memory_id"] for row in self._database.rows(query)) - {_LOCK}
