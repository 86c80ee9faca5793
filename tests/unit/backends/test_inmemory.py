"""What only the process-local backend does."""

from datetime import timedelta

import pytest
from support.memories import DAWN, NOW, StoppedClock, record, records

from memcore.backends.inmemory import InMemoryBackend
from memcore.errors import MemoryStoreError
from memcore.models.memory import MemoryQuery


async def test_the_cap_refuses_a_batch_whole() -> None:
    backend = InMemoryBackend(company="c", max_memories=5, clock=StoppedClock())
    await backend.connect()
    await backend.store_many(records("a", 4))

    with pytest.raises(MemoryStoreError, match="at most 5"):
        await backend.store_many([*records("b", 1), *records("a", 2)])

    assert (await backend.count("a"), await backend.count("b")) == (4, 0)
    await backend.store_many(records("b", 5))
    assert await backend.count("b") == 5


async def test_at_the_cap_writing_what_is_there_already_is_still_nothing_new() -> None:
    backend = InMemoryBackend(company="c", max_memories=3, clock=StoppedClock())
    await backend.connect()
    made = records("a", 3)
    await backend.store_many(made)
    await backend.store_many([*made, made[0]])
    assert await backend.count("a") == 3


async def test_expired_memories_give_way_at_the_cap_and_not_before() -> None:
    clock = StoppedClock()
    backend = InMemoryBackend(company="c", max_memories=2, clock=clock)
    await backend.connect()
    await backend.store_many([record("a", expires_at=NOW + timedelta(seconds=1))])
    clock.now += timedelta(minutes=1)
    await backend.store_many([record("a")])
    assert await backend.count("a") == 2
    await backend.store_many([record("a")])
    assert await backend.count("a") == 2


async def test_text_is_found_as_a_substring_newest_first_without_a_score() -> None:
    backend = InMemoryBackend(company="c", clock=StoppedClock())
    await backend.connect()
    await backend.store_many(
        [
            record("a", text, created_at=DAWN + timedelta(days=n))
            for n, text in enumerate(["CATalogue", "dog", "conCAT"])
        ]
    )
    found = await backend.retrieve("a", MemoryQuery(text="cat", min_relevance=0.9))
    assert [(entry.content, entry.relevance_score) for entry in found] == [("conCAT", None), ("CATalogue", None)]


async def test_clearing_one_agent_leaves_the_others() -> None:
    backend = InMemoryBackend(company="c", clock=StoppedClock())
    await backend.connect()
    await backend.store_many([*records("a", 3), *records("b", 2)])
    await backend.clear("a")
    assert (await backend.count("a"), await backend.count("b")) == (0, 2)
