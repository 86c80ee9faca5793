"""The dispatcher: publishes jobs for ledger rows that are ready (runs, questions, lessons, cycles, stages)."""

from collections.abc import Iterable

from celery import Celery

from memcore import ids
from memcore.client.envelopes import OutgoingJob
from memcore.client.publisher import Publisher
from memcore.jobs.payloads import (
    CompressPayload,
    EvolvePayload,
    FineTunePayload,
    LessonPayload,
    MaintenancePayload,
    Queue,
    ReindexPayload,
    SynthesisPayload,
    TaskName,
)
from memcore.ledger.learning.skill_cycles import Cycle
from memcore.ledger.llm_answers import Synthesis
from memcore.ledger.runs import Run


class BrokerDispatcher:
    """Publishes jobs over the broker; a lost message costs time, not work: the sweep dispatches its row again."""

    def __init__(self, app: Celery) -> None:
        """Publish through this app's broker."""
        self._publisher = Publisher(app)

    def dispatch_runs(self, runs: Iterable[Run]) -> None:
        """Send the messages of runs whose rows are committed, a thousand in one round trip."""
        self._dispatch(TaskName.MAINTAIN, [_run_job(run) for run in runs])

    def dispatch_syntheses(self, parts: Iterable[Synthesis]) -> None:
        """Send the jobs that ask a model about parts of runs."""
        self._dispatch(TaskName.SYNTHESIZE, [_synthesis_job(part) for part in parts])

    def dispatch_compression(self, company: str, agent_ids: Iterable[str]) -> None:
        """Send the jobs that compress agents' experience."""
        self._dispatch(TaskName.COMPRESS, [_compression_job(company, agent_id) for agent_id in agent_ids])

    def dispatch_lessons(self, lessons: Iterable[LessonPayload]) -> None:
        """Send the jobs that draw lessons."""
        self._dispatch(TaskName.DRAW, [_lesson_job(lesson) for lesson in lessons])

    def dispatch_skill_cycles(self, company: str, cycles: Iterable[Cycle]) -> None:
        """Send the jobs that carry out cycles of the skill evolver."""
        self._dispatch(TaskName.EVOLVE, [_cycle_job(company, cycle) for cycle in cycles])

    def dispatch_reindex(self, company: str) -> None:
        """Send the job that carries the company's reindex on."""
        self._dispatch(TaskName.REINDEX, [reindex_job(company)])

    def dispatch_finetune(self, company: str, run_id: str) -> None:
        """Send the job that carries a fine-tune run on."""
        self._dispatch(TaskName.FINETUNE, [finetune_job(company, run_id)])

    def _dispatch(self, name: TaskName, outgoing_jobs: list[OutgoingJob]) -> None:
        if outgoing_jobs:  # most ticks have nothing to dispatch, and need no connection
            self._publisher.publish(name, outgoing_jobs, track=True)


def _run_job(run: Run) -> OutgoingJob:
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
    return OutgoingJob(
        job_id=run.run_id,
        queue=str(Queue.MAINTENANCE),
        payload=payload.model_dump_json(),
        summary=f"{run.kind} of {run.agent_id}",
    )


def _synthesis_job(part: Synthesis) -> OutgoingJob:
    payload = SynthesisPayload(company=part.company, agent_id=part.agent_id, run_id=part.run_id, place=part.place)
    return OutgoingJob(
        job_id=f"{part.run_id}.{part.place}",
        queue=str(Queue.SYNTHESIS),
        payload=payload.model_dump_json(),
        summary=f"part {part.place} of a run of {part.agent_id}",
    )


def _compression_job(company: str, agent_id: str) -> OutgoingJob:
    return OutgoingJob(
        job_id=ids.new_id(),
        queue=str(Queue.SYNTHESIS),
        payload=CompressPayload(company=company, agent_id=agent_id).model_dump_json(),
        summary=f"experience of {agent_id}",
    )


def _lesson_job(lesson: LessonPayload) -> OutgoingJob:
    return OutgoingJob(
        job_id=ids.new_id(),
        queue=str(Queue.SYNTHESIS),
        payload=lesson.model_dump_json(),
        summary=f"a lesson of {lesson.agent_id}",
    )


def _cycle_job(company: str, cycle: Cycle) -> OutgoingJob:
    payload = EvolvePayload(company=company, cycle_id=cycle.cycle_id, origin=cycle.origin, planned_at=cycle.planned_at)
    return OutgoingJob(
        job_id=cycle.cycle_id,
        queue=str(Queue.SKILLS),
        payload=payload.model_dump_json(),
        summary="a cycle of the skill evolver",
    )


def reindex_job(company: str) -> OutgoingJob:
    """Return the message of a slice of a company's reindex."""
    return OutgoingJob(
        job_id=ids.new_id(),
        queue=str(Queue.REINDEX),
        payload=ReindexPayload(company=company).model_dump_json(),
        summary="a slice of the reindex",
    )


def finetune_job(company: str, run_id: str) -> OutgoingJob:
    """Return the message of a fine-tune run's next stage."""
    return OutgoingJob(
        job_id=ids.new_id(),
        queue=str(Queue.FINETUNE),
        payload=FineTunePayload(company=company, run_id=run_id).model_dump_json(),
        summary="a stage of a fine-tune run",
    )
