"""Policy keys of organisation memory, which all agents share."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from memcore.models.base import Frozen, NotBlankStr, ReadOnlyMap, ReadOnlyMapping
from memcore.models.organization import OrgFactCategory, SeniorityLevel


class CategoryWriteRule(Frozen):
    """State who may write facts of one category.

    Attributes:
        allowed_seniority: the least seniority of an agent that may write; None lets no agent write.
        human_allowed: whether people may write.
    """

    allowed_seniority: SeniorityLevel | None = None
    human_allowed: bool = True


_SENIORS = CategoryWriteRule(allowed_seniority=SeniorityLevel.SENIOR)

#: Without rules of their own, companies let only people write policies, and senior agents the rest (FACTS G).
DEFAULT_RULES: Mapping[OrgFactCategory, CategoryWriteRule] = ReadOnlyMap(
    {
        OrgFactCategory.CORE_POLICY: CategoryWriteRule(),
        OrgFactCategory.ADR: _SENIORS,
        OrgFactCategory.PROCEDURE: _SENIORS,
        OrgFactCategory.CONVENTION: _SENIORS,
    }
)


class WriteAccessConfig(Frozen):
    """Give each category of facts its write rule.

    Attributes:
        rules: the write rule of each category; given rules replace the default ones, and a category without a rule
            cannot be written.
    """

    rules: ReadOnlyMapping[OrgFactCategory, CategoryWriteRule] = DEFAULT_RULES


class ExtendedStoreConfig(Frozen):
    """Bound the store of facts that are searched on demand.

    Attributes:
        backend: the only value; accepted because the reference has it. The facts are in the ledger.
        max_retrieved_per_query: the most facts that a query returns and a prompt holds; core policies do not count.
    """

    backend: Literal["sqlite"] = "sqlite"
    max_retrieved_per_query: int = Field(default=5, ge=1, le=50)


class OrgMemoryConfig(Frozen):
    """Configure the memory that all agents of an organisation share.

    Attributes:
        backend: the only value; accepted because the reference has it.
        core_policies: texts at the head of every prepared context; they are never filtered.
        extended_store: the store of facts that are searched on demand.
        write_access: who may write facts.
    """

    backend: Literal["hybrid_prompt_retrieval"] = "hybrid_prompt_retrieval"
    core_policies: tuple[NotBlankStr, ...] = ()
    extended_store: ExtendedStoreConfig = ExtendedStoreConfig()
    write_access: WriteAccessConfig = WriteAccessConfig()
