"""What the sweep sends and when, who gets an item that several want, and kills at every transition."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, nullcontext
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from threading import Barrier
from typing import Any

import pytest
from support.active_collections import served
from support.fault_injection import Crash, crashing
from support.ledger_records import COMPANY, StoppedClock, open_lesson
from support.present import present
from support.thorough import also_thorough

from memcore import ids
from memcore.config.urls import LedgerUrls
from memcore.errors import LeaseLostError
from memcore.jobs import EvolvePayload
from memcore.ledger.collections import ReindexKind
from memcore.ledger.ledger import Ledger
from memcore.ledger.llm_answers import Synthesis
from memcore.ledger.runs import NewRun
from memcore.ledger.work_items import (
    REDISPATCH_AFTER,
    TRANSITIONS,
    Work,
    WorkEvent,
    WorkItem,
    WorkKey,
    WorkState,
    add_items,
    new_item,
)
from memcore.models.memory import MemoryCategory

LEASE, MINUTE = timedelta(seconds=45), timedelta(minutes=1)


def add(ledger: Ledger, key: str, *, company: str = COMPANY, kind: str = "noop", agent_id: str | None = None) -> None:
    """Add an item whose message is older than that of the next one."""
    clock = ledger.work._clock
    payload = EvolvePayload(company=company, cycle_id=key, planned_at=clock())
    with ledger.work._database.write() as connection:
        add_items(connection, [new_item(WorkKey(company, kind, key), payload, now=clock(), agent_id=agent_id)])
    assert isinstance(clock, StoppedClock)
    clock.advance(timedelta(seconds=1))


def taken(ledger: Ledger, **asked: Any) -> list[str]:
    return [item.key for item in ledger.work.take_due(**{"limit": 100, **asked})]


def test_companies_and_their_agents_take_turns(ledger: Ledger, clock: StoppedClock) -> None:
    for number in range(3):
        add(ledger, f"ada {number}", agent_id="ada")
    add(ledger, "bob 0", agent_id="bob")
    add(ledger, "bob 1", agent_id="bob")
    add(ledger, "zoe 0", company="zoo", agent_id="ada")
    add(ledger, "all 0", company="zoo")
    clock.advance(REDISPATCH_AFTER)
    assert taken(ledger, limit=4) == ["ada 0", "zoe 0", "bob 0", "all 0"]
    assert taken(ledger) == ["ada 1", "bob 1", "ada 2"]


def test_the_wait_for_the_next_message_doubles_to_an_hour_until_somebody_claims_it(
    ledger: Ledger, clock: StoppedClock
) -> None:
    add(ledger, "one")
    clock.advance(REDISPATCH_AFTER)
    waits = []
    for _ in range(8):
        assert taken(ledger) == ["one"]
        item = present(ledger.work.get(WorkKey(COMPANY, "noop", "one")))
        assert item.dispatch_after is not None
        assert item.dispatched_at == clock()
        waits.append((item.dispatch_after - clock()) / MINUTE)
        clock.advance(item.dispatch_after - clock() - timedelta(microseconds=1))
        assert taken(ledger) == []
        clock.advance(timedelta(microseconds=1))
    assert waits == [2, 4, 8, 16, 32, 64, 64, 64]
    ledger.work.hasten(COMPANY)
    assert taken(ledger) == ["one"]
    clock.advance(REDISPATCH_AFTER)
    assert taken(ledger) == ["one"]


def test_a_sweep_leaves_out_kinds_and_other_companies(ledger: Ledger, clock: StoppedClock) -> None:
    add(ledger, "a")
    add(ledger, "b", kind="other")
    add(ledger, "c", company="zoo")
    clock.advance(REDISPATCH_AFTER)
    assert taken(ledger, without={"noop"}) == ["b"]
    assert taken(ledger, company="zoo") == ["c"]
    assert len(ledger.work.open(COMPANY, "noop")) == 1
    assert taken(ledger) == ["a"]


def test_two_sweeps_at_once_send_an_item_once(ledger: Ledger, clock: StoppedClock) -> None:
    for number in range(40):
        add(ledger, f"{number:02}")
    clock.advance(REDISPATCH_AFTER)
    sent = at_once(4, lambda: taken(ledger, limit=10))
    assert sorted(key for keys in sent for key in keys) == sorted({key for keys in sent for key in keys})
    assert sorted([key for keys in sent for key in keys] + taken(ledger)) == [f"{number:02}" for number in range(40)]


def test_of_several_workers_one_gets_the_item(ledger: Ledger, clock: StoppedClock) -> None:
    cycle = present(ledger.skill_cycles.plan(COMPANY, origin="scheduled", planned_at=clock(), window=MINUTE))
    for _ in range(2):  # a free item, then one whose lease has ended
        claims = at_once(4, lambda: ledger.skill_cycles.claim(COMPANY, cycle.cycle_id, lease=LEASE))
        assert sum(claim is not None for claim in claims) == 1
        clock.advance(LEASE)


def at_once(count: int, act: Callable[[], Any]) -> list[Any]:
    barrier = Barrier(count)

    def one() -> Any:
        barrier.wait()
        return act()

    with ThreadPoolExecutor(count) as threads:
        return [each.result() for each in [threads.submit(one) for _ in range(count)]]


# Kills at every transition


def _cycle(ledger: Ledger, company: str, now: datetime) -> str:
    cycle = present(ledger.skill_cycles.plan(company, origin="scheduled", planned_at=now, window=MINUTE))
    return cycle.cycle_id


def _run(ledger: Ledger, company: str, now: datetime) -> str:
    run = present(ledger.runs.create(NewRun(company=company, agent_id="ada", planned_at=now)))
    return run.run_id


def _lesson(ledger: Ledger, company: str, _now: datetime) -> str:
    assert open_lesson(ledger, company, "ada", "lesson")
    return "lesson"


def _synthesis(ledger: Ledger, company: str, _now: datetime) -> str:
    part = Synthesis(
        run_id="run", place=0, company=company, agent_id="ada", category=MemoryCategory.SOCIAL, source_ids=("a", "b")
    )
    ledger.syntheses.plan([part])
    return part.key


def _reindex(ledger: Ledger, company: str, _now: datetime) -> str:
    version = ledger.collection_pointers.adopt(company, served("one")).version
    ledger.collection_pointers.begin(company, version=version, target=served("two"), kind=ReindexKind.FORWARD, total=1)
    reindex = present(ledger.reindexes.last(company))
    return reindex.reindex_id


#: How an item of each kind on its way is made; it returns the item's key. No message asks for a question to a model.
KINDS: dict[str, Callable[[Ledger, str, datetime], str]] = {
    "skill_cycles": _cycle,
    "runs": _run,
    "lessons": _lesson,
    "syntheses": _synthesis,
    "reindexes": _reindex,
}

#: What brings an item into each state.
PATHS: dict[WorkState, tuple[WorkEvent, ...]] = {
    WorkState.AVAILABLE: (),
    WorkState.WAITING: ("claim", "wait"),
    WorkState.LEASED: ("claim",),
    WorkState.HELD: ("claim", "hold"),
    WorkState.DONE: ("claim", "finish"),
    WorkState.SKIPPED: ("preempt",),
    WorkState.FAILED: ("claim", "fail"),
    WorkState.DISMISSED: ("dismiss",),
}

ENDED = {WorkState.DONE, WorkState.SKIPPED, WorkState.FAILED, WorkState.DISMISSED}


class Worker:
    """Does what a message asks for, and is killed when it should be."""

    def __init__(self, ledger: Ledger, clock: StoppedClock, kind: str) -> None:
        self.ledger, self.clock = ledger, clock
        self.work: Work[Any] = getattr(ledger, kind)
        self.company = f"company of {ids.new_id()}"
        self.key = KINDS[kind](ledger, self.company, clock())
        self.token = "none"
        #: How often it was begun, and how often it ended.
        self.begun, self.ended = 1, 0

    @property
    def item(self) -> WorkItem:
        return self.work.item(self.company, self.key)

    def do(self, event: WorkEvent, act_at: Callable[[], AbstractContextManager[None]] = nullcontext) -> None:
        claimed = None
        with act_at():
            if event == "claim":
                claimed = Work.claim(self.work, self.company, self.key, lease=LEASE)
            elif TRANSITIONS[event].sources == (WorkState.LEASED,):
                self.work._leased(self.company, self.key, self.token, event)
            else:
                assert self.work._move(self.company, self.key, event) is not None
        if event == "claim":
            assert claimed is not None
            self.token = str(self.item.token)
        self.begun += event == "replay"
        self.ended += self.item.state in ENDED

    def recover(self) -> None:
        """Let sweeps, other workers and people go on until the item has ended."""
        for _ in range(3):
            if self.item.state in ENDED - {WorkState.FAILED}:
                return
            self.clock.advance(max(LEASE, REDISPATCH_AFTER))
            if self.item.state is WorkState.HELD:
                self.do("approve")
            elif self.item.state is WorkState.FAILED:
                self.do("replay")
            else:
                for sent in self.ledger.work.take_due(limit=9):
                    assert sent.key == self.key
                    self.do("claim")
                    self.do("finish")
        assert self.item.state is WorkState.DONE


@pytest.mark.parametrize("urls", ["sqlite", *also_thorough("postgresql")], indirect=True)
@pytest.mark.parametrize("kind", ["runs", *also_thorough("skill_cycles", "lessons", "syntheses", "reindexes")])
def test_a_kill_at_any_transition_loses_and_doubles_nothing(urls: LedgerUrls, clock: StoppedClock, kind: str) -> None:
    with closing(Ledger.open(urls, clock=clock)) as ledger:
        for event, transition in TRANSITIONS.items():
            for source in transition.sources:
                kill_at(ledger, clock, kind, event, source)


def kill_at(ledger: Ledger, clock: StoppedClock, kind: str, event: WorkEvent, source: WorkState) -> None:
    worker = Worker(ledger, clock, kind)
    for step in PATHS[source]:
        worker.do(step)
    if source is WorkState.LEASED and event == "claim":
        clock.advance(LEASE)
    before, token = worker.item, worker.token
    with crashing(ledger) as crashes:
        at = 0
        for at in count():  # before each statement, and before the commit: it stays in its state, as any other item
            try:
                worker.do(event, partial(crashes.at, at))
                break
            except Crash:
                assert worker.item == before
    assert at >= (3 if ledger.work._database.dialect == "sqlite" else 1)  # begin, update, commit; or all in one
    # And after the commit: who asked for it has gone, and others go on.
    worker.recover()
    assert worker.ended == worker.begun, (event, source)
    clock.advance(REDISPATCH_AFTER * 64)
    assert ledger.work.take_due(limit=9) == ()
    with pytest.raises(LeaseLostError):
        worker.work.renew(worker.company, worker.key, token, lease=LEASE)
