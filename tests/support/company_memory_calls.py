"""Calls and views of a company's keyed memories, core places, cached orders and measures; see test_companies."""

from collections.abc import Callable
from datetime import timedelta

from memcore.ledger.ledger import Ledger
from memcore.ledger.monitoring.measures import MeasureName
from memcore.models.memory import EARLIEST, LATEST
from support.ledger_records import StoppedClock

Call = Callable[[Ledger, StoppedClock, str], object]

AGENT = "ada"

#: Later than every row.
LATE = timedelta(days=400)


def _pointed(ledger: Ledger, clock: StoppedClock, company: str) -> object:
    return ledger.keys.point(
        company, AGENT, namespace="default", key="home", memory_id=f"memory of {company}", sent_at=clock()
    )


def _claimed(ledger: Ledger, clock: StoppedClock, company: str) -> object:
    return ledger.keys.claim(
        company, AGENT, namespace="default", key="home", memory_id="claimed", sent_at=clock(), before="memory of acme"
    )


WRITES: dict[str, Call] = {
    "keys.claim": _claimed,
    "keys.point": _pointed,
    "core_slots.claim": lambda ledger, _, c: ledger.core_slots.claim(c, AGENT, "core", stored=(), most=1),
    "core_slots.free": lambda ledger, _, c: ledger.core_slots.free(c, AGENT, "core"),
    "answers.touch": lambda ledger, _, c: ledger.answers.touch(c, "question of acme"),
    "answers.trim": lambda ledger, clock, c: ledger.answers.trim(c, "test", before=clock() + LATE, keep=0),
    "measures.note": lambda ledger, clock, c: ledger.measures.note(c, MeasureName.CANARY_FOUND, 3.0, at=clock()),
    "measures.begin": lambda ledger, clock, c: ledger.measures.begin(c, MeasureName.CANARY_SENT, 1.0, at=clock()),
    "measures.add": lambda ledger, _, c: ledger.measures.add(c, MeasureName.MEMORIES_STORED, 5.0),
}

VIEWS: dict[str, Call] = {
    "keys.of": lambda ledger, _, c: ledger.keys.of(c, AGENT, namespace="default", key="home"),
    "core_slots.taken": lambda ledger, _, c: ledger.core_slots.taken(c, AGENT),
    "activity.archived_at": lambda ledger, clock, c: ledger.activity.archived_at(c, AGENT, [clock() + LATE]),
    "activity.first_run_at": lambda ledger, _, c: ledger.activity.first_run_at(c, AGENT),
    "activity.recent": lambda ledger, _, c: ledger.activity.recent(c, since=EARLIEST, most=9),
    "activity.tested": lambda ledger, _, c: ledger.activity.tested(c, since=EARLIEST, most=9),
    "activity.removed": lambda ledger, _, c: ledger.activity.removed(c, AGENT, since=EARLIEST, until=LATEST),
    "activity.runs_between": lambda ledger, _, c: ledger.activity.runs_between(
        c, AGENT, since=EARLIEST, until=LATEST, most=9
    ),
    "figures.runs": lambda ledger, _, c: ledger.figures.runs(c, since=EARLIEST),
    "measures.of": lambda ledger, _, c: ledger.measures.of([c]),
}

#: Writes of the first company, before the other one begins.
BEGUN = ("keys.point", "core_slots.claim", "measures.note", "measures.add")
