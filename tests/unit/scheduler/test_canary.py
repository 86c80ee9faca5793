"""The canary: sent as an engine's memory is, found by a search, one at a time, and nobody's memory."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from support.job_contexts import RecordingDispatcher, RecordingService, ScriptedContext
from support.ledger_records import StoppedClock
from support.webhook_world import add_hook

from memcore.backends.inmemory import InMemoryBackend
from memcore.canary import LATE_AFTER, SENT_AGAIN_AFTER, CanaryService, CanaryState, canary_state
from memcore.client.envelopes import build_payload
from memcore.errors import MemoryConnectionError, MemoryInputError, MemoryRetrievalError
from memcore.ingest import Ingestor
from memcore.jobs import CanaryPayload, Done, StorePayload
from memcore.ledger.work_items import WorkItem
from memcore.models.memory import (
    CANARY_OWNER,
    ConsolidationInterval,
    MemoryCategory,
    MemoryLevel,
    MemoryStoreRequest,
    require_agent_id,
)
from memcore.records import Where
from scheduler.canary import COMPANIES_A_MINUTE, canary

MINUTE = timedelta(minutes=1)


@dataclass
class StoreWorker:
    """Dispatches as the broker does, and writes as a store worker does, for as long as it runs."""

    context: ScriptedContext
    backend: InMemoryBackend
    takes: timedelta = timedelta(0)
    runs: bool = True
    is_reached: bool = True
    waiting: list[WorkItem] = field(default_factory=list)

    def dispatch(self, items: Iterable[WorkItem]) -> None:
        if not self.is_reached:
            raise MemoryConnectionError("the broker did not take the job")
        self.waiting += items

    async def work(self) -> None:
        while self.runs and self.waiting:
            payload = StorePayload.model_validate_json(self.waiting.pop(0).payload or "")
            clock: Any = self.context.clock
            clock.advance(self.takes)
            ingestor = Ingestor(
                self.backend,
                self.context.ledger,
                company="acme",
                interval=ConsolidationInterval.DAILY,
                level=MemoryLevel.NONE,
            )
            await ingestor.write(payload.items)


class Minutes:
    """A company whose canary job is run once a minute."""

    def __init__(self, context: ScriptedContext) -> None:
        self.context = context
        self.backend = InMemoryBackend(company="acme", clock=context.clock)
        self.worker = StoreWorker(context, self.backend)
        self.service = CanaryService(
            self.backend,
            context.ledger,
            self.worker,
            company="acme",
            clock=context.clock,
            looked_for=timedelta(milliseconds=50),
        )

    def run(self) -> Done:
        clock: Any = self.context.clock
        clock.advance(MINUTE)
        return asyncio.run(self._run())

    async def _run(self) -> Done:
        await self.backend.connect()
        # The first look of the next canary comes behind the worker's write, as it may in a stack.
        task = asyncio.create_task(self.service.run())
        while not task.done():
            await self.worker.work()
            await asyncio.sleep(0)
        outcome = task.result()
        assert isinstance(outcome, Done)
        return outcome

    @property
    def state(self) -> CanaryState:
        found = canary_state(self.context.ledger.measures.of(["acme"]), "acme")
        assert found is not None
        return found

    def stored(self) -> Sequence[Any]:
        return asyncio.run(self.backend.scan(Where(agent_id=CANARY_OWNER))).records


@pytest.fixture
def minutes(job_context: ScriptedContext) -> Minutes:
    return Minutes(job_context)


def test_each_minute_one_is_sent_and_found_and_the_one_before_is_gone(minutes: Minutes, clock: StoppedClock) -> None:
    minutes.worker.takes = timedelta(milliseconds=40)
    for _ in range(3):
        assert minutes.run() == Done(facts={"sent": 1, "found": 1})
    assert minutes.state.seconds == pytest.approx(0.04)
    assert not minutes.state.is_open
    assert minutes.state.age_seconds(clock() + MINUTE) == pytest.approx(60.04)
    assert minutes.state.delay_seconds(clock() + MINUTE) == pytest.approx(0.04)
    assert len(minutes.stored()) == 1


def test_it_is_nobodys_memory(minutes: Minutes) -> None:
    minutes.run()
    # The company keeps no memories (level none), and the canary passes all the same.
    assert minutes.stored()
    assert minutes.context.ledger.agents.counts() == {}
    assert (
        minutes.context.ledger.journal.tombstoned({each.entry.id: each.entry.created_at for each in minutes.stored()})
        == frozenset()
    )
    with pytest.raises(MemoryInputError, match="reserved"):
        require_agent_id(CANARY_OWNER)
    for name in (CANARY_OWNER, f" {CANARY_OWNER} "):
        with pytest.raises(MemoryInputError, match="reserved"):
            build_payload(
                name,
                MemoryStoreRequest(category=MemoryCategory.EPISODIC, content="mine"),
                company="acme",
                sent_at=minutes.context.clock(),
            )


def test_a_path_that_stands_still_gets_no_queue_of_canaries_and_its_delay_grows(
    minutes: Minutes, clock: StoppedClock
) -> None:
    minutes.run()
    minutes.worker.runs = False
    assert minutes.run() == Done(facts={"sent": 1, "found": 0})
    assert minutes.run() == Done(facts={"late_seconds": 60})
    assert len(minutes.worker.waiting) == 1
    assert minutes.state.delay_seconds(clock()) == 60.0
    assert minutes.state.age_seconds(clock()) == 120.0
    minutes.worker.runs = True
    asyncio.run(minutes.worker.work())
    # The late one is found, noted as late, and the next one is sent at once.
    assert minutes.run() == Done(facts={"sent": 1, "found": 1})
    assert minutes.state.delay_seconds(clock()) == 0.0
    assert len(minutes.stored()) == 1


def test_one_that_is_lost_is_given_up_after_ten_minutes(minutes: Minutes, clock: StoppedClock) -> None:
    minutes.worker.runs = False
    minutes.run()
    assert minutes.state.seconds is None
    assert minutes.state.is_open
    first = clock()
    minutes.worker.waiting.clear()
    minutes.worker.runs = True
    for _ in range(SENT_AGAIN_AFTER // MINUTE - 1):
        assert "sent" not in minutes.run().facts
    # Nothing was found so far: the age counts from the first, so that the alert stays.
    assert minutes.state.age_seconds(clock()) == (clock() - first).total_seconds()
    assert minutes.run() == Done(facts={"sent": 1, "found": 1})


def test_an_outage_is_announced_once_after_five_minutes(minutes: Minutes, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = minutes.context.ledger
    add_hook(ledger, "https://hooks.example/", company="acme", events=["canary.late"])

    def announced() -> list[str]:
        return [each.event.value for each in ledger.deliveries.page("acme")]

    minutes.run()
    minutes.worker.runs = False
    for _ in range(LATE_AFTER // MINUTE):
        minutes.run()
    assert announced() == []
    minutes.run()
    assert announced() == ["canary.late"]
    # The canary is given up and sent anew within the same outage.
    for _ in range(2 * (SENT_AGAIN_AFTER // MINUTE)):
        minutes.run()
    assert announced() == ["canary.late"]
    minutes.worker.runs = True
    asyncio.run(minutes.worker.work())
    minutes.run()
    assert not minutes.state.is_open

    # In the next outage the store does not answer at all.
    minutes.worker.runs = False
    minutes.run()
    monkeypatch.setattr(minutes.backend, "retrieve", _away)
    for _ in range(LATE_AFTER // MINUTE + 1):
        with pytest.raises(MemoryRetrievalError):
            minutes.run()
    assert announced() == ["canary.late"] * 2


async def _away(*_given: object) -> None:
    raise MemoryRetrievalError("the store does not answer")


def test_one_that_the_broker_refused_was_not_sent(minutes: Minutes) -> None:
    minutes.run()
    before = minutes.state
    minutes.worker.is_reached = False
    with pytest.raises(MemoryConnectionError):
        minutes.run()
    assert minutes.state == before
    minutes.worker.is_reached = True
    assert minutes.run() == Done(facts={"sent": 1, "found": 1})


def test_the_own_company_sends_the_job_of_every_other_one_that_is_active(job_context: ScriptedContext) -> None:
    for name in ("bolt", "cog", "dent"):
        job_context.ledger.companies.add(name)
    job_context.ledger.companies.pause("cog")
    service, dispatcher = RecordingRun(), job_context.dispatcher
    assert canary.run(CanaryPayload(), service, job_context) == Done(facts={"asked": 1})
    sent = [CanaryPayload.model_validate_json(each.payload or "").company for each in dispatcher.items]
    assert sorted(map(str, sent)) == ["bolt", "dent"]
    canary.run(CanaryPayload(company="acme"), service, job_context)
    assert len(dispatcher.items) == 2
    assert isinstance(dispatcher, RecordingDispatcher)
    assert COMPANIES_A_MINUTE < 1_000


class RecordingRun(RecordingService):
    async def run(self, key: str = "") -> Any:
        return await super().run(key)
