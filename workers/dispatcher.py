"""The dispatcher: publishes jobs for ledger rows that are ready (runs, questions, lessons, cycles, stages)."""

from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter

from celery import Celery

from memcore import ids
from memcore.client.envelopes import OutgoingJob
from memcore.client.publisher import Publisher
from memcore.jobs import CompressPayload, Payload
from memcore.ledger.work_items import WorkItem


class BrokerDispatcher:
    """Publishes jobs over the broker; a lost message costs time, not work: the sweep dispatches its row again."""

    def __init__(self, app: Celery) -> None:
        self._publisher = Publisher(app)

    def dispatch_compression(self, company: str, agent_ids: Iterable[str]) -> None:
        jobs = (
            (ids.new_id(), CompressPayload(company=company, agent_id=agent_id), f"experience of {agent_id}")
            for agent_id in agent_ids
        )
        self._dispatch(CompressPayload, jobs)

    def dispatch(self, items: Iterable[WorkItem]) -> None:
        for kind, of_kind in groupby(sorted(items, key=attrgetter("kind")), key=attrgetter("kind")):
            outgoing_jobs = [
                OutgoingJob(
                    job_id=item.key,
                    queue=item.queue,
                    payload=item.payload,
                    summary=f"work of {item.agent_id or 'the company'}",
                )
                for item in of_kind
                if item.queue is not None and item.payload is not None
            ]
            self._publisher.publish(kind, outgoing_jobs, track=True)

    def _dispatch(self, kind: type[Payload], jobs: Iterable[tuple[str, Payload, str]]) -> None:
        """Publish jobs of one kind: id, payload, and what monitoring shows of it."""
        queue = str(kind.queue)
        outgoing_jobs = [
            OutgoingJob(job_id=job_id, queue=queue, payload=payload.model_dump_json(), summary=summary)
            for job_id, payload, summary in jobs
        ]
        if outgoing_jobs:  # most ticks have nothing to dispatch, and need no connection
            self._publisher.publish(kind.task, outgoing_jobs, track=True)
