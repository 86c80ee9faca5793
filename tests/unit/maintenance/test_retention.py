"""The five steps by which a category's retention is resolved."""

from datetime import timedelta
from typing import Any

import pytest
from support.maintenance_fixture import AGENT, START

from memcore.config.maintenance import ConsolidationConfig, RetentionConfig, RetentionRule
from memcore.errors import MemoryInputError
from memcore.maintenance.rules import AgentSnapshot, EffectivePolicy, Timeouts, resolve_days
from memcore.models.memory import MemoryCategory, MemoryLevel

EPISODIC, SOCIAL = MemoryCategory.EPISODIC, MemoryCategory.SOCIAL


@pytest.mark.parametrize(
    ("agent_rule", "company_rule", "agent_default", "company_default", "expected"),
    [
        (1, 2, 3, 4, 1),
        (None, 2, 3, 4, 2),
        (None, None, 3, 4, 3),
        (None, None, None, 4, 4),
        (None, None, None, None, None),
    ],
)
def test_the_first_rule_that_exists_decides(
    agent_rule: int | None,
    company_rule: int | None,
    agent_default: int | None,
    company_default: int | None,
    expected: int | None,
) -> None:
    rules = () if company_rule is None else (RetentionRule(category=EPISODIC, retention_days=company_rule),)
    config = RetentionConfig(rules=rules, default_retention_days=company_default)

    days = resolve_days(
        config, agent_days=agent_default, agent_overrides={} if agent_rule is None else {EPISODIC: agent_rule}
    )

    assert days[EPISODIC] == expected
    assert days[SOCIAL] == (agent_default or company_default)
    assert set(days) == set(MemoryCategory)


def test_an_agents_value_below_a_day_is_refused_by_name() -> None:
    with pytest.raises(MemoryInputError, match="retention_days: is 0; the least is 1 day"):
        resolve_days(RetentionConfig(), agent_days=0)
    with pytest.raises(MemoryInputError, match=r"retention_overrides\.social: is -1"):
        resolve_days(RetentionConfig(), agent_overrides={SOCIAL: -1})


def test_filters_name_only_what_has_a_rule_and_leave_held_ids_out() -> None:
    held = frozenset({"h"})
    policy = ConsolidationConfig(
        retention=RetentionConfig(rules=(RetentionRule(category=EPISODIC, retention_days=10),))
    )
    nothing: Any = None
    snapshot = AgentSnapshot(
        company="acme",
        agent_id=AGENT,
        backend=nothing,
        ledger=nothing,
        policy=policy,
        terms=EffectivePolicy.of(None, policy, level=MemoryLevel.PERSISTENT, timeouts=Timeouts()),
        now=START,
        protected_by_undo=held,
    )
    (_, (_, aged)) = snapshot.due()

    assert aged.categories == frozenset({EPISODIC})
    assert aged.created_before == START - timedelta(days=10)
    assert aged.without_ids == held
    assert snapshot.expired.expires_by == START
    assert snapshot.expired.without_ids == held
