"""How patterns across agents become proposals for the whole organisation."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from memcore.config.added import Added
from memcore.frozen import Frozen


class EvolverConfig(Frozen):
    """Configure the skill evolver, which proposes skills for a person to approve.

    Attributes:
        enabled: whether the evolver runs on the consolidation schedule.
        min_confidence_for_org_promotion: the least confidence of a proposal.
        min_agents_seen_pattern: the fewest distinct agents that must have shown a pattern.
        max_proposals_per_cycle: the most proposals of one run.
        max_org_entries: the most skills of the organisation.
        requires_human_approval: always true; no other value is accepted.
        window_days: the age of the oldest executions that are examined.
        min_precision: the least share of failures among the past executions that match a skill's condition.
        keep_days: days for which trajectories, and what was drawn from them, are kept; not below window_days.
    """

    enabled: bool = False
    min_confidence_for_org_promotion: float = Field(default=0.8, ge=0.0, le=1.0)
    min_agents_seen_pattern: int = Field(default=3, ge=1)
    max_proposals_per_cycle: int = Field(default=10, ge=1)
    max_org_entries: int = Field(default=10_000, ge=1)
    requires_human_approval: Literal[True] = True
    window_days: Annotated[int, Added("the reference receives the executions as an argument"), Field(ge=1)] = 30
    min_precision: Annotated[
        float, Added("a skill is tested on past executions before it is proposed"), Field(ge=0.0, le=1.0)
    ] = 0.5
    keep_days: Annotated[int, Added("trajectories must not grow for ever"), Field(ge=1)] = 90

    @model_validator(mode="after")
    def _keeps_its_window(self) -> Self:
        if self.keep_days < self.window_days:
            raise ValueError(f"keep_days: is {self.keep_days}; must be at least window_days, {self.window_days}")
        return self
