"""How long memories are kept, per category."""

from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator, Field

from memcore.frozen import Frozen
from memcore.models import MemoryCategory


class RetentionRule(Frozen):
    """Keep the memories of one category for a number of days.

    Attributes:
        category: the category.
        retention_days: days until a memory of it expires.
    """

    category: MemoryCategory
    retention_days: int = Field(ge=1)


def _one_rule_each(rules: tuple[RetentionRule, ...]) -> tuple[RetentionRule, ...]:
    twice = _repeated(rule.category for rule in rules)
    if twice is not None:
        raise ValueError(f"category {twice} has more than one rule")
    return rules


def _repeated(categories: Iterable[MemoryCategory]) -> MemoryCategory | None:
    seen: set[MemoryCategory] = set()
    for category in categories:
        if category in seen:
            return category
        seen.add(category)
    return None


#: Rules of which no two name the same category.
RetentionRules = Annotated[tuple[RetentionRule, ...], AfterValidator(_one_rule_each)]


class RetentionConfig(Frozen):
    """Set the company's retention; an agent may have its own.

    Of these the first that exists decides: the agent's rule for the category, the company's rule for it, the agent's
    default, the company's default; without any a memory is kept for ever.

    Attributes:
        rules: the company's rules, at most one for a category.
        default_retention_days: the company's default for all other categories; None keeps memories for ever.
    """

    rules: RetentionRules = ()
    default_retention_days: int | None = Field(default=None, ge=1)
