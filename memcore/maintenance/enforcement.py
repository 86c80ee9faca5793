"""The enforcement step: an agent has at most so many memories."""

import logging

from memcore.backends.where import Where
from memcore.maintenance.appraisal import Appraisal
from memcore.maintenance.attempt import Attempt
from memcore.maintenance.chunks import MAX_BOOKING
from memcore.maintenance.events import MaintenanceEvent
from memcore.maintenance.pages import pages
from memcore.maintenance.victims import PROTECTED_FROM_ENFORCEMENT, Victim, lowest

#: Victims chosen in one walk through an agent's memories: under a megabyte, and sixteen bookings.
ROUND_SIZE = 4096

_log = logging.getLogger(__name__)


async def apply_enforcement(attempt: Attempt, value: Appraisal) -> None:
    """Remove exactly the excess over the agent's limit, by the store's own count.

    Memories under a hold are neither counted nor taken: else others, that nobody restored, would go in their stead.
    """
    view = attempt.view
    free = Where(agent_id=view.agent_id, without_ids=view.held)
    removed = 0
    while (excess := await view.backend.count_where(free) - view.terms.max_memories) > 0:
        victims = await lowest(pages(view.backend, free), size=min(excess, ROUND_SIZE), value=value, now=view.now)
        taken = await _remove(attempt, victims)
        if not taken:
            break
        removed += taken
    _log.info(MaintenanceEvent.ENFORCED, extra={"agent_id": view.agent_id, "removed": removed})


async def _remove(attempt: Attempt, victims: tuple[Victim, ...]) -> int:
    removed = 0
    for is_protected in (False, True):
        ids = [victim.id for victim in victims if victim.is_protected is is_protected]
        for start in range(0, len(ids), MAX_BOOKING):
            where = Where(
                agent_id=attempt.view.agent_id,
                ids=frozenset(ids[start : start + MAX_BOOKING]),
                # One that was pinned after it was chosen stays; the next round finds another.
                without_tags=() if is_protected else PROTECTED_FROM_ENFORCEMENT,
            )
            booked = await attempt.books.remove(where, reason="enforced", archive_as=attempt.view.archiving.mode_of)
            removed += booked.outgoing
    return removed
