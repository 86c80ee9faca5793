"""Walking through an agent's memories page by page, so that a large agent costs no more memory than a small one."""

from collections.abc import AsyncIterator

from memcore.backends.protocol import BatchBackend
from memcore.backends.record import MemoryRecord
from memcore.backends.where import Where


async def pages(backend: BatchBackend, where: Where) -> AsyncIterator[tuple[MemoryRecord, ...]]:
    """Yield the matches without vectors, oldest first; what is removed behind the cursor disturbs nothing.

    They are counted first: most walks of a night find nothing, and a count does not look at a single memory.
    """
    if not await backend.count_where(where):
        return
    cursor: str | None = None
    while True:
        page = await backend.scan(where, cursor=cursor)
        if page.records:
            yield page.records
        cursor = page.cursor
        if cursor is None:
            return


async def marked(backend: BatchBackend, agent_id: str, token: str) -> tuple[MemoryRecord, ...]:
    """Return, whole and with vectors, the memories that carry the token, oldest first."""
    where = Where(agent_id=agent_id, token=token)
    found: list[MemoryRecord] = []
    cursor: str | None = None
    while True:
        page = await backend.scan(where, cursor=cursor, with_vectors=True)
        found.extend(page.records)
        cursor = page.cursor
        if cursor is None:
            return tuple(found)
