"""The capture of a trace: three writes in a fixed order, each of them once, however often the message comes."""

from collections.abc import Callable

from memcore.clock import Clock, utc_now
from memcore.config.procedural import ProceduralMemoryConfig
from memcore.distillation.raw_experience import experience_of
from memcore.distillation.request import DistillationRequest
from memcore.intake import Written
from memcore.jobs.distill_payload import DistillPayload
from memcore.jobs.outcomes import Dead, Done, Outcome, Skipped
from memcore.jobs.payloads import StoreItem
from memcore.ledger.ledger import Ledger
from memcore.ledger.trajectory import Trajectory
from memcore.levels import experience_refusal, refusal
from memcore.models import MemoryLevel
from memcore.procedural.execution import is_failure
from memcore.procedural.strategy import takes


class Capture:
    """Write what a trace leaves behind: the raw experience, then the memory, then the trajectory.

    The trajectory comes last and says that all is there: a message that comes again finds it and writes nothing. After
    a crash before it, the next attempt finds what there is by its id and writes the rest.

    A task that teaches has the row of its lesson in the trajectory's own transaction, so that none is forgotten; the
    lesson itself is drawn by another job.

    What is learned from a task outlives its session and its project. So agents of the levels session and project get
    the memory alone, which ends with them like any other; agents of level none get nothing.

    Args:
        ledger: where experiences and trajectories are kept.
        store: writes a memory as a store job does, and says what became of it.
        level: the level of agents that have none of their own.
        procedural: which tasks teach; None when nobody could draw a lesson.
        clock: the time.
    """

    def __init__(
        self,
        ledger: Ledger,
        store: Callable[[StoreItem], Written],
        *,
        level: MemoryLevel,
        procedural: ProceduralMemoryConfig | None = None,
        clock: Clock = utc_now,
    ) -> None:
        self._ledger = ledger
        self._store = store
        self._level = level
        self._procedural = procedural
        self._clock = clock

    def take(self, job: DistillPayload) -> Outcome:
        """Write what is not there yet.

        Returns:
            Done: all is there; the facts count what was written now, "lessons" being rows of lessons to be drawn.
            Skipped: the agent's level keeps nothing.
            Dead: the session or project is missing that the agent's level asks for.

        Raises:
            MemoryError: a write failed; taking the same payload again goes on where it stopped.
        """
        level = self._ledger.agents.levels(job.company, [job.agent_id]).get(job.agent_id, self._level)
        if level is MemoryLevel.NONE:
            return Skipped(reason="level none: nothing is kept for this agent")
        if self._ledger.trajectories.get(job.company, job.trace_id) is not None:
            return Done(facts={"known": 1})
        outlives = experience_refusal(level) is None
        counts = {"experiences": int(outlives and self._keep_experience(job))}
        written = self._store(_memory(job))
        for field in written.refused.values():
            return Dead(reason=f"{field}: {refusal(field)}")
        counts["memories"] = len(written.stored)
        made = Trajectory.of(job.trace, trace_id=job.trace_id, agent_id=job.agent_id)
        lesson_at = self._clock() if self._teaches(made) else None
        counts["trajectories"] = int(
            outlives and self._ledger.trajectories.append(job.company, made, lesson_at=lesson_at)
        )
        if lesson_at is not None:
            counts["lessons"] = counts["trajectories"]
        return Done(facts=counts)

    def _keep_experience(self, job: DistillPayload) -> bool:
        made = experience_of(job.trace, trace_id=job.trace_id, agent_id=job.agent_id)
        return self._ledger.experiences.append(job.company, made)

    def _teaches(self, trajectory: Trajectory) -> bool:
        config = self._procedural
        return config is not None and config.enabled and takes(config.capture, is_failure=is_failure(trajectory))


def _memory(job: DistillPayload) -> StoreItem:
    return StoreItem(
        id=job.trace_id,
        agent_id=job.agent_id,
        request=DistillationRequest.of(job.trace, agent_id=job.agent_id).store_request(),
        created_at=job.trace.ended_at,
        sent_at=job.sent_at,
        session_id=job.session_id,
        project_id=job.project_id,
        task_id=job.trace.task_id,
    )
