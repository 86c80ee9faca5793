"""Memories for tests, and a clock that stands still."""

import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from memcore.models.memory import MemoryCategory, MemoryEntry, MemoryMetadata
from memcore.records import ArchivedCopy, Lineage, MemoryRecord, Vectors

#: When the tests' memories begin; the microseconds are odd on purpose.
DAWN = datetime(2026, 3, 1, 8, 30, 15, 123457, tzinfo=UTC)

#: The time at which tests begin to ask.
NOW = DAWN + timedelta(days=200)


@dataclass
class StoppedClock:
    """A clock that a test sets."""

    now: datetime = field(default=NOW)

    def __call__(self) -> datetime:
        return self.now


def new_agent(name: str = "agent") -> str:
    """Return an agent id that no other test uses, so that tests can share a store."""
    return f"{name}-{uuid.uuid4()}"


def record(
    agent_id: str,
    content: str = "the printer on the second floor jams on Mondays",
    *,
    memory_id: str | None = None,
    created_at: datetime = DAWN,
    category: MemoryCategory = MemoryCategory.SEMANTIC,
    namespace: str = "default",
    tags: tuple[str, ...] = (),
    expires_at: datetime | None = None,
    lineage: Lineage | None = None,
    vectors: Vectors | None = None,
    extra: dict[str, Any] | None = None,
) -> MemoryRecord:
    """Return a record; only its owner must be said."""
    entry = MemoryEntry(
        id=memory_id or str(uuid.uuid4()),
        agent_id=agent_id,
        namespace=namespace,
        category=category,
        content=content,
        metadata=MemoryMetadata(tags=tags),
        created_at=created_at,
        expires_at=expires_at,
    )
    return MemoryRecord(entry=entry, lineage=lineage or Lineage(), vectors=vectors, extra=extra or {})


def records(agent_id: str, number: int, *, apart: timedelta = timedelta(microseconds=1)) -> list[MemoryRecord]:
    """Return that many records, each later than the one before."""
    return [record(agent_id, f"note number {i}", created_at=DAWN + i * apart) for i in range(number)]


def copied(archived: MemoryRecord, summary_id: str) -> ArchivedCopy:
    """Return the copy of an archived memory under a summary."""
    archival_id = str(uuid.uuid5(uuid.UUID(archived.entry.id), "archived"))
    return ArchivedCopy(archival_id=archival_id, summary_id=summary_id, record=archived)
