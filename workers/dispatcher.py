"""The bell: tells the night workers that run rows wait for them."""

from collections.abc import Iterable

from celery import Celery

from memcore import ids
from memcore.client.envelopes import Posting
from memcore.client.publisher import Outlet
from memcore.jobs.payloads import (
    CompressPayload,
    EvolvePayload,
    FineTunePayload,
    LessonPayload,
    MaintenancePayload,
    ReindexPayload,
    SynthesisPayload,
)
from memcore.jobs.queues import Queue, TaskName
from memcore.ledger.learning.skill_cycles import Cycle
from memcore.ledger.llm_answers import Synthesis
from memcore.ledger.runs import Run


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
        self._ring(TaskName.MAINTAIN, [_posting(run) for run in runs])

    def ring_parts(self, parts: Iterable[Synthesis]) -> None:
        """Send the jobs that ask a model about parts of nights; a lost one is sent again by its night.

        Raises:
            MemoryConnectionError: the broker did not take all of them.
        """
        self._ring(TaskName.SYNTHESIZE, [_part_posting(part) for part in parts])

    def ring_experience(self, company: str, agent_ids: Iterable[str]) -> None:
        """Send the jobs that compress agents' experience; a lost one is sent again by the agent's next night.

        Raises:
            MemoryConnectionError: the broker did not take all of them.
        """
        self._ring(TaskName.COMPRESS, [_experience_posting(company, agent_id) for agent_id in agent_ids])

    def ring_lessons(self, lessons: Iterable[LessonPayload]) -> None:
        """Send the jobs that draw lessons; a lost one is sent again by the sweep.

        Raises:
            MemoryConnectionError: the broker did not take all of them.
        """
        self._ring(TaskName.DRAW, [_lesson_posting(lesson) for lesson in lessons])

    def ring_cycles(self, company: str, cycles: Iterable[Cycle]) -> None:
        """Send the jobs that carry out cycles of the skill evolver; a lost one is sent again by the sweep.

        Raises:
            MemoryConnectionError: the broker did not take all of them.
        """
        self._ring(TaskName.EVOLVE, [_cycle_posting(company, cycle) for cycle in cycles])

    def ring_reindex(self, company: str) -> None:
        """Send the job that carries the company's reindex on; the sweep sends a lost one again.

        Raises:
            MemoryConnectionError: the broker did not take it.
        """
        self._ring(TaskName.REINDEX, [reindex_posting(company)])

    def ring_finetune(self, company: str, run_id: str) -> None:
        """Send the job that carries a fine-tune run on; the sweep sends a lost one again.

        Raises:
            MemoryConnectionError: the broker did not take it.
        """
        self._ring(TaskName.FINETUNE, [finetune_posting(company, run_id)])

    def _ring(self, name: TaskName, postings: list[Posting]) -> None:
        if postings:  # most ticks have nobody to ring for, and need no connection
            self._outlet.publish(name, postings, track=True)


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


def _part_posting(part: Synthesis) -> Posting:
    payload = SynthesisPayload(company=part.company, agent_id=part.agent_id, run_id=part.run_id, place=part.place)
    return Posting(
        job_id=f"{part.run_id}.{part.place}",
        queue=str(Queue.SYNTHESIS),
        payload=payload.model_dump_json(),
        summary=f"part {part.place} of a night of {part.agent_id}",
    )


def _experience_posting(company: str, agent_id: str) -> Posting:
    return Posting(
        job_id=ids.new_id(),
        queue=str(Queue.SYNTHESIS),
        payload=CompressPayload(company=company, agent_id=agent_id).model_dump_json(),
        summary=f"experience of {agent_id}",
    )


def _lesson_posting(lesson: LessonPayload) -> Posting:
    return Posting(
        job_id=ids.new_id(),
        queue=str(Queue.SYNTHESIS),
        payload=lesson.model_dump_json(),
        summary=f"a lesson of {lesson.agent_id}",
    )


def _cycle_posting(company: str, cycle: Cycle) -> Posting:
    payload = EvolvePayload(company=company, cycle_id=cycle.cycle_id, origin=cycle.origin, planned_at=cycle.planned_at)
    return Posting(
        job_id=cycle.cycle_id,
        queue=str(Queue.SKILLS),
        payload=payload.model_dump_json(),
        summary="a cycle of the skill evolver",
    )


def reindex_posting(company: str) -> Posting:
    """Return the message of a slice of a company's reindex."""
    return Posting(
        job_id=ids.new_id(),
        queue=str(Queue.REINDEX),
        payload=ReindexPayload(company=company).model_dump_json(),
        summary="a slice of the reindex",
    )


def finetune_posting(company: str, run_id: str) -> Posting:
    """Return the message of a fine-tune run's next stage."""
    return Posting(
        job_id=ids.new_id(),
        queue=str(Queue.FINETUNE),
        payload=FineTunePayload(company=company, run_id=run_id).model_dump_json(),
        summary="a stage of a fine-tune run",
    )
