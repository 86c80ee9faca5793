"""How long a memory may stay: the company's and the agent's rules, turned into filters that the store applies.

Of four rules the first that exists decides, per category: the agent's for the category, the company's for the
category, the agent's default, the company's default; without any a memory stays for ever. Beside that, a memory's
own ``expires_at`` always counts. A rule is the operator's word and wins over a pin; only the hold on memories that
an undo has just brought back is stronger, and it ends.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from types import MappingProxyType

from memcore.backends.where import Where
from memcore.config.retention import RetentionConfig
from memcore.errors import MemoryInputError
from memcore.models import MemoryCategory, MemoryEntry

_NO_OVERRIDES: Mapping[MemoryCategory, int] = MappingProxyType({})


def resolve_days(
    config: RetentionConfig,
    *,
    agent_days: int | None = None,
    agent_overrides: Mapping[MemoryCategory, int] = _NO_OVERRIDES,
) -> dict[MemoryCategory, int | None]:
    """Return how many days each category is kept for an agent; None keeps for ever.

    Raises:
        MemoryInputError: one of the agent's own values lies below 1 day.
    """
    if agent_days is not None and agent_days < 1:
        raise MemoryInputError("retention_days", f"is {agent_days}; the least is 1 day")
    for category, days in agent_overrides.items():
        if days < 1:
            raise MemoryInputError(f"retention_overrides.{category}", f"is {days}; the least is 1 day")
    company = {rule.category: rule.retention_days for rule in config.rules}
    return {
        category: _first(
            agent_overrides.get(category), company.get(category), agent_days, config.default_retention_days
        )
        for category in MemoryCategory
    }


def _first(*days: int | None) -> int | None:
    return next((value for value in days if value is not None), None)


def cutoffs(keep_days: Mapping[MemoryCategory, int | None], now: datetime) -> dict[MemoryCategory, datetime]:
    """Return, for each category that has a rule, the time before which a memory is too old."""
    return {category: now - timedelta(days=days) for category, days in keep_days.items() if days is not None}


def is_old(entry: MemoryEntry, cutoffs: Mapping[MemoryCategory, datetime], now: datetime) -> bool:
    """Return whether retention removes a memory for its age or its own expiry."""
    cutoff = cutoffs.get(entry.category)
    return (cutoff is not None and entry.created_at < cutoff) or (
        entry.expires_at is not None and entry.expires_at <= now
    )


def expired_filter(agent_id: str, now: datetime, *, held: frozenset[str]) -> Where:
    """Name the memories whose own ``expires_at`` has come."""
    return Where(agent_id=agent_id, expires_by=now, without_ids=held)


def aged_filters(
    agent_id: str, cutoffs: Mapping[MemoryCategory, datetime], *, held: frozenset[str]
) -> dict[MemoryCategory, Where]:
    """Name the memories that are older than their category may be, one filter a category."""
    return {
        category: Where(agent_id=agent_id, categories=frozenset({category}), created_before=cutoff, without_ids=held)
        for category, cutoff in cutoffs.items()
    }


def aged_together(
    agent_id: str, cutoffs: Mapping[MemoryCategory, datetime], *, held: frozenset[str]
) -> tuple[Where, ...]:
    """Name the same memories with as few filters as there are cutoffs, to be counted."""
    return tuple(
        Where(
            agent_id=agent_id,
            categories=frozenset(category for category in cutoffs if cutoffs[category] == cutoff),
            created_before=cutoff,
            without_ids=held,
        )
        for cutoff in sorted(set(cutoffs.values()))
    )
