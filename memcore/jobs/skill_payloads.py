"""What travels when a lesson is to be drawn, the evolver is to look, and a skill was applied."""

from typing import Literal

from memcore.clock import BoundedTime
from memcore.jobs.payload import Payload
from memcore.models import AgentId, Key, StoredKey

#: How it went when an agent did as a skill says.
ApplicationOutcome = Literal["success", "failure"]


class LessonPayload(Payload):
    """One task whose lesson waits for a language model.

    Attributes:
        version: the version of this payload.
        agent_id: the agent that did the task.
        lesson_id: the id of the lesson, which is the id of its trajectory.
    """

    version: Literal[1] = 1
    agent_id: StoredKey
    lesson_id: StoredKey


class EvolvePayload(Payload):
    """One cycle of the skill evolver; its row in the ledger is the truth, and is made from this where it is missing.

    Attributes:
        version: the version of this payload.
        cycle_id: deterministic (memcore.ids.cycle_id), from the company and the time.
        origin: who asked for the cycle.
        planned_at: the slot, or the time at which a person asked.
    """

    version: Literal[1] = 1
    cycle_id: Key
    origin: Literal["scheduled", "manual"] = "scheduled"
    planned_at: BoundedTime


class AppliedPayload(Payload):
    """One application of a skill, or of an agent's own lesson.

    Attributes:
        version: the version of this payload.
        agent_id: the agent that applied it.
        application_id: deterministic (memcore.ids.application_id), so that it counts once.
        skill_id: the id under which the agent found it.
        outcome: whether it helped.
        applied_at: when it was applied.
    """

    version: Literal[1] = 1
    agent_id: AgentId
    application_id: Key
    skill_id: Key
    outcome: ApplicationOutcome
    applied_at: BoundedTime
