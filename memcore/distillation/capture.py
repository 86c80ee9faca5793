"""The capture of a trace: three writes in a fixed order, each of them once, however often the message comes."""

from collections.abc import Callable

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


class Capture:
    """Write what a trace leaves behind: the raw experience, then the memory, then the trajectory.

    The trajectory comes last and says that all is there: a message that comes again finds it and writes nothing. After
    a crash before it, the next attempt finds what there is by its id and writes the rest.

    What is learned from a task outlives its session and its project. So agents of the levels session and project get
    the memory alone, which ends with them like any other; agents of level none get nothing.

    Args:
        ledger: where experiences and trajectories are kept.
        store: writes a memory as a store job does, and says what became of it.
        level: the level of agents that have none of their own.
    """

    def __init__(self, ledger: Ledger, store: Callable[[StoreItem], Written], *, level: MemoryLevel) -> None:
        self._ledger = ledger
        self._store = store
        self._level = level

    def take(self, job: DistillPayload) -> Outcome:
        """Write what is not there yet.

        Returns:
            Done: all is there; the facts count what was written now.
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
        counts["trajectories"] = int(outlives and self._keep_trajectory(job))
        return Done(facts=counts)

    def _keep_experience(self, job: DistillPayload) -> bool:
        made = experience_of(job.trace, trace_id=job.trace_id, agent_id=job.agent_id)
        return self._ledger.experiences.append(job.company, made)

    def _keep_trajectory(self, job: DistillPayload) -> bool:
        made = Trajectory.of(job.trace, trace_id=job.trace_id, agent_id=job.agent_id)
        return self._ledger.trajectories.append(job.company, made)


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
