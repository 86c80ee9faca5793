"""The dispatcher: publishes jobs for ledger rows that are ready (runs, questions, lessons, cycles, stages)."""

from collections.abc import Iterable
from typing import TypeVar

from celery import Celery

from memcore import ids
from memcore.client.envelopes import OutgoingJob
from memcore.client.publisher import Publisher
from memcore.jobs import (
    CompressPayload,
    EvolvePayload,
    FineTunePayload,
    LessonPayload,
    MaintenancePayload,
    Payload,
    ReindexPayload,
    SynthesisPayload,
)
from memcore.ledger.learning.skill_cycles import Cycle
from memcore.ledger.llm_answers import Synthesis
from memcore.ledger.runs import Run

PayloadT = TypeVar("PayloadT", bound=Payload)


class BrokerDispatcher:
    """Publishes jobs over the broker; a lost message costs time, not work: the sweep dispatches its row again."""

    def __init__(self, app: Celery) -> None:
        self._publisher = Publisher(app)

    def dispatch_runs(self, runs: Iterable[Run]) -> None:
        jobs = ((run.run_id, _of_row(MaintenancePayload, run), f"{run.kind} of {run.agent_id}") for run in runs)
        self._dispatch(MaintenancePayload, jobs)

    def dispatch_syntheses(self, parts: Iterable[Synthesis]) -> None:
        jobs = (
            (
                f"{part.run_id}.{part.place}",
                _of_row(SynthesisPayload, part),
                f"part {part.place} of a run of {part.agent_id}",
            )
            for part in parts
        )
        self._dispatch(SynthesisPayload, jobs)

    def dispatch_compression(self, company: str, agent_ids: Iterable[str]) -> None:
        jobs = (
            (ids.new_id(), CompressPayload(company=company, agent_id=agent_id), f"experience of {agent_id}")
            for agent_id in agent_ids
        )
        self._dispatch(CompressPayload, jobs)

    def dispatch_lessons(self, lessons: Iterable[LessonPayload]) -> None:
        self._dispatch(LessonPayload, ((ids.new_id(), lesson, f"a lesson of {lesson.agent_id}") for lesson in lessons))

    def dispatch_skill_cycles(self, company: str, cycles: Iterable[Cycle]) -> None:
        jobs = (
            (
                cycle.cycle_id,
                EvolvePayload(
                    company=company, cycle_id=cycle.cycle_id, origin=cycle.origin, planned_at=cycle.planned_at
                ),
                "a cycle of the skill evolver",
            )
            for cycle in cycles
        )
        self._dispatch(EvolvePayload, jobs)

    def dispatch_reindex(self, company: str) -> None:
        self._dispatch(ReindexPayload, [(ids.new_id(), ReindexPayload(company=company), "a slice of the reindex")])

    def dispatch_finetune(self, company: str, run_id: str) -> None:
        payload = FineTunePayload(company=company, run_id=run_id)
        self._dispatch(FineTunePayload, [(ids.new_id(), payload, "a stage of a fine-tune run")])

    def _dispatch(self, kind: type[Payload], jobs: Iterable[tuple[str, Payload, str]]) -> None:
        """Publish jobs of one kind: id, payload, and what monitoring shows of it."""
        queue = str(kind.queue)
        outgoing_jobs = [
            OutgoingJob(job_id=job_id, queue=queue, payload=payload.model_dump_json(), summary=summary)
            for job_id, payload, summary in jobs
        ]
        if outgoing_jobs:  # most ticks have nothing to dispatch, and need no connection
            self._publisher.publish(kind.task, outgoing_jobs, track=True)


def _of_row(model: type[PayloadT], row: Run | Synthesis) -> PayloadT:
    """Return the payload whose fields are those of a ledger row."""
    return model.model_validate(row, from_attributes=True)
