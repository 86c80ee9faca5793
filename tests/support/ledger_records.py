"""What the ledger's tests share: a clock that stands still, records and entries, databases that are thrown away."""

import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Engine, create_engine, exists, literal, make_url, select, text, union_all
from sqlalchemy.pool import NullPool

from memcore import ids
from memcore.config.urls import LedgerUrls
from memcore.embedding.bm25 import SparseVector
from memcore.jobs import SynthesisPayload
from memcore.ledger import tables
from memcore.ledger.database import record_of
from memcore.ledger.journal import EntryReason, IncomingKind, JournalEntry
from memcore.ledger.learning import lessons
from memcore.ledger.learning.lessons import Lesson
from memcore.ledger.learning.skill_cycles import Cycle
from memcore.ledger.ledger import Ledger
from memcore.models.archival import ArchivalIndexEntry
from memcore.models.memory import MemoryCategory, MemoryEntry
from memcore.records import Lineage, MemoryRecord, Vectors

#: Every test's company.
COMPANY = "acme"


class StoppedClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, by: timedelta) -> datetime:
        self.now += by
        return self.now


def sqlite_urls(folder: Path) -> LedgerUrls:
    return LedgerUrls(ledger=f"sqlite:///{folder / 'ledger.db'}", journal=f"sqlite:///{folder / 'journal.db'}")


def copied_urls(template: Path, folder: Path) -> LedgerUrls:
    """Copy migrated, empty ledger files into a folder: migrating anew takes as long as many tests."""
    shutil.copytree(template, folder, dirs_exist_ok=True)
    return sqlite_urls(folder)


@contextmanager
def postgres_database(server_url: str) -> Iterator[str]:
    """Create a database of one's own on the server, yield its URL, drop it."""
    server = make_url(server_url).set(drivername="postgresql+psycopg")
    name = f"memtend_test_{uuid.uuid4().hex}"
    # No connection is kept: the server may be crashed meanwhile.
    admin = create_engine(server, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with admin.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    try:
        yield server.set(database=name).render_as_string(hide_password=False)
    finally:
        with admin.connect() as connection:
            connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
        admin.dispose()


#: Asks which tables of a ledger hold a row.
_FILLED = union_all(
    *(
        select(literal(table.name)).where(exists(select(literal(1)).select_from(table)))
        for table in (*tables.metadata.sorted_tables, *tables.journal_metadata.sorted_tables)
    )
)


def empty(engine: Engine) -> None:
    """Take every row out of a ledger on PostgreSQL, whose TRUNCATE takes long: each table gets new files."""
    with engine.begin() as connection:
        if filled := connection.scalars(_FILLED).all():
            connection.execute(text(f"TRUNCATE {', '.join(filled)} CASCADE"))


def archived_by(ledger: Ledger, run_id: str) -> tuple[ArchivalIndexEntry, ...]:
    """Return where the memories lie that a run archived, also those that came back since."""
    query = select(tables.archive).where(tables.archive.c.run_id == run_id)
    return tuple(record_of(ArchivalIndexEntry, row) for row in ledger.archive._database.rows(query))


def open_lesson(ledger: Ledger, company: str, agent_id: str, lesson_id: str) -> bool:
    """Insert the lesson of a task without its trajectory."""
    with ledger.lessons._database.write() as connection:
        return lessons.open_lesson(connection, company, agent_id, lesson_id, at=ledger.lessons._clock())


def finish_lesson(ledger: Ledger, company: str, lesson_id: str, outcome: str, **drawn: Any) -> Lesson:
    """Claim a lesson, and save its outcome."""
    claimed = ledger.lessons.claim(company, lesson_id, lease=timedelta(minutes=1))
    assert claimed is not None
    assert claimed.token is not None
    return ledger.lessons.finish(company, lesson_id, claimed.token, outcome, **drawn)


def places_due(ledger: Ledger, run_id: str, *, company: str = COMPANY) -> list[int]:
    """Return the parts of a run whose messages are due, as dispatched now."""
    due = (each for each in ledger.work.take_due(company=company, limit=999) if each.kind == SynthesisPayload.task)
    payloads = [SynthesisPayload.model_validate_json(each.payload or "") for each in due]
    return sorted(each.place for each in payloads if each.run_id == run_id)


def make_record(memory_id: str, *, agent_id: str = "ada", at: datetime | None = None) -> MemoryRecord:
    entry = MemoryEntry(
        id=memory_id,
        agent_id=agent_id,
        category=MemoryCategory.SEMANTIC,
        content=f"About {memory_id}: naïve café, 日本\x00",
        created_at=at or StoppedClock().now,
    )
    sparse = SparseVector(indices=(3, 4_294_967_295), values=(0.1, 1 / 3))
    return MemoryRecord(
        entry=entry,
        lineage=Lineage(session_id="s", summary_of=("x", "y"), depth=1),
        vectors=Vectors(dense=np.linspace(-1, 1, 8, dtype=np.float32), sparse=sparse),
        extra={"stock": {"a": [1, None]}},
    )


def make_fact(content: str, *, agent_id: str = "ada", company: str = COMPANY) -> MemoryRecord:
    """Return what an agent publishes for all."""
    memory_id = ids.fact_id(
        company=company, agent_id=agent_id, category="semantic", namespace="default", content=content, source=None
    )
    entry = MemoryEntry(
        id=memory_id,
        agent_id=agent_id,
        category=MemoryCategory.SEMANTIC,
        content=content,
        created_at=StoppedClock().now,
    )
    return MemoryRecord(entry=entry)


def make_journal_entry(
    booking_id: str,
    *,
    run_id: str = "run",
    agent_id: str = "ada",
    seq: int = 0,
    incoming: tuple[str, ...] = (),
    outgoing: tuple[str, ...] = (),
    incoming_kind: IncomingKind = "created",
    reason: EntryReason = "consolidated",
) -> JournalEntry:
    return JournalEntry(
        booking_id=booking_id,
        run_id=run_id,
        company=COMPANY,
        agent_id=agent_id,
        seq=seq,
        reason=reason,
        incoming=tuple(make_record(memory_id, agent_id=agent_id) for memory_id in incoming),
        incoming_kind=incoming_kind,
        outgoing=tuple(make_record(memory_id, agent_id=agent_id) for memory_id in outgoing),
    )


def same_record(left: MemoryRecord, right: MemoryRecord) -> bool:
    """Compare every bit, which == does not do for arrays."""
    if (left.entry, left.lineage, left.extra) != (right.entry, right.lineage, right.extra):
        return False
    if left.vectors is None or right.vectors is None:
        return left.vectors is right.vectors
    dense = left.vectors.dense.tobytes() == right.vectors.dense.tobytes()
    return (
        dense and left.vectors.dense.dtype == right.vectors.dense.dtype and left.vectors.sparse == right.vectors.sparse
    )


def finish_cycle(ledger: Ledger, company: str, cycle_id: str, report: dict[str, Any]) -> Cycle:
    """Claim a cycle of the evolver, and finish it."""
    claimed = ledger.skill_cycles.claim(company, cycle_id, lease=timedelta(minutes=1))
    assert claimed is not None
    assert claimed.token is not None
    return ledger.skill_cycles.finish(company, cycle_id, claimed.token, report)
