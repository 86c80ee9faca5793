import itertools

import pytest
from pydantic import ValidationError

from memcore.config.loader import load_policy
from memcore.config.organization import WriteAccessConfig
from memcore.models.organization import OrgFactCategory, SeniorityLevel


def test_by_default_people_write_all_and_senior_agents_all_but_policies() -> None:
    rules = WriteAccessConfig().rules

    assert set(rules) == set(OrgFactCategory)
    assert all(rule.human_allowed for rule in rules.values())
    assert {category for category, rule in rules.items() if rule.allowed_seniority is SeniorityLevel.SENIOR} == {
        OrgFactCategory.ADR,
        OrgFactCategory.PROCEDURE,
        OrgFactCategory.CONVENTION,
    }
    assert rules[OrgFactCategory.CORE_POLICY].allowed_seniority is None


def test_rules_that_are_given_replace_the_default_ones() -> None:
    rules = load_policy(
        "org_memory: {write_access: {rules: {adr: {allowed_seniority: vp, human_allowed: false}}}}"
    ).org_memory.write_access.rules

    assert set(rules) == {OrgFactCategory.ADR}
    assert rules[OrgFactCategory.ADR].allowed_seniority is SeniorityLevel.VP


def test_rules_cannot_be_changed_in_place() -> None:
    access = WriteAccessConfig()

    with pytest.raises(TypeError):
        access.rules[OrgFactCategory.ADR] = access.rules[OrgFactCategory.CORE_POLICY]  # type: ignore[index]  # the point
    with pytest.raises(ValidationError):
        access.rules = {}  # type: ignore[misc]  # the point


def test_standing_is_ordered_from_junior_to_the_top_and_not_by_letters() -> None:
    for lower, higher in itertools.combinations(SeniorityLevel, 2):
        assert higher.at_least(lower)
        assert not lower.at_least(higher)
    assert SeniorityLevel.SENIOR.at_least(SeniorityLevel.SENIOR)
