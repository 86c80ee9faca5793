"""A run that ends a session, a project or a task."""

from memcore.ledger.run import EndKind
from memcore.maintenance.attempt import Attempt
from memcore.maintenance.cleanup import remove_all
from memcore.maintenance.over import end_filter


async def apply_end(attempt: Attempt, kind: EndKind) -> None:
    """Remove what goes with the end, as far as it was made before the end was asked for.

    Somebody asks for this one: neither the brake nor the hold on what an undo has brought back stands in its way.
    """
    run = attempt.run
    await remove_all(attempt, "ended", end_filter(attempt.view, kind, run.scope_id or "", at=run.planned_at))
