"""The queue against a model of it: every event, two workers with old tokens, sweeps, a clock, and crashes."""

from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from sqlalchemy import delete, select
from support.fault_injection import Crash, Crashes, crashing
from support.ledger_records import StoppedClock
from support.thorough import THOROUGH, examples, sized

from memcore.config.urls import LedgerUrls
from memcore.errors import LeaseLostError, MemoryNotFoundError, MemoryStoreError
from memcore.jobs import EvolvePayload
from memcore.ledger.learning.skill_cycles import Cycle, SkillCycles
from memcore.ledger.ledger import Ledger
from memcore.ledger.tables import skill_cycles, work_items
from memcore.ledger.work_items import REDISPATCH_AFTER, TRANSITIONS, WorkEvent, WorkItem, new_item

LEASE = timedelta(seconds=45)

#: The longest that an item waits for its next message, however often nobody claimed it.
LONGEST_WAIT = REDISPATCH_AFTER * 32

READY = {"available", "waiting"}
OPEN = READY | {"leased"}
ENDED = {"done", "skipped", "failed", "dismissed"}

#: From which states each event leads that no worker's token is needed for.
WITHOUT_TOKEN: dict[WorkEvent, set[str]] = {
    "postpone": READY,
    "wake": {"waiting"},
    "approve": {"held"},
    "dismiss": READY | {"held"},
    "cancel": OPEN,
    "preempt": READY,
    "settle": READY,
    "refuse": READY,
    "replay": ENDED,
}

#: To which states a worker moves what it holds.
WITH_TOKEN: dict[WorkEvent, str] = {
    "release": "available",
    "renew": "leased",
    "wait": "waiting",
    "finish": "done",
    "skip": "skipped",
    "fail": "failed",
    "hold": "held",
}


def test_the_model_knows_every_event() -> None:
    assert {"claim", *WITHOUT_TOKEN, *WITH_TOKEN} == set(TRANSITIONS)


@dataclass
class Item:
    """What an item must be."""

    agent_id: str | None
    lock: str | None
    has_message: bool
    dispatch_after: datetime | None
    state: str = "available"
    tokens: list[str] = field(default_factory=list)
    lease_until: datetime | None = None
    attempt: int = 0
    dispatches: int = 0
    reason: str | None = None
    report: dict[str, Any] | None = None
    is_finished: bool = False

    @property
    def shown(self) -> dict[str, Any]:
        is_leased = self.state == "leased"
        return {
            "agent_id": self.agent_id,
            "lock": self.lock,
            "state": self.state,
            "token": self.tokens[-1] if is_leased else None,
            "lease_until": self.lease_until if is_leased else None,
            "attempt": self.attempt,
            "dispatches": self.dispatches,
            "dispatch_after": self.dispatch_after,
            "reason": self.reason,
        }

    def moved(self, state: str, now: datetime, *, at: datetime | None, reason: str | None) -> None:
        self.state, self.reason = state, reason
        if state in ENDED:
            self.dispatch_after = None
        elif state == "available":
            self.dispatches = 0
            self.dispatch_after = now + REDISPATCH_AFTER if self.has_message else None
        elif state == "waiting" and self.has_message:
            self.dispatch_after = at


SHOWN = tuple(Item(None, None, has_message=False, dispatch_after=None).shown)

Name = tuple[str, str]

#: Two in one company, so that a lock may be taken, and one of the same key in another.
NAMES: tuple[Name, ...] = (("acme", "a"), ("acme", "b"), ("zoo", "a"))
names = st.sampled_from(NAMES)
LOCKS = (None, "maintain")

#: Who acts; a name that is listed twice acts more often.
WHO = (
    *("worker", "worker", "worker", "other worker", "late worker", "late worker", "person", "person", "late person"),
    *("sweep", "sweep", "company", "engine"),
)


class WorkItemsMachine(RuleBasedStateMachine):
    """The cycles of the skill evolver, whose rows stand for those of every kind, beside their model."""

    def __init__(self, ledger: Ledger, clock: StoppedClock, crashes: Crashes) -> None:
        super().__init__()
        self.ledger, self.clock, self.crashes = ledger, clock, crashes
        self.work: SkillCycles = ledger.skill_cycles
        self.model: dict[Name, Item] = {}
        self.before: object = None
        self.is_refused = False

    @initialize(drawn=st.fixed_dictionaries({name: st.tuples(st.sampled_from(LOCKS), st.booleans()) for name in NAMES}))
    def start(self, drawn: dict[Name, tuple[str | None, bool]]) -> None:
        with self.ledger.work._database.write() as connection:
            connection.execute(delete(work_items))
            connection.execute(delete(skill_cycles))
        for name, (lock, has_message) in drawn.items():
            self.add(name, lock, None, has_message=has_message, crash=None)

    # What is done

    def add(self, name: Name, lock: str | None, agent_id: str | None, has_message: bool, crash: int | None) -> None:
        now, (company, key) = self.clock(), name
        payload = EvolvePayload(company=company, cycle_id=key, planned_at=now) if has_message else None
        row = new_item(self.work._name(company, key), payload, now=now, agent_id=agent_id, lock=lock)
        own = Cycle(cycle_id=key, origin="scheduled", planned_at=now, window_start=now, window_end=now)

        def add() -> frozenset[str]:
            with self.work._database.write() as connection:
                values = own.model_dump(include=set(skill_cycles.c.keys())) | {"company": company}
                return self.work._insert(connection, {key: values | {"report": None}}, [row])

        is_new = name not in self.model and not self.is_locked(company, lock)
        if self.tried(add, crash) is not None:
            return
        if is_new:
            self.model[name] = Item(agent_id, lock, has_message, now + REDISPATCH_AFTER if has_message else None)

    @rule(
        seconds=st.sampled_from((0, 0, 0, 1, 45, 120, 3600)),
        who=st.sampled_from(WHO),
        name=names,
        pick=st.integers(0, 55),
        minutes=st.integers(0, 30),
        crash=st.sampled_from((None, None, None, 1, 2, 3)),
    )
    def step(self, seconds: int, who: str, name: Name, pick: int, minutes: int, crash: int | None) -> None:
        """Let somebody do something; one rule, since the search leaves out some of several in each example."""
        self.clock.advance(timedelta(seconds=seconds))
        item = self.model.get(name)
        state = None if item is None else item.state
        leased, unleased = tuple(WITH_TOKEN), tuple(WITHOUT_TOKEN)
        if who == "worker":  # that wants it, or has it
            if state == "leased":
                self.move_leased(name, leased[pick % len(leased)], 0, minutes, crash)
            else:
                self.claim(name, crash, is_answer_lost=False)
        elif who == "other worker":  # that claims it, perhaps after the end of the lease, and dies
            self.clock.advance(LEASE if pick % 2 else timedelta(0))
            self.claim(name, crash, is_answer_lost=True)
        elif who == "late worker":  # that believes that it still has it: a claim or two ago it did
            self.move_leased(name, leased[pick % len(leased)], 1 + pick % 2, 0, crash)
        elif who == "person":
            possible: list[WorkEvent] = [what for what in unleased if state in WITHOUT_TOKEN[what]] or list(unleased)
            self.move(name, possible[pick % len(possible)], minutes, crash)
        elif who == "late person":  # who saw another state
            self.move(name, unleased[pick % len(unleased)], 0, crash)
        elif who == "sweep":
            self.sweep((None, None, *{each[0] for each in NAMES})[pick % 4], 1 + pick % 3, crash)
        elif who == "company":
            self.hasten(name[0], crash)
        elif item is None:
            self.add(name, LOCKS[pick % 2], "ada", has_message=pick % 3 > 0, crash=crash)
        else:
            self.drop(name, crash)

    def claim(self, name: Name, crash: int | None, *, is_answer_lost: bool) -> None:
        found: list[Cycle | None] = []
        if self.tried(lambda: found.append(self.work.claim(*name, lease=LEASE)), crash) is not None:
            return
        item, now = self.model.get(name), self.clock()
        is_free = item is not None and (
            item.state in READY or (item.state == "leased" and item.lease_until is not None and item.lease_until <= now)
        )
        assert (found[0] is not None) == is_free
        if item is None or found[0] is None:
            return
        assert found[0].token is not None
        assert found[0].token not in item.tokens
        item.tokens.append(found[0].token)
        if is_answer_lost:  # the worker died before it knew that it holds the item
            item.tokens.insert(-1, "never issued")
        item.state, item.reason, item.dispatches, item.attempt = "leased", None, 0, item.attempt + 1
        self.renewed(item)

    def move_leased(self, name: Name, what: WorkEvent, worker: int, minutes: int, crash: int | None) -> None:
        """A worker with the token of now, or with one of before, which must not write."""
        item, now = self.model.get(name), self.clock()
        token = item.tokens[-1 - worker] if item is not None and worker < len(item.tokens) else "never issued"
        is_holder = item is not None and item.state == "leased" and worker == 0
        at, report = now + timedelta(minutes=minutes), {"written by": token, "as": what}
        values: dict[str, Any] = (
            {"dispatch_after": at} if what == "wait" and item is not None and item.has_message else {}
        )

        def move() -> None:
            if what == "renew":
                self.work.renew(*name, token, lease=LEASE)
            else:
                self.work._leased(*name, token, what, own={"report": report}, reason=what, **values)

        refused = self.tried(move, crash)
        if isinstance(refused, Crash):
            return
        if item is None:
            assert isinstance(refused, MemoryNotFoundError)
        elif not is_holder:
            assert isinstance(refused, LeaseLostError)
        else:
            assert refused is None
            if what == "renew":
                self.renewed(item)
            else:
                item.report = report
                item.moved(WITH_TOKEN[what], now, at=at, reason=what)

    def move(self, name: Name, what: WorkEvent, minutes: int, crash: int | None) -> None:
        """A person, another item or the clock moves what no worker holds."""
        item, now = self.model.get(name), self.clock()
        at, report = now + timedelta(minutes=minutes), {"as": what}
        values: dict[str, Any] = (
            {"dispatch_after": at} if what == "postpone" and item is not None and item.has_message else {}
        )
        found: list[Cycle | None] = []
        refused = self.tried(
            lambda: found.append(self.work._move(*name, what, own={"report": report}, reason=what, **values)), crash
        )
        target = str(TRANSITIONS[what].target)
        may = item is not None and item.state in WITHOUT_TOKEN[what]
        if (
            item is not None
            and may
            and item.state not in OPEN
            and target in OPEN
            and self.is_locked(name[0], item.lock)
        ):
            assert refused is not None
            assert isinstance(refused, MemoryStoreError | Crash)
        elif refused is None:
            assert (found[0] is not None) == may
            if item is not None and may:
                item.report = report
                item.moved(target, now, at=at, reason=what)

    def sweep(self, company: str | None, limit: int, crash: int | None) -> None:
        now, taken = self.clock(), list[WorkItem]()
        due = {
            name
            for name, item in self.model.items()
            if item.state in OPEN
            and company in {None, name[0]}
            and item.dispatch_after is not None
            and item.dispatch_after <= now
        }
        if self.tried(lambda: taken.extend(self.ledger.work.take_due(limit=limit, company=company)), crash) is not None:
            return
        sent = [(each.company, each.key) for each in taken]
        assert len(sent) == len(set(sent)) == min(limit, len(due))
        assert due.issuperset(sent)
        # Companies take turns: one that has items left got as many as the others, but for one.
        of, more = Counter(name[0] for name in sent), Counter(name[0] for name in due)
        assert all(of[one] + 1 >= of[other] for one in more for other in more if of[one] < more[one])
        for name in sent:
            item = self.model[name]
            item.dispatch_after = now + REDISPATCH_AFTER * 2 ** min(item.dispatches, 5)
            item.dispatches += 1

    def hasten(self, company: str, crash: int | None) -> None:
        if self.tried(lambda: self.ledger.work.hasten(company), crash) is None:
            for (whose, _), item in self.model.items():
                if whose == company and item.state in READY and item.has_message:
                    item.dispatch_after, item.dispatches = self.clock(), 0

    def drop(self, name: Name, crash: int | None) -> None:
        company, cycle_id = name
        if self.tried(lambda: self.work._drop(company, skill_cycles.c.cycle_id == cycle_id), crash) is None:
            self.model.pop(name, None)

    # What must hold

    @invariant()
    def the_tables_are_as_the_model_says(self) -> None:
        items, reports = rows = self.rows()
        if self.is_refused:
            assert rows == self.before, "something remained of what was refused, or crashed"
        self.before, self.is_refused = rows, False
        shown = {name: {column: row[column] for column in SHOWN} for name, row in items.items()}
        assert shown == {name: item.shown for name, item in self.model.items()}
        assert reports == {name: item.report for name, item in self.model.items()}
        for row in items.values():
            assert (row["token"] is not None) == (row["lease_until"] is not None) == (row["state"] == "leased")
            assert (row["finished_at"] is not None) == (row["state"] in ENDED)
            if row["payload"] is not None and row["state"] in OPEN:
                assert row["dispatch_after"] <= self.clock() + LONGEST_WAIT
        held = Counter((row["company"], row["lock"]) for row in items.values() if row["state"] in OPEN and row["lock"])
        assert all(count == 1 for count in held.values())

    def teardown(self) -> None:
        """Whatever happened, the sweep finds every open item with a message, and nothing else."""
        self.clock.advance(LONGEST_WAIT)
        sent = {(each.company, each.key) for each in self.ledger.work.take_due(limit=100)}
        assert sent == {name for name, item in self.model.items() if item.state in OPEN and item.has_message}

    # How

    def tried(self, act: Callable[[], object], crash: int | None) -> BaseException | None:
        """Do it, and return what was raised."""
        try:
            with self.crashes.at(crash):
                act()
        except (Crash, LeaseLostError, MemoryNotFoundError, MemoryStoreError) as error:
            self.is_refused = True
            return error
        return None

    def rows(self) -> tuple[dict[Name, Any], dict[Name, Any]]:
        with self.ledger.work._database.read() as connection:
            items = connection.execute(select(work_items)).mappings().all()
            cycles = connection.execute(select(skill_cycles)).mappings().all()
        return (
            {(row["company"], row["key"]): dict(row) for row in items},
            {(row["company"], row["cycle_id"]): row["report"] for row in cycles},
        )

    def is_locked(self, company: str, lock: str | None) -> bool:
        return lock is not None and any(
            whose == company and item.lock == lock and item.state in OPEN for (whose, _), item in self.model.items()
        )

    def renewed(self, item: Item) -> None:
        item.lease_until = self.clock() + LEASE
        item.dispatch_after = item.lease_until if item.has_message else None


def test_the_queue_does_what_the_model_says(urls: LedgerUrls) -> None:
    clock = StoppedClock()
    with closing(Ledger.open(urls, clock=clock)) as ledger, crashing(ledger) as crashes:
        run_state_machine_as_test(
            lambda: WorkItemsMachine(ledger, clock, crashes),  # type: ignore[arg-type]  # any factory will do
            settings=settings(
                max_examples=examples(8),
                stateful_step_count=sized(30, thorough=80),
                # To shrink what fails takes longer than a test may: make test-thorough does it.
                phases=set(Phase) if THOROUGH else set(Phase) - {Phase.shrink, Phase.explain},
            ),
        )
