"""What a store job does to the store: write what is new, leave what is there, and never raise the dead.

One memory's way: its envelope comes from the queue; ids that a run has removed since it was sent are a late
redelivery and are skipped; the rest are written insert-only; then its agent is known to the scheduler.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from memcore.backends.protocol import BatchBackend
from memcore.backends.record import Lineage, MemoryRecord
from memcore.jobs.payloads import StoreItem
from memcore.ledger.ledger import Ledger
from memcore.models import ConsolidationInterval, MemoryEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What became of a batch.

    Attributes:
        stored: ids that are in the store now (new, or there already).
        buried: ids that a run had removed after they were sent; they stay removed.
    """

    stored: frozenset[str]
    buried: frozenset[str]


class Intake:
    """Write batches of memories for any agents of one company.

    Args:
        backend: where memories live.
        ledger: knows the agents, and the ids that runs removed.
        company: the company that this process serves.
        interval: how often an agent that nobody has set up is maintained.
    """

    def __init__(self, backend: BatchBackend, ledger: Ledger, *, company: str, interval: ConsolidationInterval) -> None:
        self._backend = backend
        self._ledger = ledger
        self._company = company
        self._interval = interval
        self._known: set[str] = set()

    async def write(self, items: Sequence[StoreItem]) -> Written:
        """Write the items; when this returns, they are durable and can be found.

        Raises:
            MemoryStoreError, MemoryConnectionError, MemoryEmbeddingError: nothing is known to be written; writing
                the same items again is harmless.
        """
        sent = {item.id: item.sent_at for item in items}
        buried = self._ledger.journal.buried(sent)
        fresh = [item for item in items if item.id not in buried]
        await self._backend.store_many([_record(item) for item in fresh])
        buried |= await self._rebury(fresh)
        self._register({item.agent_id for item in items})
        return Written(stored=frozenset(sent) - buried, buried=buried)

    async def _rebury(self, items: Sequence[StoreItem]) -> frozenset[str]:
        # A run may have removed one of these ids between the look and the write, which then brought it back.
        buried = self._ledger.journal.buried({item.id: item.sent_at for item in items})
        for agent_id in {item.agent_id for item in items if item.id in buried}:
            ours = {item.id: item.created_at for item in items if item.id in buried and item.agent_id == agent_id}
            found = await self._backend.get_many(agent_id, list(ours))
            # One that was stored anew meanwhile has the same id, and stays.
            risen = [each.entry.id for each in found if each.entry.created_at == ours[each.entry.id]]
            await self._backend.delete_many(agent_id, risen)
        return buried

    def _register(self, agent_ids: set[str]) -> None:
        strangers = agent_ids - self._known
        if strangers:
            self._ledger.agents.register(self._company, sorted(strangers), interval=self._interval)
            self._known |= strangers


def _record(item: StoreItem) -> MemoryRecord:
    request = item.request
    return MemoryRecord(
        entry=MemoryEntry(
            id=item.id,
            agent_id=item.agent_id,
            namespace=request.namespace,
            category=request.category,
            content=request.content,
            metadata=request.metadata,
            created_at=item.created_at,
            expires_at=request.expires_at,
        ),
        lineage=Lineage(session_id=item.session_id, project_id=item.project_id, task_id=item.task_id),
    )
