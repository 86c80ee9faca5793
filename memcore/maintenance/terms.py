"""The terms of one agent: what the company decided, after the agent's own settings."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from memcore.config.consolidation import ConsolidationConfig
from memcore.ledger.agent import Agent
from memcore.maintenance.retention import resolve_days
from memcore.models import MemoryCategory, MemoryLevel


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What applies to an agent.

    Attributes:
        keep_days: per category, None for ever.
        max_memories: the most it may have.
        level: how long its memories live.
    """

    keep_days: Mapping[MemoryCategory, int | None]
    max_memories: int
    level: MemoryLevel

    @classmethod
    def of(cls, agent: Agent | None, policy: ConsolidationConfig, *, level: MemoryLevel) -> Self:
        """Resolve an agent's terms; an agent that nobody registered has the company's."""
        if agent is None:
            return cls(
                keep_days=resolve_days(policy.retention), max_memories=policy.max_memories_per_agent, level=level
            )
        return cls(
            keep_days=resolve_days(
                policy.retention, agent_days=agent.retention_days, agent_overrides=agent.retention_overrides
            ),
            max_memories=policy.max_memories_per_agent if agent.max_memories is None else agent.max_memories,
            level=level if agent.level is None else agent.level,
        )
