"""What became of an execution from which a lesson might be drawn."""

from dataclasses import dataclass, field
from enum import StrEnum

from memcore.procedural.proposal import ProceduralMemoryProposal


class CaptureOutcome(StrEnum):
    """One word on it."""

    STORED = "stored"
    #: memory.procedural.enabled is false.
    DISABLED = "disabled"
    #: The policy learns from executions of another kind.
    NOT_CHOSEN = "not_chosen"
    MALFORMED = "malformed"
    UNAVAILABLE = "unavailable"
    #: The model's server refuses, and will again.
    REFUSED = "refused"
    LOW_CONFIDENCE = "low_confidence"
    LOW_QUALITY = "low_quality"
    #: The agent has done better often enough: capture.success_quality_percentile.
    BELOW_PERCENTILE = "below_percentile"
    #: It was stored before, and a run has removed it since.
    BURIED = "buried"
    #: The execution is kept no longer, or its agent was erased.
    GONE = "gone"
    #: The agent's level lets nothing outlive a session or a project.
    LEVEL = "level"


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """What was done.

    Attributes:
        outcome: one word on it.
        memory_id: the memory that was stored, if one was.
        proposal: the lesson, if the model proposed one, whatever became of it; never in a repr.
        refused: names of the fields that the model tried to set and may not.
        skill: the name of the folder that was written, if one was.
        skill_failures: skill folders that could not be written: 0 or 1.
    """

    outcome: CaptureOutcome
    memory_id: str | None = None
    proposal: ProceduralMemoryProposal | None = field(default=None, repr=False)
    refused: tuple[str, ...] = ()
    skill: str | None = None
    skill_failures: int = 0
