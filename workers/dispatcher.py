"""The dispatcher: publishes jobs for ledger rows that are ready (runs, questions, lessons, cycles, stages)."""

from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter

from celery import Celery

from memcore.client.envelopes import OutgoingJob
from memcore.client.publisher import Publisher
from memcore.jobs import job_owner
from memcore.ledger.work_items import WorkItem


class BrokerDispatcher:
    """Publishes jobs over the broker; a lost message costs time, not work: the sweep dispatches its row again."""

    def __init__(self, app: Celery) -> None:
        self._publisher = Publisher(app)

    def dispatch(self, items: Iterable[WorkItem]) -> None:
        for kind, of_kind in groupby(sorted(items, key=attrgetter("kind")), key=attrgetter("kind")):
            outgoing_jobs = [
                OutgoingJob(
                    job_id=item.key,
                    queue=item.queue,
                    payload=item.payload,
                    summary=f"work of {item.agent_id or 'the company'}",
                    owner=job_owner(item.company, item.agent_id),
                )
                for item in of_kind
                if item.queue is not None and item.payload is not None
            ]
            self._publisher.publish(kind, outgoing_jobs, track=True)
