"""Policy keys of learning: how lessons are drawn, kept and shared, and how long a proposal waits."""

from datetime import timedelta
from typing import Literal, Self

from pydantic import Field, model_validator

from memcore.config.maintenance import PruningConfig
from memcore.models.base import MAX_DAYS, DataPath, Frozen, NotBlankStr


class CaptureConfig(Frozen):
    """Choose the executions from which lessons are drawn.

    Attributes:
        type: failures, successes, or both.
        min_quality_score: the least quality score of a success.
        success_quality_percentile: only successes at or above this percentile of the agent's own scores count.
    """

    type: Literal["failure", "success", "hybrid"] = "hybrid"
    min_quality_score: float = Field(default=8.0, ge=0.0, le=10.0)
    success_quality_percentile: float = Field(default=75.0, ge=0.0, le=100.0)


class EvolverConfig(Frozen):
    """Configure the skill evolver, which proposes skills for a person to approve.

    Attributes:
        enabled: whether the evolver runs on the consolidation schedule.
        min_confidence_for_org_promotion: the least confidence of a proposal; a lower bound, from evidence.
        min_agents_seen_pattern: the fewest distinct agents, all added by a person, that must have shown a pattern.
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
    window_days: int = Field(default=30, ge=1, le=MAX_DAYS)
    min_precision: float = Field(default=0.5, ge=0.0, le=1.0)
    keep_days: int = Field(default=90, ge=1, le=MAX_DAYS)

    @model_validator(mode="after")
    def _keeps_its_window(self) -> Self:
        if self.keep_days < self.window_days:
            raise ValueError(f"keep_days: is {self.keep_days}; must be at least window_days, {self.window_days}")
        return self


class PropagationConfig(Frozen):
    """Pass an agent's lessons to similar agents.

    Attributes:
        type: to no agent, to agents of the same role, or to agents of the same department.
        max_propagation_targets: the most agents that receive one lesson.
    """

    type: Literal["none", "role", "department"] = "none"
    max_propagation_targets: int = Field(default=10, ge=1)


#: The reference's example; no server has this model.
NO_MODEL = "example-small-001"


class ProceduralMemoryConfig(Frozen):
    """Configure how lessons are drawn from executions.

    Attributes:
        enabled: whether lessons are drawn.
        model: the model that proposes lessons; the default names none and takes ``memory.llm.model``.
        temperature: the sampling temperature.
        max_tokens: the most tokens of an answer.
        min_confidence: a proposal with less confidence is dropped.
        skill_md_directory: a folder in which each lesson is also written as a skill folder; None writes none.
        capture: the executions from which lessons are drawn.
        pruning: which lessons are forgotten.
        propagation: which agents receive a lesson.
        evolver: what is proposed to the whole organisation.
    """

    enabled: bool = True
    model: NotBlankStr = NO_MODEL
    temperature: float = Field(default=0.3, ge=0.0, le=2.0)
    max_tokens: int = Field(default=1500, ge=1)
    min_confidence: float = Field(default=0.5, ge=0.0, le=1.0)
    skill_md_directory: DataPath | None = None
    capture: CaptureConfig = CaptureConfig()
    pruning: PruningConfig = PruningConfig()
    propagation: PropagationConfig = PropagationConfig()
    evolver: EvolverConfig = EvolverConfig()

    @property
    def asked_model(self) -> str | None:
        """The model to ask; None for that of ``memory.llm``."""
        return None if self.model == NO_MODEL else self.model


class ApprovalsConfig(Frozen):
    """Bound how many proposals wait for a person, and for how long.

    Attributes:
        expire_days: days after which a proposal without a decision can no longer be approved.
        max_waiting: most proposals of one action that callers have filed and nobody has decided. More are refused.
    """

    expire_days: int = Field(default=14, ge=1, le=365)
    max_waiting: int = Field(default=200, ge=1, le=10_000)

    @property
    def lasts(self) -> timedelta:
        """How long a proposal waits."""
        return timedelta(days=self.expire_days)
