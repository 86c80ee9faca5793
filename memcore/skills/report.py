"""A cycle of the skill evolver: its stages, its log events and its report."""

from enum import StrEnum
from typing import Self

from pydantic import Field, model_validator

from memcore.models.base import Frozen
from memcore.models.memory import BoundedTime, Key


class CycleStage(StrEnum):
    """A cycle's stages, in order."""

    #: Patterns are found, and the lesson that stands for each.
    SEARCHING = "searching"
    #: Their conditions are replayed on past executions.
    REPLAYING = "replaying"
    #: What is left is compared with the existing skills, and proposed.
    FILING = "filing"


#: Most contradictions that a report lists; all are counted, and each is logged.
MAX_LISTED = 32


class Conflict(Frozen):
    """A pattern that was not proposed, and the skill, or the approval of a pending proposal, that contradicts it."""

    pattern_id: Key
    standing_id: Key


class EvolverReport(Frozen):
    """The counts of a cycle: each pattern found is in exactly one of those from ``proposals_emitted`` on.

    Attributes:
        trajectories_analyzed: executions of agents that a person added.
        trajectories_unregistered: executions of all other agents, which are not looked at.
        supersessions: skills whose place the proposals would take.
        proposals_emitted: filed by this cycle, also by an attempt at it that died.
        skipped_below_agent_threshold: shown by too few agents.
        skipped_low_confidence: not sure enough.
        skipped_without_lesson: no agent has drawn a lesson from it that can be read.
        skipped_by_replay: on the past executions the lesson's condition did not fit well enough.
        skipped_known: a proposal waits, a person has decided, or a skill says the same.
        skipped_full: so many skills and proposals stand as may.
        postponed: beyond the proposals, or the trials, of one cycle; the next one looks again.
    """

    cycle_id: Key
    window_start: BoundedTime
    window_end: BoundedTime
    trajectories_analyzed: int = Field(default=0, ge=0)
    trajectories_unregistered: int = Field(default=0, ge=0)
    patterns_found: int = Field(default=0, ge=0)
    supersessions: int = Field(default=0, ge=0)
    proposals_emitted: int = Field(default=0, ge=0)
    conflicts: int = Field(default=0, ge=0)
    skipped_below_agent_threshold: int = Field(default=0, ge=0)
    skipped_low_confidence: int = Field(default=0, ge=0)
    skipped_without_lesson: int = Field(default=0, ge=0)
    skipped_by_replay: int = Field(default=0, ge=0)
    skipped_known: int = Field(default=0, ge=0)
    skipped_full: int = Field(default=0, ge=0)
    postponed: int = Field(default=0, ge=0)
    conflict_list: tuple[Conflict, ...] = Field(default=(), max_length=MAX_LISTED)

    @model_validator(mode="after")
    def _ordered_window(self) -> Self:
        if self.window_end < self.window_start:
            raise ValueError("window_end: lies before window_start")
        return self
