"""A write that began before an erasure and ends behind it goes as well, and the receipt is made anew."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.erasure_world import WORD, ErasureWorld
from support.experiences import experience
from support.job_contexts import ScriptedContext
from support.ledger_records import COMPANY, StoppedClock, copied_urls
from support.present import present
from support.store_items import item

from memcore.backends.mem0.backend import Mem0Backend
from memcore.config.policy import Policy
from memcore.config.urls import LedgerUrls
from memcore.erasure.receipt import ErasureReceipt, verified
from memcore.errors import MemoryNotFoundError, MemoryRefusedError
from memcore.jobs import Deferred, Done, ExperiencePayload, Outcome
from memcore.ledger.erasure.erasures import Erasure
from memcore.ledger.ledger import Ledger
from memcore.ledger.work_items import WorkState
from memcore.memories import Memories
from memcore.records import MemoryRecord, Where
from tasks.job import Job
from tasks.learn import record
from workers.celery_task import perform

LEASE = timedelta(seconds=45)


@pytest.fixture
def ledger(urls: LedgerUrls) -> Iterator[Ledger]:
    opened = Ledger.open(urls, clock=StoppedClock())
    yield opened
    opened.close()


def done(ledger: Ledger, erasure_id: str) -> None:
    """End an erasure as its worker does."""
    erasure = present(ledger.erasures.claim(COMPANY, erasure_id, lease=LEASE))
    assert (
        ledger.erasures.finish(
            COMPANY,
            erasure_id,
            str(erasure.token),
            receipt="{}",
            at=erasure.requested_at,
            late_writes=erasure.late_writes,
        )
        is not None
    )


def of(ledger: Ledger, erasure_id: str) -> Erasure:
    return present(ledger.erasures.get(COMPANY, erasure_id))


@pytest.mark.parametrize("subject", [None, "user:p"])
def test_one_that_ended_before_its_write_did_looks_again(ledger: Ledger, subject: str | None) -> None:
    write, other = (ledger.erasures.watch(COMPANY, [each]) for each in ("ada", "bob"))
    erasure_id = ledger.erasures.request(COMPANY, "ada", confirmation=WORD, subject=subject).erasure_id
    # While it waits, it has not looked yet.
    assert ledger.erasures.late(write) == ()
    done(ledger, erasure_id)
    late = ledger.erasures.late(write)
    assert [each.erasure_id for each in late] == [erasure_id]
    assert ledger.erasures.late(other) == ()

    assert ledger.erasures.ask_again(COMPANY, [erasure_id]) == (erasure_id,)
    again = of(ledger, erasure_id)
    assert (again.state, again.receipt, again.late_writes) == (WorkState.AVAILABLE, None, 1)
    assert [each.key for each in ledger.work.take_due(limit=9)] == [erasure_id]
    done(ledger, erasure_id)


def test_what_begins_behind_it_is_a_new_life(ledger: Ledger) -> None:
    erasure_id = ledger.erasures.request(COMPANY, "ada", confirmation=WORD).erasure_id
    done(ledger, erasure_id)
    write = ledger.erasures.watch(COMPANY, ["ada"])
    assert write.barred == frozenset()
    assert ledger.erasures.late(write) == ()


def test_it_signs_nothing_when_a_write_has_ended_since_its_last_look(ledger: Ledger) -> None:
    write = ledger.erasures.watch(COMPANY, ["ada"])
    erasure_id = ledger.erasures.request(COMPANY, "ada", confirmation=WORD).erasure_id
    erasure = present(ledger.erasures.claim(COMPANY, erasure_id, lease=LEASE))
    token = str(erasure.token)
    assert [each.erasure_id for each in ledger.erasures.late(write)] == [erasure_id]
    # It had not ended, so its worker goes on, and looks once more.
    assert ledger.erasures.ask_again(COMPANY, [erasure_id]) == ()
    at = erasure.requested_at
    assert ledger.erasures.finish(COMPANY, erasure_id, token, receipt="{}", at=at, late_writes=0) is None
    assert (of(ledger, erasure_id).state, of(ledger, erasure_id).receipt) == (WorkState.LEASED, None)
    looked = ledger.erasures.note(COMPANY, erasure_id, token, {})
    assert ledger.erasures.finish(COMPANY, erasure_id, token, receipt="{}", at=at, late_writes=looked.late_writes)


def test_one_stays_as_it_is_while_the_agent_is_erased_anew(ledger: Ledger) -> None:
    write = ledger.erasures.watch(COMPANY, ["ada"])
    first = ledger.erasures.request(COMPANY, "ada", confirmation=WORD).erasure_id
    done(ledger, first)
    second = ledger.erasures.request(COMPANY, "ada", confirmation=WORD).erasure_id
    assert second != first
    late = [each.erasure_id for each in ledger.erasures.late(write)]
    assert late == [first]
    assert ledger.erasures.ask_again(COMPANY, late) == ()
    assert of(ledger, first).receipt == "{}"


def test_a_job_that_ends_behind_it_asks_again(tmp_path: Path, ledger_template: Path) -> None:
    ledger = Ledger.open(copied_urls(ledger_template, tmp_path))
    context = ScriptedContext(ledger=ledger)
    asked: list[str] = []

    def erased_meanwhile(payload: ExperiencePayload, job_context: ScriptedContext) -> Outcome:
        asked.append(ledger.erasures.request(COMPANY, "ada", confirmation=WORD).erasure_id)
        done(ledger, asked[0])
        return record.run(payload, job_context)

    slow = Job(payload=record.payload, limits=record.limits, run=erased_meanwhile)
    payload = ExperiencePayload(company=COMPANY, experience=experience("e-1", agent_id="ada"))
    assert isinstance(perform(slow, payload.model_dump_json(), context), Done)
    assert (of(ledger, asked[0]).state, of(ledger, asked[0]).receipt) == (WorkState.AVAILABLE, None)
    ledger.close()


class SlowBackend:
    """A worker's store that does something else before it writes."""

    def __init__(self, inner: Mem0Backend, before: Callable[[], Awaitable[object]]) -> None:
        self._inner = inner
        self._before: Callable[[], Awaitable[object]] | None = before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def store_many(self, records: Sequence[MemoryRecord]) -> None:
        before, self._before = self._before, None
        if before is not None:
            await before()
        await self._inner.store_many(records)


@asynccontextmanager
async def erased_during_a_write(
    world: ErasureWorld, write: Callable[[Any], Awaitable[object]], *, agent_id: str = "ada"
) -> AsyncIterator[str]:
    """Erase an agent between the beginning of a write and its end."""
    service, asked = world.service(), list[str]()

    async def erase() -> None:
        asked.append(world.asked(agent_id))
        outcome = await service.run(asked[0])
        assert isinstance(outcome, Done), outcome

    await write(SlowBackend(world.backend, erase))
    assert of(world.ledger, asked[0]).receipt is None
    world.clock.now += LEASE
    yield asked[0]
    assert isinstance(await service.run(asked[0]), Done)
    receipt = verified(str(of(world.ledger, asked[0]).receipt), world.ledger.signing_keys.all(), ErasureReceipt)
    assert receipt.places["store"].found > 0


async def test_a_store_that_ends_behind_it_leaves_nothing(world: ErasureWorld) -> None:
    sent_at = world.clock()

    async def write(backend: Any) -> None:
        ingestor = world.ingestor(backend)
        await ingestor.write([item(world.secret(each), agent_id=each, sent_at=sent_at) for each in ("ada", "bob")])

    async with erased_during_a_write(world, write):
        assert len(await world.memories("ada")) == 1
    assert await world.memories("ada") == []
    assert len(await world.memories("bob")) == 1
    # A late redelivery of the same memory does not bring it back, and what is sent now is a new life.
    late, new = (item(world.secret("ada"), sent_at=at) for at in (sent_at, world.clock()))
    written = await world.ingestor().write([late, new])
    assert (written.skipped, written.stored) == (frozenset({late.id}), frozenset({new.id}))


async def test_what_a_worker_wrote_that_died_is_found_when_its_message_comes_again(world: ErasureWorld) -> None:
    sent = item(world.secret("ada"), sent_at=world.clock())
    erasure_id = world.asked()
    assert isinstance(await world.service().run(erasure_id), Done)
    # The worker dies between its write and all that follows.
    await world.backend.store_many([MemoryRecord.of(sent.id, "ada", sent.request, created_at=sent.created_at)])
    written = await world.ingestor().write([sent])
    assert written.skipped == {sent.id}
    assert of(world.ledger, erasure_id).state is WorkState.AVAILABLE
    world.clock.now += LEASE
    assert isinstance(await world.service().run(erasure_id), Done)
    assert await world.memories("ada") == []
    # It comes once more, and there is nothing to look for.
    await world.ingestor().write([sent])
    assert of(world.ledger, erasure_id).state is WorkState.DONE


async def test_an_update_that_ends_behind_it_leaves_nothing(world: ErasureWorld) -> None:
    first = item(world.secret("ada"), sent_at=world.clock())
    await world.ingestor().write([first])

    async def write(backend: Any) -> None:
        memories = Memories(backend, world.ledger, company=COMPANY, policy=Policy(), clock=world.clock)
        await memories.update("ada", first.id, content=world.secret("ada"))

    async with erased_during_a_write(world, write):
        pass
    assert await world.memories("ada") == []
    page = await world.backend.scan(Where(agent_id="ada"))
    assert page.records == ()


@pytest.mark.parametrize("subject", [None, "user:p"])
async def test_nothing_is_updated_or_put_meanwhile(world: ErasureWorld, subject: str | None) -> None:
    first = item(world.secret("ada"), sent_at=world.clock(), namespace="user:p")
    await world.ingestor().write([first])
    world.asked(subject=subject)
    memories = Memories(world.backend, world.ledger, company=COMPANY, policy=Policy(), clock=world.clock)
    with pytest.raises(MemoryRefusedError, match="being erased"):
        await memories.update("ada", first.id, content="another")
    with pytest.raises(MemoryNotFoundError):
        await memories.update("bob", first.id, content="another")


async def test_what_is_written_while_files_are_written_anew_goes_as_well(
    world: ErasureWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, erasure_id = world.service(), world.asked()
    texts = [world.secret("ada")]

    def rewrite() -> bool:
        # As a process does that saw no bar.
        if texts:
            made = experience("e-late", agent_id="ada", prompt=texts.pop())
            world.ledger.experiences.append(COMPANY, made)
        return True

    monkeypatch.setattr(world.ledger, "rewrite_files", rewrite)
    waits = await service.run(erasure_id)
    assert isinstance(waits, Deferred)
    assert "meanwhile" in waits.reason
    world.clock.now += LEASE
    assert isinstance(await service.run(erasure_id), Done)
    assert world.ledger.experiences.get(COMPANY, "ada", "e-late") is None
