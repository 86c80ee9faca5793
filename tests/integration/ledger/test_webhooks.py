"""Events are written with what they tell of: whatever dies when, each is delivered, and none that did not happen."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from support.fault_injection import Crash, Crashes, Faults, crashing
from support.ledger_records import COMPANY, StoppedClock
from support.memories import DAWN
from support.present import present
from support.proposals import proposal
from support.webhook_server import Listener, listening
from support.webhook_world import WebhookWorld, add_hook, happened

from memcore.ledger.attempt import LEASE_LENGTH
from memcore.ledger.dead_letters import NewDeadLetter
from memcore.ledger.ledger import Ledger
from memcore.ledger.llm_usage import Caps, NewCall, Spent
from memcore.ledger.runs import NewRun, Run
from memcore.ledger.work_items import REDISPATCH_AFTER, WorkState
from memcore.models.memory_test import MemoryTest, NamedMemory, Outcome
from memcore.models.webhook import EventNotice, WebhookEventType

DAY = timedelta(days=1)
RUN = NewRun(company=COMPANY, agent_id="ada", planned_at=DAWN)


@pytest.fixture
def world(ledger: Ledger, clock: StoppedClock, listener: Listener) -> WebhookWorld:
    ledger.companies.register(COMPANY)
    add_hook(ledger, listener.url)
    return WebhookWorld(ledger, clock, listener)


@pytest.fixture
def crashes(ledger: Ledger) -> Iterator[Crashes]:
    with crashing(ledger) as made:
        yield made


def _claimed(ledger: Ledger) -> tuple[str, str]:
    ledger.runs.create(RUN)
    run = present(ledger.runs.claim(COMPANY, RUN.run_id, lease=LEASE_LENGTH))
    return run.run_id, run.token or ""


def _ends(state: WorkState) -> Callable[[Ledger], Callable[[], object]]:
    def prepare(ledger: Ledger) -> Callable[[], object]:
        run_id, token = _claimed(ledger)
        return lambda: ledger.runs.finish(COMPANY, run_id, token, state=state, counts={"pruned": 2}, reason="why")

    return prepare


def _fails(ledger: Ledger) -> Callable[[], object]:
    run_id, token = _claimed(ledger)
    return lambda: ledger.runs.fail(COMPANY, run_id, token, "an error may quote hunter2")


def _dies(ledger: Ledger) -> Callable[[], object]:
    letter = NewDeadLetter(
        job_id="j", company=COMPANY, job="store", queue="memory.store", payload='"hunter2"', reason="no", attempts=3
    )
    return lambda: ledger.dead_letters.put(letter)


def _files(ledger: Ledger) -> Callable[[], object]:
    return lambda: ledger.approvals.file(COMPANY, "one", proposal("hunter2"), lasts=DAY)


def _spends(ledger: Ledger) -> Callable[[], object]:
    call = NewCall(
        company=COMPANY, agent_id="ada", run_id="r", question_id="q", purpose="test", model="m",
        most=Spent(prompt_tokens=9),
    )  # fmt: skip
    return lambda: ledger.spending.reserve(call, caps=Caps(tokens=5))


def _breaks(ledger: Ledger) -> Callable[[], object]:
    test = MemoryTest(agent="ada", name="lift", question="hunter2", finds=(NamedMemory(text="hunter2"),))
    ledger.memory_tests.register(COMPANY, [test], notes=[])
    (kept,) = ledger.memory_tests.list(COMPANY)
    failed = kept.model_copy(update={"outcome": Outcome.FAILED, "reasons": ("hunter2",), "run_id": "r"})
    return lambda: ledger.memory_tests.keep(COMPANY, [failed, failed])


def _run_state(ledger: Ledger) -> str:
    run = ledger.runs.get(COMPANY, RUN.run_id)
    assert isinstance(run, Run)
    return run.state


#: What happens; whether it has; and what its body says.
HAPPENS: dict[str, tuple[Callable[[Ledger], Callable[[], object]], Callable[[Ledger], bool], dict[str, Any]]] = {
    "run.held": (
        _ends(WorkState.HELD),
        lambda ledger: _run_state(ledger) == WorkState.HELD,
        {"agent_id": "ada", "state": "held", "reason": "why", "counts": {"pruned": 2}},
    ),
    "run.finished": (
        _ends(WorkState.DONE),
        lambda ledger: _run_state(ledger) == WorkState.DONE,
        {"agent_id": "ada", "state": "done", "counts": {"pruned": 2}},
    ),
    "run.failed": (_fails, lambda ledger: _run_state(ledger) == WorkState.FAILED, {"agent_id": "ada"}),
    "job.dead": (_dies, lambda ledger: ledger.dead_letters.get("j") is not None, {"job_id": "j", "attempts": 3}),
    "approval.filed": (_files, lambda ledger: ledger.approvals.get(COMPANY, "one") is not None, {"approval_id": "one"}),
    "memory_test.failed": (
        _breaks,
        lambda ledger: len(ledger.memory_tests.failed_of(COMPANY)) == 1,
        {"agent_id": "ada", "test": "lift", "run_id": "r"},
    ),
    "budget.spent": (
        _spends,
        lambda ledger: bool(ledger.spending.waiting(COMPANY, ledger.spending._clock().date())),
        {"agent_id": "ada", "run_id": "r", "tokens": 0},
    ),
}


@pytest.mark.parametrize("event", sorted(HAPPENS))
def test_what_happens_is_announced_once_without_a_text(world: WebhookWorld, event: str) -> None:
    prepare, has_happened, expected = HAPPENS[event]
    prepare(world.ledger)()
    assert has_happened(world.ledger)
    world.work()
    (data,) = world.heard(event)
    assert expected.items() <= data.items()
    assert [each["type"] for each in world.listener.heard] == [event]
    assert not any(b"hunter2" in body for _, body in world.listener.requests)


@pytest.mark.parametrize("event", sorted(HAPPENS))
def test_an_event_is_there_exactly_when_it_happened_whatever_dies(
    world: WebhookWorld, crashes: Crashes, event: str
) -> None:
    prepare, has_happened, _ = HAPPENS[event]
    go, ledger = prepare(world.ledger), world.ledger
    for statement in range(40):
        try:
            with crashes.at(statement):
                go()
        except Crash:
            # The event and what it tells of: the one never without the other.
            announced = [each for each in ledger.deliveries.page(COMPANY) if each.event == event]
            assert bool(announced) == has_happened(ledger)
            continue
        break
    else:
        pytest.fail("it never went through")
    assert statement > 2
    assert has_happened(ledger)
    world.work()
    assert len(world.heard(event)) == 1


def test_a_worker_may_die_at_any_call_and_the_event_arrives(ledger: Ledger, world: WebhookWorld) -> None:
    reached = 0
    for at in range(20):
        before = len(world.listener.requests)
        happened(ledger)
        faults = Faults(at)
        dying = WebhookWorld(faults.ledger(ledger), world.clock, world.listener)
        (delivery_id,) = world.due()
        try:
            asyncio.run(dying.service.run(delivery_id))
        except Crash:
            reached += 1
        else:
            break
        # Its lease ends, or nobody claimed it, and the sweep sends the message again.
        world.clock.advance(max(LEASE_LENGTH, REDISPATCH_AFTER))
        world.work()
        after = present(ledger.deliveries.get(COMPANY, delivery_id))
        assert after.state is WorkState.DONE
        sent = {headers["webhook-id"] for headers, _ in world.listener.requests[before:]}
        assert len(sent) == 1
    assert reached >= 3


def test_canaries_that_are_late_are_delivered_by_other_workers(world: WebhookWorld) -> None:
    world.ledger.webhooks.announce(COMPANY, EventNotice(event=WebhookEventType.CANARY_LATE, cause="since"))
    happened(world.ledger)
    queues = {item.queue for item in world.ledger.work.take_due(limit=9)}
    assert queues == {"memory.control", "memory.distill"}


@pytest.mark.parametrize("event", sorted(HAPPENS))
def test_without_a_webhook_nothing_is_written(ledger: Ledger, event: str) -> None:
    prepare, has_happened, _ = HAPPENS[event]
    prepare(ledger)()
    assert has_happened(ledger)
    assert ledger.deliveries.page(COMPANY) == ()


def test_each_company_gets_its_own(ledger: Ledger, clock: StoppedClock, listener: Listener) -> None:
    with listening() as others:
        for company, url in ((COMPANY, listener.url), ("globex", others.url)):
            ledger.companies.register(company)
            add_hook(ledger, url, company=company)
        happened(ledger, company="globex")
        mine, theirs = WebhookWorld(ledger, clock, listener), WebhookWorld(ledger, clock, others, company="globex")
        assert (mine.work(), theirs.work()) == (0, 1)
        assert (len(listener.requests), len(others.requests)) == (0, 1)
        (delivery,) = ledger.deliveries.page("globex")
        assert ledger.deliveries.get(COMPANY, delivery.delivery_id) is None
