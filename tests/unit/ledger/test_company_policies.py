"""A company's policy: its file, else its row, over the installation's; read again when one has changed."""

import os
from pathlib import Path
from typing import Any

import pytest
from support.memories import DAWN

from memcore.config.loader import load_policy
from memcore.config.settings import Settings
from memcore.errors import MemoryConfigError
from memcore.ledger.companies import Company, CompanyPolicies, CompanyState
from memcore.models.memory import ConsolidationInterval, MemoryLevel


def company(name: str = "globex", policy: dict[str, Any] | None = None) -> Company:
    return Company(company=name, state=CompanyState.ACTIVE, policy=policy, created_at=DAWN, changed_at=DAWN)


@pytest.fixture
def policies(tmp_path: Path) -> CompanyPolicies:
    (tmp_path / "policies").mkdir()
    settings = Settings(
        broker_url="redis://127.0.0.1:9",
        database_url=f"sqlite:///{tmp_path}/ledger.db",
        qdrant_url="http://127.0.0.1:9",
        home=tmp_path / "home",
        policy_path=tmp_path / "policy.yaml",
        company="acme",
    )
    return CompanyPolicies(settings, load_policy("memory: {level: project, consolidation: {interval: weekly}}"))


HOURLY = {"memory": {"consolidation": {"interval": "hourly"}}}


def test_a_company_without_a_policy_follows_the_installation(policies: CompanyPolicies) -> None:
    settings, policy = policies.of(company())
    assert settings.company == "globex"
    assert policy.memory.consolidation.interval is ConsolidationInterval.WEEKLY
    assert policy is policies.policy


def test_the_file_wins_over_the_row_and_each_keeps_what_it_leaves_out(
    policies: CompanyPolicies, tmp_path: Path
) -> None:
    _, policy = policies.of(company(policy=HOURLY))
    assert (policy.memory.consolidation.interval, policy.memory.level) == ("hourly", MemoryLevel.PROJECT)
    file = tmp_path / "policies" / "globex.yaml"
    file.write_text("memory: {level: session}")
    _, policy = policies.of(company(policy=HOURLY))
    assert (policy.memory.consolidation.interval, policy.memory.level) == ("weekly", MemoryLevel.SESSION)
    file.write_text("memory: {level: persistent}")
    assert policies.of(company())[1].memory.level is MemoryLevel.PERSISTENT
    file.unlink()
    assert policies.of(company(policy=HOURLY))[1].memory.consolidation.interval is ConsolidationInterval.HOURLY


def test_a_policy_is_read_once_until_it_changes(policies: CompanyPolicies) -> None:
    first = policies.of(company(policy=HOURLY))[1]
    assert policies.of(company(policy=dict(HOURLY)))[1] is first
    assert policies.of(company("initech", policy=HOURLY))[1] is not first


@pytest.mark.parametrize("text", ["memory: {levle: session}", "memory: [", "- a"])
def test_a_wrong_policy_names_its_company(policies: CompanyPolicies, tmp_path: Path, text: str) -> None:
    (tmp_path / "policies" / "globex.yaml").write_text(text)
    with pytest.raises(MemoryConfigError, match="company globex"):
        policies.of(company())
    assert policies.of(company("initech"))[0].company == "initech"


def test_a_file_that_cannot_be_read_is_not_taken_for_absent(policies: CompanyPolicies, tmp_path: Path) -> None:
    os.symlink("globex.yaml", tmp_path / "policies" / "globex.yaml")  # noqa: PTH211  # a loop
    with pytest.raises(MemoryConfigError, match="company globex"):
        policies.of(company())


def test_a_name_that_no_company_may_have_reaches_no_file(policies: CompanyPolicies, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("memory: {level: session}")
    assert policies.of(company("../policy"))[1].memory.level is MemoryLevel.PROJECT
