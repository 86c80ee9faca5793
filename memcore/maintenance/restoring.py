"""A run that brings one memory back from the archive."""

import logging
from datetime import timedelta

from memcore.errors import MemoryInputError
from memcore.ledger.ledger import Ledger
from memcore.maintenance.attempt import Attempt
from memcore.maintenance.events import MaintenanceEvent

_log = logging.getLogger(__name__)


async def apply_restore(attempt: Attempt, ledger: Ledger) -> str | None:
    """Bring back the memory named by ``scope_id``, an archival id or its own id, and hold it from the next nights.

    It returns with its id, namespace, times, expiry, metadata and lineage, and with its vectors if the store's embedder
    has not changed since; else it is embedded anew. The summary that stands for it stays.

    Returns:
        Why nothing was to be done, in one sentence; None when it was brought back.

    Raises:
        MemoryInputError: nothing of that name is in the agent's archive, or it came back before and was removed since.
    """
    run, view = attempt.run, attempt.view
    if ledger.journal.next_seq(run.run_id):
        # An earlier attempt decided, and the bookkeeper has carried that out.
        return None
    archived = ledger.archive.find(run.company, run.agent_id, run.scope_id or "")
    if archived is None:
        raise MemoryInputError("scope_id", "names no archived memory of this agent")
    memory_id = archived.original_id
    if await view.backend.get_many(run.agent_id, [memory_id]):
        return f"memory {memory_id} stands in the store already"
    if archived.returned_at is not None:
        raise MemoryInputError(
            "scope_id", "names a memory that came back from the archive before and was removed since; see its runs"
        )
    until = view.now + timedelta(days=view.policy.restored_hold_days)
    ledger.journal.hold(run.company, run.agent_id, [memory_id], until=until)
    await attempt.books.bring_back(archived.record_for(view.backend.vector_space))
    _log.info(
        MaintenanceEvent.RESTORED,
        extra={
            "agent_id": run.agent_id,
            "run_id": run.run_id,
            "memory_id": memory_id,
            "archival_id": archived.archival_id,
        },
    )
    return None
