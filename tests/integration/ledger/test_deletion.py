"""What an engine deletes: journaled, tombstoned, once, whoever dies or deletes at the same moment."""

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from support.fault_injection import AT_CALLS, Crash, Faults
from support.ledger_records import COMPANY, StoppedClock, make_journal_entry
from support.store_items import item

from examples.demo.balance import tally_of
from memcore import ids
from memcore.backends.deletion import Deletion
from memcore.backends.inmemory import InMemoryBackend
from memcore.config.urls import LedgerUrls
from memcore.errors import MemoryStoreError
from memcore.ingest import Ingestor, WriteResult
from memcore.jobs import StoreItem
from memcore.ledger.journal import Journal
from memcore.ledger.ledger import Ledger
from memcore.ledger.work_items import WorkState
from memcore.models.memory import ConsolidationInterval, MemoryLevel
from memcore.records import MemoryRecord

AGENT = "ada"


@dataclass(frozen=True)
class Company:
    """A store whose engines delete through the ledger, and the workers that store into it."""

    backend: InMemoryBackend
    ledger: Ledger
    clock: StoppedClock
    deletion: Deletion

    async def deliver(self, one: StoreItem) -> WriteResult:
        ingestor = Ingestor(
            self.backend,
            self.ledger,
            company=COMPANY,
            interval=ConsolidationInterval.DAILY,
            level=MemoryLevel.PERSISTENT,
        )
        return await ingestor.write([one])

    def sent(self, text: str) -> StoreItem:
        return item(text, sent_at=self.clock.advance(timedelta(seconds=1)))

    async def delete(self, memory_id: str, faults: Faults | None = None) -> bool:
        self.clock.advance(timedelta(seconds=1))
        other = Deletion(LedgerUrls(ledger="sqlite:///x", journal="sqlite:///x"), company=COMPANY, clock=self.clock)
        other._ledger = self.ledger if faults is None else faults.ledger(self.ledger)
        backend: Any = self.backend if faults is None else faults.watched(self.backend, "backend")
        return await other.delete(backend, AGENT, memory_id)

    async def check_balance(self, stored: Counter[str]) -> None:
        tally = tally_of(self.ledger, COMPANY, AGENT)
        live = Counter(each.id for each in await _live(self.backend))
        assert self.ledger.journal.open_of(COMPANY, AGENT) == ()
        assert stored + tally.created + tally.restored == live + tally.removed


async def _live(backend: InMemoryBackend) -> Any:
    return [record.entry for record in backend._agents.get(AGENT, {}).values()]


@pytest.fixture
async def company(ledger: Ledger, urls: LedgerUrls, clock: StoppedClock) -> AsyncIterator[Company]:
    deletion = Deletion(urls, company=COMPANY, clock=clock)
    backend = InMemoryBackend(company=COMPANY, deletion=deletion, clock=clock)
    await backend.connect()
    yield Company(backend, ledger, clock, deletion)
    await backend.disconnect()


async def test_a_redelivered_job_does_not_raise_it_and_a_new_wish_does(company: Company) -> None:
    old = company.sent("the door code is 4711")
    await company.deliver(old)
    company.clock.advance(timedelta(seconds=1))

    assert await company.backend.delete(AGENT, old.id)

    assert (await company.deliver(old)).tombstoned == {old.id}
    assert await company.backend.get(AGENT, old.id) is None
    assert not await company.backend.delete(AGENT, old.id)
    new = company.sent("the door code is 4711")
    assert new.id == old.id
    assert (await company.deliver(new)).stored == {new.id}
    # The old job may come once more: what was stored anew stays as it is.
    assert (await company.deliver(old)).tombstoned == {old.id}
    found = await company.backend.get(AGENT, old.id)
    assert found is not None
    assert found.created_at == new.created_at
    assert await company.backend.delete(AGENT, old.id)
    await company.check_balance(Counter({old.id: 2}))


async def test_the_journal_has_it_in_full_under_a_run_of_its_own(company: Company) -> None:
    one, two = company.sent("one"), company.sent("two")
    for each in (one, two):
        await company.deliver(each)
    # Two of the same moment are two runs.
    assert await company.backend.delete(AGENT, one.id)
    assert await company.backend.delete(AGENT, two.id)

    runs = company.ledger.runs.list(COMPANY, agent_id=AGENT)
    assert {(run.kind, run.origin, run.state, run.scope_id) for run in runs} == {
        ("remove", "engine", WorkState.DONE, one.id),
        ("remove", "engine", WorkState.DONE, two.id),
    }
    for run in runs:
        assert run.counts == {"removed": 1}
        assert company.ledger.journal.undoable(run.run_id)
        (journal_entry,) = company.ledger.journal.journal_entries(run.run_id)
        assert [(record.entry.id, journal_entry.reason) for record in journal_entry.outgoing] == [
            (run.scope_id, "deleted")
        ]
    assert {
        journal_entry.outgoing[0].entry.content
        for run in runs
        for journal_entry in company.ledger.journal.journal_entries(run.run_id)
    } == {
        "one",
        "two",
    }


async def test_another_agents_memory_is_none_of_it(company: Company) -> None:
    one = item("of bob", agent_id="bob", sent_at=company.clock())
    await company.deliver(one)
    assert not await company.backend.delete(AGENT, one.id)
    assert await company.backend.get("bob", one.id) is not None
    assert company.ledger.runs.list(COMPANY) == ()


async def test_a_crash_at_any_call_leaves_the_memory_or_a_delete_that_the_next_one_carries_out(
    company: Company,
) -> None:
    counted, stored = Faults(), Counter[str]()
    trial = company.sent("trial")
    await company.deliver(trial)
    stored[trial.id] += 1
    assert await company.delete(trial.id, counted)
    assert len(counted.calls) >= 8, "the scenario has become too small to mean anything"

    for point, name in enumerate(counted.calls):
        one = company.sent(f"memory {point}")
        await company.deliver(one)
        stored[one.id] += 1
        with pytest.raises(Crash):
            await company.delete(one.id, Faults(point))
        is_there = await company.backend.get(AGENT, one.id) is not None
        is_journaled = one.id in {each.memory_id for each in company.ledger.journal.removals([one.id])}
        assert is_there or is_journaled, name
        # Whatever was left: a redelivery does not undo a decision, and the caller's second try ends it.
        assert bool((await company.deliver(one)).tombstoned) is is_journaled, name
        await company.delete(one.id)
        assert await company.backend.get(AGENT, one.id) is None, name
        assert (await company.deliver(one)).tombstoned == {one.id}, name
        for left in company.ledger.journal.open_of(COMPANY, AGENT):
            # It is gone, and its entry was left open: the agent's next run settles it.
            company.ledger.journal.settle(left.booking_id)
    await company.check_balance(stored)


@pytest.mark.parametrize("is_after", AT_CALLS)
async def test_two_engines_that_delete_it_at_any_moment_remove_it_once(company: Company, *, is_after: bool) -> None:
    counted, stored = Faults(), Counter[str]()
    trial = company.sent("trial")
    await company.deliver(trial)
    stored[trial.id] += 1
    await company.delete(trial.id, counted)
    for point, name in enumerate(counted.calls):
        one = company.sent(f"memory {point}")
        await company.deliver(one)
        stored[one.id] += 1
        second: list[bool] = []

        async def meanwhile(memory_id: str = one.id, answers: list[bool] = second) -> None:
            answers.append(await company.delete(memory_id))

        first = await company.delete(one.id, Faults(point, strike=meanwhile, is_after=is_after))
        # One of both is told that it did.
        assert first is not second[0], name
        assert await company.backend.get(AGENT, one.id) is None, name
        assert sum(each.memory_id == one.id for each in company.ledger.journal.removals([one.id])) == 1, name
    await company.check_balance(stored)


@pytest.mark.parametrize("how", ["ended and stored anew", "removed and stored anew", "ended and undone"])
@pytest.mark.parametrize("is_after", AT_CALLS)
async def test_what_comes_while_a_deletion_sleeps_stays(company: Company, how: str, *, is_after: bool) -> None:
    counted = Faults()
    trial = company.sent("trial")
    await company.deliver(trial)
    await company.delete(trial.id, counted)
    decided = counted.calls.index("journal.prepare")
    for point in range(decided + (not is_after), len(counted.calls)):
        one = company.sent(f"memory {point}")
        await company.deliver(one)
        (record,) = await company.backend.get_many(AGENT, [one.id])
        expected: list[datetime] = []

        async def meanwhile(one: StoreItem = one, record: MemoryRecord = record, times: Any = expected) -> None:
            if how == "removed and stored anew":
                # As the agent's next run does, which has not settled it yet.
                await company.backend.delete_many(AGENT, [one.id])
            else:
                await company.delete(one.id)
            if how == "ended and undone":
                back = replace(
                    make_journal_entry(ids.new_id(), run_id=ids.new_id(), reason="undone"), incoming=(record,)
                )
                company.ledger.journal.prepare(replace(back, incoming_kind="restored"))
                await company.backend.store_many([record])
                company.ledger.journal.settle(back.booking_id)
                times.append(one.created_at)
            else:
                again = company.sent(one.request.content)
                await company.deliver(again)
                times.append(again.created_at)

        await company.delete(one.id, Faults(point, strike=meanwhile, is_after=is_after))
        found = await company.backend.get(AGENT, one.id)
        assert found is not None, counted.calls[point]
        assert found.created_at == expected[0], counted.calls[point]


async def test_two_that_decide_at_the_same_moment_on_the_database_itself(company: Company) -> None:
    journal = company.ledger.journal
    for number in range(10):
        memory_id, refused = f"m{number}", list[MemoryStoreError]()
        start = threading.Barrier(2)

        def decide(
            run: str, memory_id: str = memory_id, start: threading.Barrier = start, refused: Any = refused
        ) -> None:
            journal_entry = make_journal_entry(f"{run}-{memory_id}", run_id=f"{run}-{memory_id}", outgoing=(memory_id,))
            start.wait(10)
            try:
                journal.prepare(journal_entry, known=frozenset())
            except MemoryStoreError as error:
                refused.append(error)

        await asyncio.gather(*(asyncio.to_thread(decide, run) for run in ("night", "engine")))
        assert len(refused) == 1
        (removal,) = journal.removals([memory_id])
        (still,) = [each for each in journal.open_of(COMPANY, AGENT) if memory_id in each.outgoing_ids]
        assert still.booking_id == removal.booking_id


@pytest.mark.parametrize("second", ["update", "delete"])
@pytest.mark.parametrize("first", ["update", "delete"])
async def test_a_removal_that_ends_while_it_is_read_is_no_second_one(
    company: Company, monkeypatch: pytest.MonkeyPatch, first: str, second: str
) -> None:
    one, backend, deletion, journal = company.sent("one"), company.backend, company.deletion, company.ledger.journal
    await company.deliver(one)

    def version(record: MemoryRecord) -> MemoryRecord:
        return replace(record, entry=record.entry.model_copy(update={"id": ids.new_id()}))

    change, reason = (version, "updated") if first == "update" else (None, "deleted")
    decided: Any = await deletion._decide(backend, AGENT, [one.id], reason=reason, change=change)  # type: ignore[arg-type]
    ended: list[str] = []
    open_entries = Journal.open_entries

    def end_first(self: Journal, run_id: str) -> Any:
        # The second one has read it as open.
        if not ended:
            ended.append(run_id)
            asyncio.run(deletion._execute(backend, AGENT, decided[0]))
        return open_entries(self, run_id)

    monkeypatch.setattr(Journal, "open_entries", end_first)
    other = Deletion.over(company.ledger, company=COMPANY, clock=company.clock)
    if second == "update":
        await other.replace(backend, AGENT, one.id, version)
    else:
        await other.delete(backend, AGENT, one.id)
    assert ended == [decided[0].run_id]
    assert [each.booking_id for each in journal.removals([one.id])] == [decided[0].booking_id]
    assert len(await _live(backend)) == (first == "update")
    await company.check_balance(Counter([one.id]))


@pytest.mark.parametrize("seconds", [1, 300])
async def test_what_a_dead_caller_left_is_the_next_ones_once_it_is_surely_dead(company: Company, seconds: int) -> None:
    one = company.sent("one")
    await company.deliver(one)
    counted = Faults()
    trial = company.sent("trial")
    await company.deliver(trial)
    await company.delete(trial.id, counted)
    with pytest.raises(Crash):
        await company.delete(one.id, Faults(counted.calls.index("journal.prepare") + 1))
    company.clock.advance(timedelta(seconds=seconds))
    assert await company.delete(one.id) is (seconds == 300)
    assert await company.backend.get(AGENT, one.id) is None
    await company.check_balance(Counter([one.id, trial.id]))
