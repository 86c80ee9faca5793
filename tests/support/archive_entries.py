"""Entries of an archive, for tests."""

from datetime import UTC, datetime, timedelta

from memcore.models.archival import ArchivalEntry, ArchivalMode
from memcore.models.memory import MemoryCategory, MemoryMetadata

#: Creation time of a test's first memory; the n-th is n days younger.
DAWN = datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)


def entry(
    number: int,
    content: str,
    *,
    agent_id: str = "ada",
    category: MemoryCategory = MemoryCategory.SEMANTIC,
    tags: tuple[str, ...] = (),
    mode: ArchivalMode = ArchivalMode.EXTRACTIVE,
    days_kept: int = 100,
) -> ArchivalEntry:
    made = DAWN + timedelta(days=number)
    return ArchivalEntry(
        original_id=f"m{number}",
        agent_id=agent_id,
        content=content,
        category=category,
        metadata=MemoryMetadata(source="test", confidence=0.5, tags=tags),
        created_at=made,
        archived_at=made + timedelta(days=days_kept),
        archival_mode=mode,
    )
