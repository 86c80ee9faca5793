"""Memories written so that none that was removed rises again, however late its job comes back."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from memcore.backends.protocol import BatchBackend
from memcore.backends.record import MemoryRecord


class Graves(Protocol):
    """Knows which ids were removed: memcore.ledger.journal.Journal."""

    def buried(self, sent: Mapping[str, datetime]) -> frozenset[str]:
        """Return those of the ids that were removed at or after they were sent."""
        ...


async def insert(
    backend: BatchBackend, graves: Graves, records: Sequence[MemoryRecord], *, sent: Mapping[str, datetime]
) -> frozenset[str]:
    """Write the records that are not there yet and return the ids of those that were removed and stay so.

    Args:
        backend: where memories live.
        graves: which were removed.
        records: what is written; the same memory comes with the same ``created_at`` each time.
        sent: when each was sent; a removal before then does not count.

    Raises:
        MemoryStoreError, MemoryConnectionError, MemoryEmbeddingError: nothing is known to be written; writing the
            same records again is harmless.
    """
    buried = graves.buried({each.entry.id: sent[each.entry.id] for each in records})
    fresh = [each for each in records if each.entry.id not in buried]
    await backend.store_many(fresh)
    return buried | await _rebury(backend, graves, fresh, sent=sent)


async def _rebury(
    backend: BatchBackend, graves: Graves, records: Sequence[MemoryRecord], *, sent: Mapping[str, datetime]
) -> frozenset[str]:
    # A run may have removed one of these ids between the look and the write, which then brought it back.
    buried = graves.buried({each.entry.id: sent[each.entry.id] for each in records})
    for agent_id in {each.entry.agent_id for each in records if each.entry.id in buried}:
        ours = {
            each.entry.id: each.entry.created_at
            for each in records
            if each.entry.id in buried and each.entry.agent_id == agent_id
        }
        found = await backend.get_many(agent_id, list(ours))
        # One that was stored anew meanwhile has the same id, and stays.
        risen = [each.entry.id for each in found if each.entry.created_at == ours[each.entry.id]]
        await backend.delete_many(agent_id, risen)
    return buried
