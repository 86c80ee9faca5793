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
    for company in ("acme", "bolt", "cog"):
        ledger.agents.register(company, ["ada", "bob", "cy"], interval=DAILY)
    ledger.agents.put(AgentSpec(company="acme", agent_id="own", interval=DAILY))
    ledger.agents.pause("acme", "cy")
    ledger.companies.add("acme")
    ledger.companies.add("bolt")
    ledger.companies.note_intervals({"bolt": NEVER})
    ledger.companies.pause("cog")
    assert ledger.agents.late(default=DAILY, before=clock()) == {}
    clock.advance(timedelta(days=2))
    assert ledger.agents.late(default=DAILY, before=clock()) == {"acme": 3}
    assert ledger.agents.late(default=NEVER, before=clock()) == {"acme": 1}
    assert ledger.agents.late(default=DAILY, before=clock() - timedelta(days=2)) == {}
    ledger.companies.note_intervals({"bolt": DAILY})
    ledger.companies.resume("cog")
    assert ledger.agents.late(default=NEVER, before=clock()) == {"acme": 1, "bolt": 3}
    assert ledger.agents.late(default=DAILY, before=clock()) == {"acme": 3, "bolt": 3, "cog": 3}
    assert ledger.agents.counts() == {"acme": 4, "bolt": 3, "cog": 3}
