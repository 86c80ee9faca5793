"""Two companies in one ledger, with agents of the same names: what one does is nothing to the other."""

import dataclasses
import inspect
import uuid
from collections.abc import Callable
from datetime import timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ledgers import COMPANY, StoppedClock, make_booking, make_fact

from memcore.jobs.use_payload import Use
from memcore.ledger import Ledger
from memcore.ledger.agent import AgentSpec
from memcore.ledger.dead_letters import NewDeadLetter
from memcore.ledger.run import NewRun
from memcore.models import ConsolidationInterval, MemoryLevel

OTHER = "globex"
AGENT = "ada"
DAILY = ConsolidationInterval.DAILY
FACT = make_fact("the canteen closes at two")
MEMORY = str(uuid.UUID(int=7))

Call = Callable[[Ledger, StoppedClock, str], object]


def _letter(job_id: str, company: str) -> NewDeadLetter:
    return NewDeadLetter(
        job_id=job_id, company=company, job="store", queue="memory.store", payload="{}", reason="no", attempts=3
    )


def _booked(ledger: Ledger, company: str) -> str:
    booking = dataclasses.replace(
        make_booking(uuid.uuid4().hex, run_id=uuid.uuid4().hex, outgoing=(str(uuid.uuid4()),)), company=company
    )
    ledger.journal.prepare(booking)
    ledger.journal.settle(booking.booking_id)
    return booking.run_id


#: What a company does; each takes the company, and aims at ids of the first one's where it takes ids.
WRITES: dict[str, Call] = {
    "agents.register": lambda ledger, _, c: ledger.agents.register(c, [AGENT, "bob"], interval=DAILY),
    "agents.put": lambda ledger, _, c: ledger.agents.put(
        AgentSpec(company=c, agent_id=AGENT, level=MemoryLevel.NONE, retention_days=1)
    ),
    "agents.pause": lambda ledger, _, c: ledger.agents.pause(c, AGENT),
    "agents.resume": lambda ledger, _, c: ledger.agents.resume(c, AGENT),
    "agents.set_due": lambda ledger, clock, c: ledger.agents.set_due(c, AGENT, clock()),
    "agents.claim_due": lambda ledger, _, c: ledger.agents.claim_due(c, interval=DAILY, limit=9),
    "runs.create": lambda ledger, clock, c: ledger.runs.create(NewRun(company=c, agent_id=AGENT, planned_at=clock())),
    "switches.pause": lambda ledger, _, c: ledger.switches.pause(c),
    "switches.resume": lambda ledger, _, c: ledger.switches.resume(c),
    "ticks.note": lambda ledger, _, c: ledger.ticks.note(c, sent=99),
    "dead_letters.put": lambda ledger, _, c: ledger.dead_letters.put(_letter(f"job of {c}", c)),
    "dead_letters.purge": lambda ledger, _, c: ledger.dead_letters.purge(c, [f"job of {COMPANY}"]),
    "dead_letters.purge_older": lambda ledger, clock, c: ledger.dead_letters.purge_older(
        c, before=clock() + timedelta(days=400)
    ),
    "journal.prepare": lambda ledger, _, c: _booked(ledger, c),
    "journal.expire": lambda ledger, clock, c: ledger.journal.expire(c, before=clock() + timedelta(days=400)),
    "journal.hold": lambda ledger, clock, c: ledger.journal.hold(c, AGENT, [MEMORY], until=clock() + timedelta(days=1)),
    "shared_log.publish": lambda ledger, _, c: ledger.shared_log.publish(
        c, make_fact("the canteen closes at three", company=c)
    ),
    "shared_log.retract": lambda ledger, _, c: ledger.shared_log.retract(c, AGENT, FACT.entry.id),
    "shared_log.advance": lambda ledger, _, c: ledger.shared_log.advance(c, ledger.shared_log.standing(c).last),
    "uses.count": lambda ledger, clock, c: ledger.uses.count(
        c, "batch", [Use(agent_id=AGENT, memory_id=MEMORY, uses=2, last_used_at=clock())]
    ),
}

#: All that a company can see of itself.
VIEWS: dict[str, Call] = {
    "agents.get": lambda ledger, _, c: ledger.agents.get(c, AGENT),
    "agents.levels": lambda ledger, _, c: ledger.agents.levels(c, [AGENT, "bob"]),
    "agents.list": lambda ledger, _, c: ledger.agents.list(c),
    "agents.count": lambda ledger, _, c: ledger.agents.count(c),
    "agents.late": lambda ledger, clock, c: ledger.agents.late(c, interval=DAILY, before=clock() + timedelta(days=400)),
    "runs.active": lambda ledger, _, c: ledger.runs.active(c, AGENT),
    "runs.ended": lambda ledger, _, c: ledger.runs.ended(c, AGENT, "end_session", ["s"]),
    "runs.list": lambda ledger, _, c: ledger.runs.list(c),
    "runs.stale": lambda ledger, _, c: ledger.runs.stale(c, queued_for=timedelta(days=-1), limit=99),
    "switches.paused": lambda ledger, _, c: ledger.switches.paused(c),
    "ticks.last": lambda ledger, _, c: ledger.ticks.last(c),
    "dead_letters.count": lambda ledger, _, c: ledger.dead_letters.count(c),
    "dead_letters.ids": lambda ledger, _, c: ledger.dead_letters.ids(c),
    "dead_letters.list": lambda ledger, _, c: ledger.dead_letters.list(c),
    "dead_letters.older": lambda ledger, clock, c: ledger.dead_letters.older(c, before=clock() + timedelta(days=400)),
    "journal.held": lambda ledger, _, c: ledger.journal.held(c, AGENT),
    "journal.open_of": lambda ledger, _, c: [booking.booking_id for booking in ledger.journal.open_of(c, AGENT)],
    "journal.tally": lambda ledger, _, c: ledger.journal.tally(c, AGENT),
    "shared_log.lines": lambda ledger, _, c: [str(line) for line in ledger.shared_log.lines(c)],
    "shared_log.standing": lambda ledger, _, c: ledger.shared_log.standing(c),
    "uses.of": lambda ledger, _, c: ledger.uses.of(c, AGENT, [MEMORY]),
}

#: Calls whose company stands in what they are given.
INSIDE = {"agents.put", "runs.create", "dead_letters.put", "journal.prepare"}


def test_every_call_of_the_ledger_that_names_a_company_is_tried(ledger: Ledger) -> None:
    parts = {name: part for name, part in vars(ledger).items() if not name.startswith("_")}
    named = {
        f"{name}.{call}"
        for name, part in parts.items()
        for call, method in inspect.getmembers(part, inspect.ismethod)
        if not call.startswith("_") and "company" in inspect.signature(method).parameters
    }
    assert named | INSIDE == WRITES.keys() | VIEWS.keys()


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_what_a_company_does_changes_nothing_of_another(
    ledger: Ledger, clock: StoppedClock, data: st.DataObject
) -> None:
    ledger.shared_log.publish(COMPANY, FACT)
    run_id = _booked(ledger, COMPANY)
    for name in ("agents.register", "runs.create", "dead_letters.put", "ticks.note", "uses.count", "journal.hold"):
        WRITES[name](ledger, clock, COMPANY)
    before = {name: view(ledger, clock, COMPANY) for name, view in VIEWS.items()}

    # Somebody's agent must be there before it can be paused.
    for name in ["agents.register", *data.draw(st.permutations(sorted(WRITES)))]:
        WRITES[name](ledger, clock, OTHER)
        assert {each: view(ledger, clock, COMPANY) for each, view in VIEWS.items()} == before, name
    assert ledger.journal.undoable(run_id)
