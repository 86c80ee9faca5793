"""How patterns across agents become proposals for the whole organisation."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from memcore.config.added import Added
from memcore.frozen import Frozen


class EvolverConfig(Frozen):
    """Bound the skill evolver; it proposes, and a person approves.

    Attributes:
        enabled: whether it runs on the consolidation schedule.
        min_confidence_for_org_promotion: least confidence of a proposal, 0 to 1.
        min_agents_seen_pattern: distinct agents that must have shown a pattern, 1 or more.
        max_proposals_per_cycle: most proposals of one run, 1 or more.
        max_org_entries: most skills of the organisation, 1 or more.
        requires_human_approval: true; there is no other value.
        window_days: age of the oldest executions it looks at, 1 or more.
        min_precision: least share of failures among the past executions that a skill's condition fits, 0 to 1.
        keep_days: how long trajectories and what was drawn from them are kept, at least window_days.
    """

    enabled: bool = False
    min_confidence_for_org_promotion: float = Field(default=0.8, ge=0.0, le=1.0)
    min_agents_seen_pattern: int = Field(default=3, ge=1)
    max_proposals_per_cycle: int = Field(default=10, ge=1)
    max_org_entries: int = Field(default=10_000, ge=1)
    requires_human_approval: Literal[True] = True
    window_days: Annotated[int, Added("the reference is handed the executions"), Field(ge=1)] = 30
    min_precision: Annotated[
        float, Added("a skill is tried on the past before it is proposed"), Field(ge=0.0, le=1.0)
    ] = 0.5
    keep_days: Annotated[int, Added("trajectories would pile up for ever"), Field(ge=1)] = 90

    @model_validator(mode="after")
    def _keeps_its_window(self) -> Self:
        if self.keep_days < self.window_days:
            raise ValueError(f"keep_days: is {self.keep_days}; must be at least window_days, {self.window_days}")
        return self
