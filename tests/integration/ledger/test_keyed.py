"""Keyed memories: one version in the store, however many write, redeliver or die; the journal has the others."""

import asyncio
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from support.fault_injection import Crash, Faults
from support.ledger_records import COMPANY, StoppedClock
from support.present import present
from support.store_items import item

from memcore.backends.inmemory import InMemoryBackend
from memcore.config.policy import Policy
from memcore.ingest import Ingestor
from memcore.jobs import StoreItem
from memcore.ledger.ledger import Ledger
from memcore.memories import Memories
from memcore.models.memory import ConsolidationInterval, MemoryLevel
from memcore.records import Where

AGENT = "ada"


class World:
    """A store and the workers that write keyed memories into it."""

    def __init__(self, ledger: Ledger, clock: StoppedClock) -> None:
        self.ledger = ledger
        self.clock = clock
        self.backend = InMemoryBackend(company=COMPANY, clock=clock)
        self.memories = Memories(self.backend, ledger, company=COMPANY, policy=Policy(), clock=clock)

    def sent(self, text: str, key: str = "home") -> StoreItem:
        return item(text, key=key, sent_at=self.clock.advance(timedelta(seconds=1)))

    async def deliver(self, *items: StoreItem, faults: Faults | None = None) -> None:
        backend: Any = self.backend if faults is None else faults.watched(self.backend, "backend")
        ledger: Any = self.ledger if faults is None else faults.ledger(self.ledger)
        ingestor = Ingestor(
            backend, ledger, company=COMPANY, interval=ConsolidationInterval.DAILY, level=MemoryLevel.PERSISTENT
        )
        await ingestor.write(items)

    async def texts(self) -> list[str]:
        page = await self.backend.scan(Where(agent_id=AGENT))
        return [record.entry.content for record in page.records]

    async def journaled(self) -> set[str]:
        runs = self.ledger.runs.list(COMPANY, agent_id=AGENT)
        return {
            record.entry.content
            for run in runs
            for journal_entry in self.ledger.journal.journal_entries(run.run_id)
            for record in journal_entry.outgoing
        }


@pytest.fixture
async def world(ledger: Ledger, clock: StoppedClock) -> World:
    made = World(ledger, clock)
    await made.backend.connect()
    return made


async def test_a_newer_version_takes_the_place_of_the_older_which_is_journaled(world: World) -> None:
    old, new = world.sent("Berlin"), world.sent("Lisbon")
    await world.deliver(old)
    await world.deliver(new)

    assert await world.texts() == ["Lisbon"]
    assert await world.journaled() == {"Berlin"}
    found = present(await world.memories.get_by_key(AGENT, "home"))
    assert (found.content, found.key, found.id) == ("Lisbon", "home", new.id)
    assert "keyed" in found.metadata.tags
    # The id of the old version leads to the new one.
    assert await world.memories.get(AGENT, old.id) == found
    events = await world.memories.history(AGENT, old.id)
    assert [(each.event, each.content) for each in events] == [("ADD", "Berlin"), ("UPDATE", "Lisbon")]


async def test_a_value_that_comes_back_is_no_redelivery(world: World) -> None:
    first, second, third = world.sent("Berlin"), world.sent("Lisbon"), world.sent("Berlin")
    for each in (first, second, third, first, second):
        await world.deliver(each)
    assert await world.texts() == ["Berlin"]
    found = present(await world.memories.get_by_key(AGENT, "home"))
    assert found.id == third.id


async def test_in_one_batch_and_in_any_order_the_last_one_sent_wins(world: World) -> None:
    versions = [world.sent(f"city {number}") for number in range(6)]
    shuffled = list(versions)
    random.Random(5).shuffle(shuffled)
    await world.deliver(*shuffled[:3])
    await world.deliver(*shuffled[3:])
    assert await world.texts() == ["city 5"]
    assert await world.journaled() == {f"city {number}" for number in range(5)}


async def test_another_namespace_and_another_agent_have_keys_of_their_own(world: World) -> None:
    await world.deliver(world.sent("Berlin"))
    await world.deliver(item("Paris", agent_id="bob", key="home", sent_at=world.clock()))
    assert await world.texts() == ["Berlin"]
    assert await world.memories.get_by_key(AGENT, "home", namespace="other") is None
    assert await world.memories.get_by_key("carl", "home") is None


async def test_a_writer_that_dies_between_any_two_calls_leaves_one_version_once_it_came_again(world: World) -> None:
    counted = Faults()
    await world.deliver(world.sent("before", key="k"))
    await world.deliver(world.sent("after", key="k"), faults=counted)
    assert len(counted.calls) >= 10, "the scenario has become too small to mean anything"
    for point, name in enumerate(counted.calls):
        key = f"k{point}"
        await world.deliver(world.sent(f"old {point}", key=key))
        new = world.sent(f"new {point}", key=key)
        with pytest.raises(Crash):
            await world.deliver(new, faults=Faults(point))
        # Never none, whatever is left.
        there = await world.memories.get_by_key(AGENT, key)
        assert there is None or there.content in {f"old {point}", f"new {point}"}, name
        await world.deliver(new)
        left = [text for text in await world.texts() if text.endswith(f" {point}")]
        assert left == [f"new {point}"], name
        assert f"old {point}" in await world.journaled(), name


@pytest.mark.parametrize("seed", range(5))
async def test_writers_at_the_same_moment_leave_one_version(world: World, seed: int) -> None:
    versions = [world.sent(f"city {number}") for number in range(4)]
    order = random.Random(seed)
    order.shuffle(versions)
    counted = Faults()
    await world.deliver(world.sent("trial", key="trial"), faults=counted)
    for point in range(len(counted.calls)):
        key = f"k{point}"
        first, second = world.sent("first", key=key), world.sent("second", key=key)
        late, early = (first, second) if seed % 2 else (second, first)

        async def meanwhile(other: StoreItem = early) -> None:
            await world.deliver(other)

        await world.deliver(late, faults=Faults(point, strike=meanwhile))
        found = present(await world.memories.get_by_key(AGENT, key))
        assert found.content == "second"
        page = await world.backend.scan(Where(agent_id=AGENT, keys=frozenset({key})))
        assert [record.entry.content for record in page.records] == ["second"]
    await asyncio.gather(*(world.deliver(each) for each in versions))
    assert (await world.texts()).count("city 3") == 1
    assert not {"city 0", "city 1", "city 2"} & set(await world.texts())


def test_of_many_first_writers_of_a_key_one_finds_it_free(world: World) -> None:
    at_once = threading.Barrier(4)

    def point(key: str, version: StoreItem) -> str | None:
        at_once.wait(timeout=600)
        name = {"namespace": "default", "key": key}
        return world.ledger.keys.point(COMPANY, AGENT, memory_id=version.id, sent_at=version.sent_at, **name)

    with ThreadPoolExecutor(4) as writers:
        for turn in range(20):
            key = f"k{turn}"
            versions = [world.sent(f"city {number}", key=key) for number in range(4)]
            pointing = [writers.submit(point, key, each) for each in versions]
            assert [each.result(timeout=600) for each in pointing].count(None) == 1
            assert world.ledger.keys.of(COMPANY, AGENT, namespace="default", key=key) == versions[-1].id
