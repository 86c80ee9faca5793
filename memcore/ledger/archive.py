"""The archive: memories that left the store by consolidation or enforcement, whole, findable, and with an end."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, delete, func, select

from memcore.archival_models import ArchivalIndexEntry, ArchivalMode
from memcore.backends.record import MemoryRecord
from memcore.clock import Clock
from memcore.ledger import archive_rows
from memcore.ledger.agent import checked_time
from memcore.ledger.archive_query import matching
from memcore.ledger.archive_tables import OUT, archive
from memcore.ledger.archived import Archived
from memcore.ledger.engine import Database
from memcore.models import MemoryQuery

#: Entries that go in one transaction: short enough that no run waits for it.
_ENTRIES_PER_REMOVAL = 500


class Archive:
    """What the journal archives, and what becomes of it; every method is one short transaction.

    An entry is out while its memory is not in the store. One whose memory came back is neither found nor counted; it
    is kept as long as an undo may need it, so that what was brought back can go out again.

    Args:
        database: the journal, in which the archive lies.
        clock: what time it is.
    """

    def __init__(self, database: Database, *, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def put(self, company: str, record: MemoryRecord, *, mode: ArchivalMode, archived_at: datetime) -> str:
        """Archive a memory beside any run and return its archival id; doing it again changes nothing."""
        checked_time("archived_at", archived_at)
        cause = archived_at.isoformat()
        shelf = archive_rows.shelf([(record, mode)], company=company, cause=cause, at=archived_at)
        with self._database.write() as connection:
            archive_rows.put(connection, shelf)
        return str(shelf.memories[0]["archival_id"])

    def find(self, company: str, agent_id: str, entry_id: str) -> Archived | None:
        """Return an entry by its archival id or, the last one archived, by the memory's own id; None for a stranger's.

        An entry whose memory came back is found too, after those that are out.
        """
        mine = select(archive).where(_of(company, agent_id))
        by_memory = mine.where(archive.c.original_id == entry_id)
        by_memory = by_memory.order_by(OUT.desc(), archive.c.archived_at.desc(), archive.c.archival_id).limit(1)
        with self._database.read() as connection:
            # One after the other: for both at once SQLite reads all that the agent has.
            row = connection.execute(mine.where(archive.c.archival_id == entry_id)).mappings().one_or_none()
            row = row or connection.execute(by_memory).mappings().one_or_none()
        return None if row is None else archive_rows.archived_of(row)

    def search(self, company: str, agent_id: str, query: MemoryQuery) -> tuple[Archived, ...]:
        """Return what is out and matches, without vectors: best first by words, else newest first.

        How well a text matches is the sum of the weights of the question's terms in it (memcore.embedding.bm25), as a
        share of the highest sum there can be; ``min_relevance`` is held against that share.
        """
        statement = matching(company, agent_id, query)
        if statement is None:
            return ()
        with self._database.read() as connection:
            return tuple(archive_rows.archived_of(row) for row in connection.execute(statement).mappings())

    def count(self, company: str, agent_id: str) -> int:
        """Return how many of the agent's memories are out."""
        query = select(func.count()).select_from(archive).where(_of(company, agent_id), OUT)
        with self._database.read() as connection:
            return int(connection.execute(query).scalar_one())

    def index_of(self, run_id: str) -> tuple[ArchivalIndexEntry, ...]:
        """Return where the memories lie that a run archived, also those that came back since; by original id."""
        columns = (archive.c.original_id, archive.c.archival_id, archive.c.mode)
        query = select(*columns).where(archive.c.run_id == run_id).order_by(archive.c.original_id)
        with self._database.read() as connection:
            rows = connection.execute(query).all()
        return tuple(
            ArchivalIndexEntry(original_id=original_id, archival_id=archival_id, mode=ArchivalMode(mode))
            for original_id, archival_id, mode in rows
        )

    def archived_by(self, run_id: str) -> int:
        """Return how many memories a run archived."""
        query = select(func.count()).select_from(archive).where(archive.c.run_id == run_id)
        with self._database.read() as connection:
            return int(connection.execute(query).scalar_one())

    def expire(self, company: str, *, returned_before: datetime, before: datetime | None = None) -> int:
        """Drop what a company's archive need not keep, and return how many entries.

        Args:
            company: whose archive.
            returned_before: entries whose memory came back before this time go: no undo needs them.
            before: entries archived before this time go; None keeps them for ever.

        A memory's own expiry holds here too: it was to live no longer.
        """
        checked_time("returned_before", returned_before)
        gone = [archive.c.returned_at < returned_before, archive.c.expires_at <= self._clock()]
        if before is not None:
            checked_time("before", before)
            gone.append(archive.c.archived_at < before)
        # One condition at a time: each has an index of its own, and an OR of them might use none.
        return sum(self._remove((archive.c.company == company) & condition) for condition in gone)

    def delete_agent(self, company: str, agent_id: str) -> int:
        """Drop everything of an agent, also what came back, and return how many entries."""
        return self._remove(_of(company, agent_id))

    def _remove(self, which: ColumnElement[bool]) -> int:
        total = 0
        while found := self._some(which):
            with self._database.write() as connection:
                # Terms and tags go with their entry. What another sweep removed meanwhile is not counted twice.
                total += connection.execute(delete(archive).where(archive.c.archival_id.in_(found), which)).rowcount
        return total

    def _some(self, which: ColumnElement[bool]) -> Sequence[str]:
        query = select(archive.c.archival_id).where(which).limit(_ENTRIES_PER_REMOVAL)
        with self._database.read() as connection:
            return connection.execute(query).scalars().all()


def _of(company: str, agent_id: str) -> ColumnElement[bool]:
    return (archive.c.company == company) & (archive.c.agent_id == agent_id)
