"""A run that removes one memory, on a person's word."""

from memcore.backends.where import Where
from memcore.ledger.journal import Journal
from memcore.maintenance.attempt import Attempt
from memcore.maintenance.over import MOMENT


async def apply_removal(attempt: Attempt, journal: Journal) -> str | None:
    """Remove the memory named by ``scope_id``, whatever its rules; one that was stored anew since stays.

    It goes to the journal, as all that leaves, and not to the archive: once the journal lets go of it, it is gone.

    Returns:
        Why nothing was to be done, in one sentence; None when it was removed.
    """
    run = attempt.run
    if journal.next_seq(run.run_id):
        # An earlier attempt decided, and the bookkeeper has carried that out.
        return None
    before = run.planned_at + MOMENT
    where = Where(agent_id=run.agent_id, ids=frozenset({run.scope_id or ""}), created_before=before)
    booked = await attempt.books.remove(where, reason="deleted")
    return None if booked.outgoing else f"memory {run.scope_id} is not there any more"
