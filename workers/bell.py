"""The bell: tells the night workers that run rows wait for them."""

from collections.abc import Iterable

from celery import Celery

from memcore.client.outlet import Outlet
from memcore.client.posting import Posting
from memcore.jobs.names import TaskName
from memcore.jobs.payloads import MaintenancePayload
from memcore.jobs.queues import Queue
from memcore.ledger.run import Run


class BrokerBell:
    """Rings by sending the runs' messages; losing one costs time, not work, since the sweep rings again."""

    def __init__(self, app: Celery) -> None:
        """Ring through this app's broker."""
        self._outlet = Outlet(app)

    def ring_many(self, runs: Iterable[Run]) -> None:
        """Send the messages of runs whose rows are committed, a thousand in one round trip.

        Raises:
            MemoryConnectionError: the broker did not take all of them.
        """
        postings = [_posting(run) for run in runs]
        if postings:  # most ticks have nobody to ring for, and need no connection
            self._outlet.publish(TaskName.MAINTAIN, postings, track=True)


def _posting(run: Run) -> Posting:
    payload = MaintenancePayload(
        company=run.company,
        agent_id=run.agent_id,
        run_id=run.run_id,
        kind=run.kind,
        origin=run.origin,
        planned_at=run.planned_at,
        undo_of=run.undo_of,
        allow_large=run.allow_large,
        scope_id=run.scope_id,
    )
    return Posting(
        job_id=run.run_id,
        queue=str(Queue.MAINTENANCE),
        payload=payload.model_dump_json(),
        summary=f"{run.kind} of {run.agent_id}",
    )
