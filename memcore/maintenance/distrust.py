"""Brings back what a person asks for: an archived memory, or what merges with distrusted memories have taken."""

from memcore.ledger.access.distrusts import Distrust
from memcore.ledger.erasure.reach import reach_of
from memcore.ledger.ledger import Ledger
from memcore.maintenance.removals import MAX_ENTRY, JournaledStore
from memcore.maintenance.undo import apply_restore, hold_back
from memcore.records import MemoryRecord


async def bring_back(store: JournaledStore, ledger: Ledger) -> str | None:
    """Bring back the memory ``scope_id``, as ``apply_restore`` does, or what a distrust of this id has to give back.

    Returns one sentence why nothing was done; None when something was brought back.
    """
    distrust = ledger.distrusts.find(store.run.company, store.run.scope_id or "")
    return await apply_restore(store, ledger) if distrust is None else await _restore_clean(store, ledger, distrust)


async def _restore_clean(store: JournaledStore, ledger: Ledger, distrust: Distrust) -> str | None:
    """Bring back the clean memories that merges with distrusted ones have taken, and protect them from the next runs.

    They are as they were; the merged memories stay, and nobody is shown them. An attempt goes on where the last one
    stopped: what is back is not gone any more.
    """
    run, journal = store.run, ledger.journal
    if distrust.lifted_at is not None:  # a person was faster
        return "it is trusted again"
    reach = reach_of(ledger, run.company, run.agent_id, distrust.rule)
    ledger.distrusts.reach(run.company, distrust.distrust_id, run.agent_id, reach.memory_ids)
    wanted = sorted(reach.taken.keys() - await store.there(sorted(reach.taken)))
    records = [_held(store, ledger, each, reach.taken[each]) for each in wanted]
    back = [each for each in records if each is not None]
    for start in range(0, len(back), MAX_ENTRY):
        some = back[start : start + MAX_ENTRY]
        hold_back(store.snapshot, journal, [each.entry.id for each in some])
        await store.restore_removed(*some, seq=journal.next_seq(run.run_id))
    if journal.next_seq(run.run_id):
        return None
    lost = len(wanted) - len(back)
    return f"{lost} memories are held nowhere any more" if lost else "nothing is left to bring back"


def _held(store: JournaledStore, ledger: Ledger, memory_id: str, booking_id: str) -> MemoryRecord | None:
    """Return a memory as the archive or the journal holds it; None where neither does any more."""
    archived = ledger.archive.find(store.run.company, store.run.agent_id, memory_id)
    if archived is not None:
        return archived.record_for(store.snapshot.backend.vector_space)
    return ledger.lineage.record(booking_id, memory_id)
