"""Pages: oldest first, ties by id, each match exactly once."""

from datetime import timedelta

import pytest
from support.full_scan import order, scanned
from support.memories import DAWN, new_agent, record, records

from memcore.backends.factory import WorkerBackend
from memcore.errors import MemoryInputError
from memcore.models.memory import MemoryQuery
from memcore.records import Where


@pytest.mark.parametrize("limit", [1, 7, 10, 256])
async def test_many_memories_of_one_time_are_each_seen_once(backend: WorkerBackend, limit: int) -> None:
    agent = new_agent()
    made = [
        record(agent, f"note {i}", created_at=DAWN + timedelta(microseconds=(0, 0, 0, 1, 2)[i % 5])) for i in range(60)
    ]
    await backend.store_many(made)

    assert [one.entry.id for one in await scanned(backend, Where(agent_id=agent), limit=limit)] == order(made)


async def test_a_page_never_holds_more_than_256_and_the_last_has_no_cursor(backend: WorkerBackend) -> None:
    agent = new_agent()
    made = records(agent, 512)
    await backend.store_many(made)

    page = await backend.scan(Where(agent_id=agent), limit=10_000)
    assert len(page.records) == 256
    assert page.cursor is not None
    rest = await backend.scan(Where(agent_id=agent), cursor=page.cursor)
    assert rest.cursor is None
    assert [one.entry.id for one in (*page.records, *rest.records)] == order(made)


async def test_removing_each_page_loses_none_of_the_next(backend: WorkerBackend) -> None:
    agent = new_agent()
    made = [record(agent, f"note {i}", created_at=DAWN + timedelta(seconds=i // 20)) for i in range(50)]
    await backend.store_many(made)
    seen: list[str] = []
    cursor: str | None = None
    while True:
        page = await backend.scan(Where(agent_id=agent), cursor=cursor, limit=8)
        ids = [one.entry.id for one in page.records]
        seen += ids
        await backend.delete_many(agent, ids)
        cursor = page.cursor
        if cursor is None:
            break

    assert seen == order(made)
    assert await backend.count(agent) == 0


async def test_what_is_written_between_two_pages_hides_nothing(backend: WorkerBackend) -> None:
    agent = new_agent()
    made = [record(agent, f"note {i}", created_at=DAWN + timedelta(seconds=i // 5)) for i in range(30)]
    await backend.store_many(made)
    page = await backend.scan(Where(agent_id=agent), limit=7)
    await backend.store_many([record(agent, f"late {i}", created_at=DAWN + timedelta(seconds=i)) for i in range(-2, 6)])
    seen = [one.entry.id for one in page.records]
    cursor = page.cursor
    while cursor is not None:
        page = await backend.scan(Where(agent_id=agent), cursor=cursor, limit=7)
        seen += [one.entry.id for one in page.records]
        cursor = page.cursor

    assert len(seen) == len(set(seen))
    old = {one.entry.id for one in made}
    assert [memory_id for memory_id in seen if memory_id in old] == order(made)


async def test_vectors_come_when_they_are_asked_for(backend: WorkerBackend) -> None:
    agent = new_agent()
    await backend.store_many([record(agent)])
    stored = (await backend.get_many(agent, [r.entry.id for r in (await backend.scan(Where(agent_id=agent))).records],
                                     with_vectors=True))[0]  # fmt: skip
    with_vectors = (await backend.scan(Where(agent_id=agent), with_vectors=True)).records[0]

    assert (await backend.scan(Where(agent_id=agent))).records[0].vectors is None
    assert str(with_vectors) == str(stored)


@pytest.mark.parametrize("cursor", ["", "yesterday", "noon x"])
async def test_a_cursor_that_no_page_gave_is_refused(backend: WorkerBackend, cursor: str) -> None:
    agent = new_agent()
    await backend.store_many([record(agent)])
    with pytest.raises(MemoryInputError, match="cursor: must be one that a page of the same scan gave"):
        await backend.scan(Where(agent_id=agent), cursor=cursor)


@pytest.mark.parametrize("limit", [1, 4, 5, 12])
async def test_the_newest_of_one_time_are_cut_by_id(backend: WorkerBackend, limit: int) -> None:
    agent = new_agent()
    made = [record(agent, f"note {i}", created_at=DAWN + timedelta(seconds=i // 4)) for i in range(12)]
    await backend.store_many(made)

    found = await backend.retrieve(agent, MemoryQuery(limit=limit))

    newest = sorted(made, key=lambda one: (-one.entry.created_at.timestamp(), one.entry.id))
    assert [entry.id for entry in found] == [one.entry.id for one in newest[:limit]]
