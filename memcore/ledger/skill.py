"""A skill of the organisation: a lesson that a person approved for all agents."""

from enum import StrEnum

from pydantic import Field

from memcore.clock import BoundedTime
from memcore.frozen import Frozen


class SkillState(StrEnum):
    """Whether a skill stands."""

    #: Agents find it.
    ACTIVE = "active"
    #: Another one took its place.
    SUPERSEDED = "superseded"
    #: A person took its approval back.
    RETIRED = "retired"


class Skill(Frozen):
    """A skill's row.

    Attributes:
        skill_id: the id under which it was published first; it keeps it when it comes back under another.
        approval_id: whose effect it is.
        pattern_id: what it was learned from.
        superseded_by: the skill that took its place, if one did.
        confidence: 0 to 1.
        text: the lesson (memcore.procedural.lesson_text) as JSON; never in a repr.
    """

    skill_id: str
    approval_id: str
    pattern_id: str
    state: SkillState
    superseded_by: str | None = None
    confidence: float
    text: str = Field(repr=False)
    published_at: BoundedTime
    changed_at: BoundedTime


class Applications(Frozen):
    """How often a lesson or a skill was applied.

    Attributes:
        applications: in all.
        successes: those that went well.
        last_applied_at: the last one.
    """

    applications: int
    successes: int
    last_applied_at: BoundedTime
