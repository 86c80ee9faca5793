"""A whole scan, and the order that it promises."""

from memcore.backends.factory import WorkerBackend
from memcore.records import MemoryRecord, Where


async def scanned(backend: WorkerBackend, where: Where, *, limit: int) -> list[MemoryRecord]:
    """Return all pages of a scan, one after the other."""
    found: list[MemoryRecord] = []
    cursor: str | None = None
    while True:
        page = await backend.scan(where, cursor=cursor, limit=limit)
        assert len(page.records) <= limit
        found += page.records
        cursor = page.cursor
        if cursor is None:
            return found
        assert page.records, "a page with a successor is never empty"


def order(made: list[MemoryRecord]) -> list[str]:
    """Return the ids in the order that a scan promises."""
    return [one.entry.id for one in sorted(made, key=lambda one: (one.entry.created_at, one.entry.id))]
