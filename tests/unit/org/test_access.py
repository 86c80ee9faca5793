import logging

import pytest
from support.organization_facts import GRACE, agent

from memcore.config.organization import CategoryWriteRule, WriteAccessConfig
from memcore.errors import OrgMemoryAccessDeniedError
from memcore.models.organization import OrgFactCategory, SeniorityLevel
from memcore.org.protocol import check_write_access, require_write_access

DEFAULT = WriteAccessConfig()
SENIORS = frozenset(list(SeniorityLevel)[2:])


@pytest.mark.parametrize("category", OrgFactCategory)
@pytest.mark.parametrize("seniority", SeniorityLevel)
def test_by_default_people_write_all_and_seniors_all_but_policies(
    category: OrgFactCategory, seniority: SeniorityLevel
) -> None:
    assert check_write_access(DEFAULT, category, GRACE)
    may = category is not OrgFactCategory.CORE_POLICY and seniority in SENIORS
    assert check_write_access(DEFAULT, category, agent(seniority)) is may


def test_a_category_without_a_rule_is_written_by_nobody() -> None:
    config = WriteAccessConfig(rules={OrgFactCategory.ADR: CategoryWriteRule()})
    assert check_write_access(config, OrgFactCategory.ADR, GRACE)
    assert not check_write_access(config, OrgFactCategory.PROCEDURE, GRACE)
    assert not check_write_access(config, OrgFactCategory.PROCEDURE, agent(SeniorityLevel.C_SUITE))


def test_people_can_be_kept_out_too() -> None:
    rule = CategoryWriteRule(allowed_seniority=SeniorityLevel.LEAD, human_allowed=False)
    config = WriteAccessConfig(rules={OrgFactCategory.ADR: rule})
    assert not check_write_access(config, OrgFactCategory.ADR, GRACE)
    assert check_write_access(config, OrgFactCategory.ADR, agent(SeniorityLevel.LEAD))


def test_who_may_not_write_is_told_who_may_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    require_write_access(DEFAULT, OrgFactCategory.ADR, agent())
    assert caplog.records == []

    with pytest.raises(OrgMemoryAccessDeniedError, match="only people and agents of seniority senior") as denied:
        require_write_access(DEFAULT, OrgFactCategory.ADR, agent(SeniorityLevel.MID))
    assert denied.value.category == "adr"
    (record,) = caplog.records
    assert (record.getMessage(), record.levelno) == ("org_memory.write.denied", logging.WARNING)
    said = vars(record)
    assert [said[name] for name in ("category", "agent_id", "seniority", "is_human")] == ["adr", "ada", "mid", False]

    with pytest.raises(OrgMemoryAccessDeniedError, match="core_policy: by the policy only people may write"):
        require_write_access(DEFAULT, OrgFactCategory.CORE_POLICY, agent(SeniorityLevel.C_SUITE))
    with pytest.raises(OrgMemoryAccessDeniedError, match="nobody"):
        require_write_access(WriteAccessConfig(rules={}), OrgFactCategory.ADR, GRACE)
