"""Who may write which facts of the organisation."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field, PlainSerializer

from memcore.config.read_only import ReadOnlyMap
from memcore.frozen import Frozen


class OrgFactCategory(StrEnum):
    """What kind of fact of the organisation it is."""

    CORE_POLICY = "core_policy"
    ADR = "adr"
    PROCEDURE = "procedure"
    CONVENTION = "convention"


class SeniorityLevel(StrEnum):
    """An agent's standing, lowest first; compare with ``at_least``, for ``<`` compares the letters."""

    JUNIOR = "junior"
    MID = "mid"
    SENIOR = "senior"
    LEAD = "lead"
    PRINCIPAL = "principal"
    DIRECTOR = "director"
    VP = "vp"
    C_SUITE = "c_suite"

    def at_least(self, other: "SeniorityLevel") -> bool:
        """Tell whether this standing is the other's or a higher one."""
        order = list(SeniorityLevel)
        return order.index(self) >= order.index(other)


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


def _plain(rules: Mapping[OrgFactCategory, CategoryWriteRule]) -> dict[str, dict[str, object]]:
    return {str(category): rule.model_dump(mode="json") for category, rule in rules.items()}


class WriteAccessConfig(Frozen):
    """Give each category of facts its write rule.

    Attributes:
        rules: the write rule of each category; given rules replace the default ones, and a category without a rule
            cannot be written.
    """

    rules: Annotated[
        Mapping[OrgFactCategory, CategoryWriteRule],
        AfterValidator(ReadOnlyMap),
        PlainSerializer(_plain, return_type=dict[str, dict[str, object]]),
    ] = Field(default=DEFAULT_RULES)
