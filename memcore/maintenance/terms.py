"""The terms of one agent: what the company decided, after the agent's own settings."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Self

from memcore.config.consolidation import ConsolidationConfig
from memcore.ledger.agent import Agent
from memcore.maintenance.retention import resolve_days
from memcore.maintenance.timeouts import Timeouts
from memcore.models import MemoryCategory, MemoryLevel


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What applies to an agent.

    Attributes:
        keep_days: per category, None for ever.
        max_memories: the most it may have.
        level: how long its memories live.
        timeouts: when its sessions and projects are over.
        working_timeout: when its working memories are; None where a retention rule for them says so instead.
    """

    keep_days: Mapping[MemoryCategory, int | None]
    max_memories: int
    level: MemoryLevel
    timeouts: Timeouts
    working_timeout: timedelta | None

    @classmethod
    def of(cls, agent: Agent | None, policy: ConsolidationConfig, *, level: MemoryLevel, timeouts: Timeouts) -> Self:
        """Resolve an agent's terms; an agent that nobody registered has the company's."""
        ruled = {rule.category for rule in policy.retention.rules} | set(agent.retention_overrides if agent else ())
        working_timeout = None if MemoryCategory.WORKING in ruled else timeouts.task
        if agent is None:
            return cls(
                keep_days=resolve_days(policy.retention),
                max_memories=policy.max_memories_per_agent,
                level=level,
                timeouts=timeouts,
                working_timeout=working_timeout,
            )
        return cls(
            keep_days=resolve_days(
                policy.retention, agent_days=agent.retention_days, agent_overrides=agent.retention_overrides
            ),
            max_memories=policy.max_memories_per_agent if agent.max_memories is None else agent.max_memories,
            level=level if agent.level is None else agent.level,
            timeouts=timeouts,
            working_timeout=working_timeout,
        )
