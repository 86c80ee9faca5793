"""Runs on request: the end of a session, project or task, the removal of a memory, and a restore."""

import logging
from datetime import timedelta

from memcore.errors import MemoryInputError
from memcore.ledger.journal import Journal
from memcore.ledger.ledger import Ledger
from memcore.ledger.runs import EndKind
from memcore.maintenance.context import RunContext
from memcore.maintenance.events import MaintenanceEvent
from memcore.maintenance.retention import remove_all
from memcore.maintenance.rules import MOMENT, end_filter
from memcore.records import Where


async def apply_end(run_context: RunContext, kind: EndKind) -> None:
    """Remove the memories that end with the scope and were made before the end was requested.

    A person or engine requests it, so neither the removal guard nor the hold of an undo applies.
    """
    run = run_context.run
    await remove_all(
        run_context, "ended", end_filter(run_context.snapshot, kind, run.scope_id or "", at=run.planned_at)
    )


async def apply_removal(run_context: RunContext, journal: Journal) -> str | None:
    """Remove the memory ``scope_id``, whatever its rules; one that was stored anew since stays.

    Only the journal keeps it, not the archive: once its entry expires, the memory is gone.

    Returns:
        One sentence why nothing was done; None when it was removed.
    """
    run = run_context.run
    if journal.next_seq(run.run_id):
        # An earlier attempt decided, and the journaled store has executed it.
        return None
    before = run.planned_at + MOMENT
    where = Where(agent_id=run.agent_id, ids=frozenset({run.scope_id or ""}), created_before=before)
    entry_counts = await run_context.journaled_store.remove(where, reason="deleted")
    return None if entry_counts.outgoing else f"memory {run.scope_id} is not there any more"


_log = logging.getLogger(__name__)


async def apply_restore(run_context: RunContext, ledger: Ledger) -> str | None:
    """Restore the memory ``scope_id``, an archival id or its own id, and protect it from the next runs.

    It returns with its id, namespace, times, expiry, metadata and lineage, and with its vectors if the store's embedder
    has not changed since; else it is embedded anew. The summary that replaced it stays.

    Returns:
        One sentence why nothing was done; None when it was brought back.

    Raises:
        MemoryInputError: the agent's archive has no such memory, or it was restored before and removed since.
    """
    run, snapshot = run_context.run, run_context.snapshot
    if ledger.journal.next_seq(run.run_id):
        # An earlier attempt decided, and the journaled store has executed it.
        return None
    archived = ledger.archive.find(run.company, run.agent_id, run.scope_id or "")
    if archived is None:
        raise MemoryInputError("scope_id", "names no archived memory of this agent")
    memory_id = archived.original_id
    if await snapshot.backend.get_many(run.agent_id, [memory_id]):
        return f"memory {memory_id} stands in the store already"
    if archived.returned_at is not None:
        raise MemoryInputError(
            "scope_id", "names a memory that came back from the archive before and was removed since; see its runs"
        )
    until = snapshot.now + timedelta(days=snapshot.policy.restored_hold_days)
    ledger.journal.hold(run.company, run.agent_id, [memory_id], until=until)
    await run_context.journaled_store.restore_removed(archived.record_for(snapshot.backend.vector_space))
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
