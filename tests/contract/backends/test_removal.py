"""Marks, and removal of exactly what carries one."""

from datetime import timedelta

from support.memories import DAWN, new_agent, record, records

from memcore.backends.factory import WorkerBackend
from memcore.models.memory import MemoryCategory
from memcore.records import Lineage, Where


async def test_what_is_claimed_can_be_read_and_removed_by_its_token(backend: WorkerBackend) -> None:
    agent = new_agent()
    made = records(agent, 10)
    await backend.store_many(made)
    eviction_candidates = frozenset(one.entry.id for one in made[:4])

    assert await backend.claim(Where(agent_id=agent, ids=eviction_candidates), "t1") == 4

    marked = Where(agent_id=agent, token="t1")
    page = await backend.scan(marked, with_vectors=True)
    assert {one.entry.id for one in page.records} == eviction_candidates
    assert await backend.count_where(marked) == 4
    assert await backend.delete_where(marked) == 4
    assert await backend.delete_where(marked) == 0
    assert await backend.count(agent) == 6


async def test_a_stale_token_deletes_nothing(backend: WorkerBackend) -> None:
    agent = new_agent()
    await backend.store_many(records(agent, 5))
    everything = Where(agent_id=agent)
    await backend.claim(everything, "zombie")

    # The one that took over takes every mark off before it does anything else.
    await backend.unclaim(agent)
    assert await backend.delete_where(Where(agent_id=agent, token="zombie")) == 0

    await backend.claim(everything, "zombie")
    assert await backend.claim(everything, "successor") == 5
    assert await backend.delete_where(Where(agent_id=agent, token="zombie")) == 0
    assert await backend.count(agent) == 5
    assert await backend.delete_where(Where(agent_id=agent, token="successor")) == 5


async def test_claiming_counts_everything_that_carries_the_token(backend: WorkerBackend) -> None:
    agent = new_agent()
    made = records(agent, 6)
    await backend.store_many(made)

    assert await backend.claim(Where(agent_id=agent, ids=frozenset({made[0].entry.id})), "t") == 1
    assert await backend.claim(Where(agent_id=agent, ids=frozenset({made[1].entry.id})), "t") == 2
    assert await backend.claim(Where(agent_id=agent, ids=frozenset()), "t") == 2


async def test_a_mark_is_no_part_of_the_memory(backend: WorkerBackend) -> None:
    agent = new_agent()
    one = record(agent)
    await backend.store_many([one])
    before = await backend.get_many(agent, [one.entry.id], with_vectors=True)
    await backend.claim(Where(agent_id=agent), "t")
    taken = await backend.get_many(agent, [one.entry.id], with_vectors=True)
    assert str(taken) == str(before)

    await backend.delete_where(Where(agent_id=agent, token="t"))
    await backend.store_many(taken)

    # A memory that came back with its old mark would be deleted by the run that removed it.
    assert await backend.count_where(Where(agent_id=agent, token="t")) == 0


async def test_a_new_memory_does_not_inherit_the_mark_of_a_deleted_one(backend: WorkerBackend) -> None:
    agent = new_agent()
    one = record(agent)
    await backend.store_many([one])
    await backend.claim(Where(agent_id=agent), "t")
    await backend.delete(agent, one.entry.id)

    await backend.store_many([one])

    assert await backend.delete_where(Where(agent_id=agent, token="t")) == 0


async def test_every_condition_of_a_where_narrows_it(backend: WorkerBackend) -> None:
    agent, day = new_agent(), timedelta(days=1)
    lineage = Lineage(session_id="s", project_id="p", task_id="t")
    target = record(
        agent, "target", created_at=DAWN + day, namespace="n", category=MemoryCategory.EPISODIC,
        tags=("x", "y"), expires_at=DAWN + 5 * day, lineage=lineage,
    )  # fmt: skip
    decoy = record(agent, "decoy", created_at=DAWN + 3 * day, tags=("x", "pinned"))
    await backend.store_many([target, decoy])
    only_target = [
        Where(agent_id=agent, categories=frozenset({MemoryCategory.EPISODIC})),
        Where(agent_id=agent, namespaces=frozenset({"n"})),
        Where(agent_id=agent, tags=("x", "y")),
        Where(agent_id=agent, without_tags=("pinned", "core")),
        Where(agent_id=agent, created_since=DAWN + day, created_before=DAWN + 3 * day),
        Where(agent_id=agent, expires_by=DAWN + 5 * day),
        Where(agent_id=agent, ids=frozenset({target.entry.id})),
        Where(agent_id=agent, without_ids=frozenset({decoy.entry.id})),
        Where(agent_id=agent, session_id="s"),
        Where(agent_id=agent, project_id="p"),
        Where(agent_id=agent, task_id="t"),
    ]
    for where in only_target:
        assert [one.entry.content for one in (await backend.scan(where)).records] == ["target"], where
        assert await backend.count_where(where) == 1, where

    nothing = [
        Where(agent_id=agent, categories=frozenset()),
        Where(agent_id=agent, namespaces=frozenset()),
        Where(agent_id=agent, ids=frozenset()),
        Where(agent_id=agent, created_since=DAWN + 3 * day + timedelta(microseconds=1)),
        Where(agent_id=agent, created_before=DAWN + day),
        Where(agent_id=agent, expires_by=DAWN + 5 * day - timedelta(microseconds=1)),
        Where(agent_id=agent, session_id="p"),
        Where(agent_id=agent, token="never set"),
    ]
    for where in nothing:
        assert await backend.count_where(where) == 0, where
        assert await backend.delete_where(where) == 0, where
    assert await backend.count(agent) == 2


async def test_more_than_one_request_of_candidates_is_removed_and_counted(backend: WorkerBackend) -> None:
    agent = new_agent()
    await backend.store_many([*records(agent, 700), record(agent, "spared", tags=("pinned",))])

    assert await backend.delete_where(Where(agent_id=agent, without_tags=("pinned",))) == 700
    assert await backend.count(agent) == 1
