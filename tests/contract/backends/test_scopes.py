"""Which sessions, projects and tasks an agent's memories were stored in, gathered by the store."""

from datetime import timedelta

from support.memories import DAWN, new_agent, record

from memcore.backends.factory import WorkerBackend
from memcore.models.memory import MemoryCategory
from memcore.records import Lineage, Where

#: More than one answer of a store may hold.
MANY = 1_030


async def test_every_session_and_project_of_the_matches_is_told_once(backend: WorkerBackend) -> None:
    agent, other = new_agent(), new_agent()
    await backend.store_many(
        [
            record(agent, "one", lineage=Lineage(session_id="s-1", project_id="p-1"), category=MemoryCategory.WORKING),
            record(agent, "two", lineage=Lineage(session_id="s-1"), created_at=DAWN + timedelta(hours=1)),
            record(agent, "three", lineage=Lineage(session_id="s-2", task_id="t-1"), namespace="n1"),
            record(agent, "four"),
            record(other, "five", lineage=Lineage(session_id="s-9", project_id="p-9", task_id="t-9")),
        ]
    )

    everything = Where(agent_id=agent)
    assert await backend.scopes(everything, "session_id") == {"s-1", "s-2"}
    assert await backend.scopes(everything, "project_id") == {"p-1"}
    assert await backend.scopes(everything, "task_id") == {"t-1"}
    later = Where(agent_id=agent, created_since=DAWN + timedelta(minutes=1))
    assert await backend.scopes(later, "session_id") == {"s-1"}
    assert await backend.scopes(later, "task_id") == frozenset()
    working = Where(agent_id=agent, categories=frozenset({MemoryCategory.WORKING}))
    assert await backend.scopes(working, "session_id") == {"s-1"}
    assert await backend.scopes(Where(agent_id=new_agent()), "session_id") == frozenset()


async def test_a_session_without_memories_is_not_told_any_more(backend: WorkerBackend) -> None:
    agent = new_agent()
    kept = record(agent, "kept", lineage=Lineage(session_id="s-1"))
    gone = record(agent, "gone", lineage=Lineage(session_id="s-2"))
    await backend.store_many([kept, gone])
    await backend.delete_many(agent, [gone.entry.id])

    assert await backend.scopes(Where(agent_id=agent), "session_id") == {"s-1"}


async def test_however_many_sessions_there_are_none_is_left_out(backend: WorkerBackend) -> None:
    agent = new_agent()
    await backend.store_many([record(agent, f"note {n}", lineage=Lineage(session_id=f"s-{n}")) for n in range(MANY)])

    assert await backend.scopes(Where(agent_id=agent), "session_id") == {f"s-{n}" for n in range(MANY)}


async def test_what_lies_outside_of_sessions_is_found_counted_and_claimed_alone(backend: WorkerBackend) -> None:
    agent = new_agent()
    inside = record(agent, "inside", lineage=Lineage(session_id="s-1"))
    outside = record(agent, "outside", lineage=Lineage(project_id="p-1"), namespace="n1")
    bare = record(agent, "bare", created_at=DAWN + timedelta(hours=1))
    await backend.store_many([inside, outside, bare])

    without_session = Where(agent_id=agent, outside="session_id")
    found = await backend.scan(without_session)
    assert [each.entry.id for each in found.records] == [outside.entry.id, bare.entry.id]
    assert await backend.count_where(without_session) == 2
    assert await backend.count_where(Where(agent_id=agent, outside="project_id")) == 2
    assert await backend.count_where(Where(agent_id=agent, outside="task_id")) == 3
    assert await backend.claim(without_session, "token") == 2
