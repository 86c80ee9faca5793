"""The last tick of each company, as doctor reads it."""

from datetime import timedelta

from support.ledger_records import StoppedClock

from memcore.ledger.agents import AgentSpec, Tick
from memcore.ledger.ledger import Ledger
from memcore.models.memory import ConsolidationInterval

DAILY = ConsolidationInterval.DAILY
NEVER = ConsolidationInterval.NEVER


def test_the_last_tick_of_a_company_is_known_and_no_other(ledger: Ledger, clock: StoppedClock) -> None:
    assert ledger.ticks.last("acme") is None
    ledger.ticks.note("acme", sent=3)
    first = clock()
    assert ledger.ticks.last("acme") == Tick(ended_at=first, sent=3)
    clock.advance(timedelta(seconds=10))
    ledger.ticks.note("acme", sent=0)
    ledger.ticks.note("other", sent=9)
    assert ledger.ticks.last("acme") == Tick(ended_at=first + timedelta(seconds=10), sent=0)


def test_late_are_those_whom_a_tick_should_have_taken(ledger: Ledger, clock: StoppedClock) -> None:
    ledger.agents.register("acme", ["ada", "bob", "cy"], interval=DAILY)
    ledger.agents.put(AgentSpec(company="acme", agent_id="own", interval=DAILY))
    ledger.agents.pause("acme", "cy")
    assert ledger.agents.late("acme", interval=DAILY, before=clock()) == 0
    clock.advance(timedelta(days=2))
    assert ledger.agents.late("acme", interval=DAILY, before=clock()) == 3
    assert ledger.agents.late("acme", interval=NEVER, before=clock()) == 1
    assert ledger.agents.late("acme", interval=DAILY, before=clock() - timedelta(days=2)) == 0
    assert ledger.agents.late("other", interval=DAILY, before=clock()) == 0
