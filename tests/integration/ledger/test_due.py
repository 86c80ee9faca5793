"""Which agents a tick takes, and that each is taken once."""

from datetime import datetime, timedelta

import pytest
from support.ledger_records import StoppedClock
from support.present import present

from memcore.errors import MemoryInputError
from memcore.ledger.agents import AgentSpec
from memcore.ledger.ledger import Ledger
from memcore.ledger.runs import NewRun
from memcore.ledger.work_items import WorkItem, WorkState
from memcore.models.memory import ConsolidationInterval

DAILY = ConsolidationInterval.DAILY
HOURLY = ConsolidationInterval.HOURLY
WEEKLY = ConsolidationInterval.WEEKLY
NEVER = ConsolidationInterval.NEVER


def _claimed(ledger: Ledger, interval: ConsolidationInterval, *, limit: int) -> tuple[WorkItem, ...]:
    """Claim as a tick does: only where a company has somebody due."""
    ledger.companies.register("acme")
    due = ledger.agents.due(default=interval)
    assert set(due.values()) <= {interval}
    claimed = ledger.agents.claim_due(["acme"], interval=interval, limit=limit)
    assert due or not claimed
    return claimed


def _due_at(ledger: Ledger, agent_id: str) -> datetime:
    agent = present(ledger.agents.get("acme", agent_id))
    return present(agent.next_due_at)


def test_due_agents_are_taken_oldest_first_and_their_slots_move_on(ledger: Ledger, clock: StoppedClock) -> None:
    ledger.agents.register("acme", ["ada", "bob", "cy"], interval=DAILY)
    for hours, agent_id in ((1, "ada"), (3, "bob"), (2, "cy")):
        ledger.agents.set_due("acme", agent_id, clock() - timedelta(hours=hours))
    first = _claimed(ledger, DAILY, limit=2)
    assert [run.agent_id for run in first] == ["bob", "cy"]
    run = present(ledger.runs.get("acme", first[0].key))
    assert run.planned_at == clock() - timedelta(hours=3)
    assert (run.state, run.origin, run.attempt) == (WorkState.AVAILABLE, "scheduled", 0)
    assert ledger.runs.item("acme", run.run_id) == first[0]
    assert clock() < _due_at(ledger, "bob") <= clock() + timedelta(days=1)
    assert [run.agent_id for run in _claimed(ledger, DAILY, limit=9)] == ["ada"]
    assert _claimed(ledger, DAILY, limit=9) == ()


def test_an_agent_that_slept_through_many_slots_gets_one_run(ledger: Ledger, clock: StoppedClock) -> None:
    ledger.agents.register("acme", ["ada"], interval=HOURLY)
    slot = _due_at(ledger, "ada")
    clock.advance(timedelta(days=10))
    (item,) = _claimed(ledger, HOURLY, limit=9)
    run = present(ledger.runs.get("acme", item.key))
    assert run.planned_at == slot
    assert clock() < _due_at(ledger, "ada") <= clock() + timedelta(hours=1)


def test_an_agent_with_an_active_run_gets_no_second_one_and_blocks_nobody(ledger: Ledger, clock: StoppedClock) -> None:
    ledger.agents.register("acme", ["ada", "bob"], interval=HOURLY)
    assert ledger.runs.create(NewRun(company="acme", agent_id="ada", origin="manual", planned_at=clock())) is not None
    ledger.agents.set_due("acme", "ada", clock() - timedelta(hours=2))
    ledger.agents.set_due("acme", "bob", clock() - timedelta(hours=1))
    assert _claimed(ledger, HOURLY, limit=1) == ()
    assert [run.agent_id for run in _claimed(ledger, HOURLY, limit=1)] == ["bob"]
    assert _due_at(ledger, "ada") > clock()


def test_paused_agents_and_agents_that_are_never_due_are_left_alone(ledger: Ledger, clock: StoppedClock) -> None:
    ledger.agents.register("acme", ["ada", "bob"], interval=DAILY)
    ledger.agents.pause("acme", "ada")
    ledger.agents.put(AgentSpec(company="acme", agent_id="bob", interval=NEVER))
    clock.advance(timedelta(days=30))
    assert _claimed(ledger, DAILY, limit=9) == ()
    ledger.agents.resume("acme", "ada")
    assert [run.agent_id for run in _claimed(ledger, DAILY, limit=9)] == ["ada"]


def test_a_company_that_is_never_due_still_serves_agents_with_an_interval_of_their_own(
    ledger: Ledger, clock: StoppedClock
) -> None:
    ledger.agents.register("acme", ["ada"], interval=DAILY)
    ledger.agents.put(AgentSpec(company="acme", agent_id="own", interval=HOURLY))
    clock.advance(timedelta(days=2))
    assert [run.agent_id for run in _claimed(ledger, NEVER, limit=9)] == ["own"]


def test_agents_without_a_slot_are_planned_by_the_next_tick(ledger: Ledger, clock: StoppedClock) -> None:
    ledger.agents.put(AgentSpec(company="acme", agent_id="put"))
    ledger.agents.register("acme", ["registered"], interval=NEVER)
    assert _claimed(ledger, NEVER, limit=9) == ()
    assert _claimed(ledger, DAILY, limit=9) == ()
    for agent_id in ("put", "registered"):
        assert clock() < _due_at(ledger, agent_id) <= clock() + timedelta(days=1)
    clock.advance(timedelta(days=1))
    assert len(_claimed(ledger, DAILY, limit=9)) == 2


def test_a_company_that_shortens_its_interval_is_heard_at_once(ledger: Ledger, clock: StoppedClock) -> None:
    ledger.agents.register("acme", [f"agent-{number}" for number in range(20)], interval=WEEKLY)
    assert _claimed(ledger, HOURLY, limit=99) == ()
    assert all(_due_at(ledger, f"agent-{number}") <= clock() + timedelta(hours=1) for number in range(20))


def test_the_same_slot_makes_one_run_however_often_it_is_due(ledger: Ledger, clock: StoppedClock) -> None:
    ledger.agents.register("acme", ["ada"], interval=DAILY)
    slot = clock() - timedelta(minutes=1)
    ledger.agents.set_due("acme", "ada", slot)
    (item,) = _claimed(ledger, DAILY, limit=9)
    claimed = present(ledger.runs.claim("acme", item.key, lease=timedelta(seconds=45)))
    ledger.runs.finish("acme", item.key, present(claimed.token), state=WorkState.DONE, counts={})
    ledger.agents.set_due("acme", "ada", slot)
    assert _claimed(ledger, DAILY, limit=9) == ()


def test_a_limit_below_one_is_refused(ledger: Ledger) -> None:
    with pytest.raises(MemoryInputError, match="limit"):
        _claimed(ledger, DAILY, limit=0)


@pytest.mark.parametrize("own", [HOURLY, WEEKLY, None])
def test_a_slot_that_a_clock_in_the_future_planned_is_planned_anew(
    own: ConsolidationInterval | None, ledger: Ledger, clock: StoppedClock
) -> None:
    ledger.agents.register("acme", ["ada"], interval=DAILY)
    if own is not None:
        ledger.agents.put(AgentSpec(company="acme", agent_id="ada", interval=own))
    ledger.agents.set_due("acme", "ada", clock() + timedelta(days=400))
    assert _claimed(ledger, DAILY, limit=9) == ()
    assert clock() < _due_at(ledger, "ada") <= clock() + timedelta(days=7)
    clock.advance(timedelta(days=7))
    assert [each.agent_id for each in _claimed(ledger, DAILY, limit=9)] == ["ada"]
