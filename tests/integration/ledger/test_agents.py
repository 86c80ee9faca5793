"""Agents: known once, changed field by field, paused one by one."""

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from support.present import present

from memcore.errors import MemoryInputError, MemoryNotFoundError
from memcore.ledger.agents import AgentSpec, PeerCriterion
from memcore.ledger.companies import CompanyState
from memcore.ledger.ledger import Ledger
from memcore.models.memory import ConsolidationInterval, MemoryCategory, MemoryLevel

DAILY = ConsolidationInterval.DAILY


def test_registering_again_changes_nothing_and_counts_the_new_ones(
    ledger: Ledger, clock: Callable[[], datetime]
) -> None:
    assert ledger.agents.register("acme", ["ada", "bob", "ada"], interval=DAILY) == 2
    before = ledger.agents.get("acme", "ada")
    assert ledger.agents.register("acme", ["ada", "bob", "cy"], interval=ConsolidationInterval.HOURLY) == 1
    assert ledger.agents.get("acme", "ada") == before
    assert before is not None
    assert before.registered_at == clock()
    assert clock() < present(before.next_due_at) <= clock() + timedelta(days=1)
    assert ledger.agents.count("acme") == 3
    assert ledger.agents.count("other") == 0


def test_companies_do_not_see_each_other(ledger: Ledger) -> None:
    ledger.agents.register("acme", ["ada"], interval=DAILY)
    ledger.agents.register("globex", ["ada"], interval=DAILY)
    ledger.agents.pause("acme", "ada")
    paused = {company: [agent.paused for agent in ledger.agents.list(company)] for company in ("acme", "globex")}
    assert paused == {"acme": [True], "globex": [False]}


def test_put_changes_the_fields_that_are_given_and_no_others(ledger: Ledger) -> None:
    ledger.agents.put(AgentSpec(company="acme", agent_id="ada", role="clerk", max_memories=10))
    overrides = {MemoryCategory.WORKING: 3}
    changed = ledger.agents.put(
        AgentSpec(company="acme", agent_id="ada", level=MemoryLevel.PROJECT, retention_overrides=overrides)
    )
    assert (changed.role, changed.max_memories, changed.level) == ("clerk", 10, MemoryLevel.PROJECT)
    assert changed.retention_overrides == overrides
    back = ledger.agents.put(AgentSpec(company="acme", agent_id="ada", max_memories=None))
    assert (back.max_memories, back.role) == (None, "clerk")
    assert ledger.agents.put(AgentSpec(company="acme", agent_id="ada")) == back
    assert ledger.agents.get("acme", "ada") == back


def test_an_interval_set_again_does_not_push_an_overdue_agent_away(
    ledger: Ledger, clock: Callable[[], datetime]
) -> None:
    spec = AgentSpec(company="acme", agent_id="ada", interval=DAILY)
    first = ledger.agents.put(spec)
    overdue = clock() - timedelta(hours=1)
    ledger.agents.set_due("acme", "ada", overdue)
    assert ledger.agents.put(spec).next_due_at == overdue
    never = ledger.agents.put(AgentSpec(company="acme", agent_id="ada", interval=ConsolidationInterval.NEVER))
    assert never.next_due_at is None
    assert ledger.agents.put(spec).next_due_at == present(first.next_due_at)


def test_a_listing_pages_through_all_agents_in_order(ledger: Ledger) -> None:
    ledger.agents.register("acme", [f"agent-{number:03}" for number in range(25)], interval=DAILY)
    seen: list[str] = []
    while page := ledger.agents.list("acme", after=seen[-1] if seen else None, limit=10):
        seen += [agent.agent_id for agent in page]
    assert seen == [f"agent-{number:03}" for number in range(25)]


def test_a_time_of_another_zone_is_the_same_instant_when_it_is_read_back(
    ledger: Ledger, clock: Callable[[], datetime]
) -> None:
    ledger.agents.register("acme", ["ada"], interval=DAILY)
    kathmandu = timezone(timedelta(hours=5, minutes=45))
    ledger.agents.set_due("acme", "ada", clock().astimezone(kathmandu))
    agent = ledger.agents.get("acme", "ada")
    assert agent is not None
    assert agent.next_due_at == clock()
    with pytest.raises(MemoryInputError, match="zone"):
        ledger.agents.set_due("acme", "ada", clock().replace(tzinfo=None))


def test_an_unknown_agent_is_named(ledger: Ledger, clock: Callable[[], datetime]) -> None:
    assert ledger.agents.get("acme", "nobody") is None
    for change in (ledger.agents.pause, ledger.agents.resume):
        with pytest.raises(MemoryNotFoundError, match="nobody"):
            change("acme", "nobody")
    with pytest.raises(MemoryNotFoundError, match="nobody"):
        ledger.agents.set_due("acme", "nobody", clock())


@pytest.mark.parametrize("agent_id", ["", "  ", "x" * 257, "a\x00b"])
def test_an_id_that_no_database_could_keep_is_refused(ledger: Ledger, agent_id: str) -> None:
    with pytest.raises(MemoryInputError, match="agent_id"):
        ledger.agents.register("acme", ["fine", agent_id], interval=DAILY)
    assert ledger.agents.count("acme") == 0


def test_the_kill_switch_is_read_anew_each_time(ledger: Ledger) -> None:
    assert ledger.companies.paused("acme") is False
    ledger.companies.pause("acme")
    ledger.companies.pause("acme")
    assert ledger.companies.paused("acme") is True
    assert ledger.companies.paused("globex") is False
    ledger.companies.resume("acme")
    assert ledger.companies.paused("acme") is False


def test_both_switches_of_an_agent_are_read_at_once(ledger: Ledger) -> None:
    ledger.agents.register("acme", ["ada"], interval=DAILY)
    ledger.agents.pause("acme", "ada")
    assert ledger.agents.why_paused("acme", "ada") == "paused for this agent"
    assert [ledger.agents.why_paused("acme", each) for each in ("bob", None)] == [None, None]
    assert ledger.agents.why_paused("globex", "ada") is None
    ledger.companies.pause("acme")
    assert {ledger.agents.why_paused("acme", each) for each in ("ada", "bob", None)} == {"paused for all agents"}


def test_a_removed_company_stays_removed_until_it_is_added_again(ledger: Ledger) -> None:
    with pytest.raises(MemoryNotFoundError, match="acme"):
        ledger.companies.remove("acme")
    ledger.companies.add("acme", policy={"memory": {"level": "none"}})
    ledger.companies.remove("acme")
    assert ledger.companies.paused("acme")
    ledger.companies.register("acme")
    for change in (ledger.companies.pause, ledger.companies.resume):
        with pytest.raises(MemoryNotFoundError, match="removed"):
            change("acme")
    assert ledger.companies.list(state=CompanyState.REMOVED) == ledger.companies.list()
    added = ledger.companies.add("acme")
    assert (added.state, added.policy) == (CompanyState.ACTIVE, {"memory": {"level": "none"}})
    with pytest.raises(MemoryInputError, match="company"):
        ledger.companies.add("../acme")


def test_an_agents_like_share_its_role_and_keep_what_they_learn(ledger: Ledger) -> None:
    def put(agent_id: str, *, company: str = "acme", **given: Any) -> None:
        ledger.agents.put(AgentSpec(company=company, agent_id=agent_id, **given))

    for agent_id in ("cy", "ada", "bob", "dan"):
        put(agent_id, role="clerk", department="sales")
    put("eve", role="pilot", department="sales")
    put("flo", role="clerk", level=MemoryLevel.PROJECT)
    put("gus", role="clerk", level=MemoryLevel.NONE)
    put("hal", role="clerk", level=MemoryLevel.PERSISTENT)
    put("ida", role="clerk")
    ledger.agents.pause("acme", "ida")
    put("joe", role="clerk", company="globex")
    put("kay")

    def like(
        agent_id: str, by: PeerCriterion, *, level: MemoryLevel = MemoryLevel.PERSISTENT, limit: int = 9
    ) -> list[str]:
        return list(ledger.agents.like("acme", agent_id, by=by, level=level, limit=limit))

    assert like("ada", "role") == ["bob", "cy", "dan", "hal"]
    assert like("ada", "role", limit=2) == ["bob", "cy"]
    assert like("ada", "role", level=MemoryLevel.SESSION) == ["hal"]
    assert like("ada", "department") == ["bob", "cy", "dan", "eve"]
    assert like("hal", "department") == []
    assert like("kay", "role") == []
    assert like("unknown", "role") == []
