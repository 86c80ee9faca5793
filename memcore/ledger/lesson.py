"""The lesson of one task: whether it was drawn, and what it says."""

from pydantic import Field

from memcore.clock import BoundedTime
from memcore.frozen import Frozen


class Lesson(Frozen):
    """A lesson's row; its id is the trajectory's.

    Attributes:
        outcome: one word on what became of it, such as stored or low_confidence; None while nobody has drawn it.
        memory_id: the memory that holds it; None where none does.
        confidence: 0 to 1; None where there is no lesson.
        text: the lesson (memcore.procedural.lesson_text) as JSON; None where there is none, and never in a repr.
        tries: how often a model was asked in vain.
        task_id: the task that taught it; None where it was not looked up, or is kept no longer.
        propagated_at: when it was passed on to the agent's like, or found to have nobody to be passed on to.
    """

    lesson_id: str
    agent_id: str
    outcome: str | None = None
    memory_id: str | None = None
    confidence: float | None = None
    text: str | None = Field(default=None, repr=False)
    tries: int = Field(default=0, ge=0)
    task_id: str | None = None
    created_at: BoundedTime
    drawn_at: BoundedTime | None = None
    propagated_at: BoundedTime | None = None
