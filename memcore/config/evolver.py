"""How patterns across agents become proposals for the whole organisation."""

from typing import Literal

from pydantic import Field

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
    """

    enabled: bool = False
    min_confidence_for_org_promotion: float = Field(default=0.8, ge=0.0, le=1.0)
    min_agents_seen_pattern: int = Field(default=3, ge=1)
    max_proposals_per_cycle: int = Field(default=10, ge=1)
    max_org_entries: int = Field(default=10_000, ge=1)
    requires_human_approval: Literal[True] = True
