"""Many memories a call: written once, read whole, written back to the byte."""

from datetime import timedelta

import numpy as np
from support.memories import DAWN, NOW, StoppedClock, new_agent, record, records

from memcore.backends.factory import WorkerBackend
from memcore.embedding.bm25 import SparseVector
from memcore.models.memory import MemoryCategory, MemoryMetadata
from memcore.records import COMPARED_KEY, Lineage, MemoryRecord, Vectors, Where

_LINEAGE = Lineage(session_id="s-1", project_id="p-1", task_id="t-1", summary_of=("one", "two"), depth=2)


def exact(found: MemoryRecord) -> tuple[object, ...]:
    """Return everything of a record in a form in which equal means equal to the byte."""
    vectors = found.vectors
    assert vectors is not None
    return (found.entry.model_dump_json(), found.lineage, found.extra, vectors.dense.tobytes(), vectors.sparse)


async def test_writing_again_changes_nothing(backend: WorkerBackend) -> None:
    agent = new_agent()
    first = record(agent, "the first telling", tags=("kept",))
    await backend.store_many([first])
    before = await backend.get_many(agent, [first.entry.id], with_vectors=True)

    again = record(agent, "the second telling", memory_id=first.entry.id, tags=("lost",))
    await backend.store_many([again, record(agent, "a new one")])

    assert await backend.count(agent) == 2
    assert str(await backend.get_many(agent, [first.entry.id], with_vectors=True)) == str(before)


async def test_of_two_records_with_one_id_in_a_call_the_first_is_kept(backend: WorkerBackend) -> None:
    agent = new_agent()
    first = record(agent, "said first")
    await backend.store_many([first, record(agent, "said second", memory_id=first.entry.id)])

    entry = await backend.get(agent, first.entry.id)
    assert entry is not None
    assert entry.content == "said first"


async def test_a_redelivery_does_not_undo_a_later_change(backend: WorkerBackend) -> None:
    agent = new_agent()
    one = record(agent)
    await backend.store_many([one])
    await backend.set_metadata_many(agent, [one.entry.id], MemoryMetadata(source="audit", tags=("checked",)))

    await backend.store_many([one])

    entry = await backend.get(agent, one.entry.id)
    assert entry is not None
    assert entry.metadata.tags == ("checked",)


async def test_a_mark_is_set_without_metadata_and_filtered_by(backend: WorkerBackend) -> None:
    agent = new_agent()
    one, other = record(agent, "said first", tags=("kept",)), record(agent, "said second")
    await backend.store_many([one, other])
    (before,) = await backend.get_many(agent, [one.entry.id])

    mark = {COMPARED_KEY: {"by": "model/1", "superseded": [other.entry.id]}}
    assert await backend.set_metadata_many(agent, [one.entry.id, "no-such-id"], None, extra=mark) == 1

    (after,) = await backend.get_many(agent, [one.entry.id])
    assert after.entry == before.entry
    assert (after.compared_by, after.found_superseded) == ("model/1", frozenset({other.entry.id}))
    left = await backend.scan(Where(agent_id=agent, uncompared_by="model/1"))
    assert [each.entry.id for each in left.records] == [other.entry.id]
    assert await backend.count_where(Where(agent_id=agent, uncompared_by="model/2")) == 2


async def test_no_records_is_no_work(backend: WorkerBackend) -> None:
    agent = new_agent()
    await backend.store_many(records(agent, 2))
    await backend.store_many([])
    assert await backend.get_many(agent, []) == ()
    assert await backend.delete_many(agent, []) == 0
    assert await backend.count(agent) == 2


async def test_agents_can_be_mixed_and_a_batch_can_be_longer_than_a_request(backend: WorkerBackend) -> None:
    agents = [new_agent() for _ in range(3)]
    mixed = [one for trio in zip(*(records(agent, 200) for agent in agents), strict=True) for one in trio]

    await backend.store_many(mixed)

    assert [await backend.count(agent) for agent in agents] == [200, 200, 200]
    wanted = [one.entry.id for one in mixed if one.entry.agent_id == agents[0]][::-1]
    found = await backend.get_many(agents[0], [*wanted, mixed[1].entry.id, "no-such-id", wanted[0]])
    assert [one.entry.id for one in found] == wanted
    assert all(one.vectors is None for one in found)


async def test_a_memory_that_is_taken_out_and_put_back_is_the_same_to_the_byte(backend: WorkerBackend) -> None:
    agent = new_agent()
    rng = np.random.default_rng(7)
    made = [
        record(
            agent,
            f"what was said on day {i} \u00e9\U0001f30d",
            created_at=DAWN + timedelta(days=i, microseconds=i * 17),
            category=list(MemoryCategory)[i % 5],
            namespace=f"room {i % 3}",
            tags=("a", f"t{i}"),
            expires_at=NOW + timedelta(days=i, microseconds=3) if i % 2 else None,
            lineage=_LINEAGE if i % 3 == 0 else None,
            vectors=Vectors(
                dense=(rng.normal(size=64) * 3).astype(np.float32),
                sparse=SparseVector(indices=(3, 17, 2**32 - 1), values=(0.1, 1.7, 1 / 3)) if i % 4 else None,
            ),
            extra={"actor_id": "ann", "nested": {"list": [1, 2.5, None, "x"]}, "run_id": "r"} if i % 2 else None,
        )
        for i in range(40)
    ]
    ids = [one.entry.id for one in made]
    await backend.store_many(made)
    await backend.set_metadata_many(agent, ids[:10], MemoryMetadata(source=None, confidence=0.3, tags=("x", "y")))
    before = await backend.get_many(agent, ids, with_vectors=True)
    assert [one.entry.content for one in before] == [one.entry.content for one in made]
    assert [one.lineage for one in before] == [one.lineage for one in made]
    assert [one.extra for one in before] == [one.extra for one in made]

    assert await backend.delete_many(agent, ids) == 40
    assert await backend.get_many(agent, ids) == ()
    await backend.store_many(before)

    after = await backend.get_many(agent, ids, with_vectors=True)
    assert list(map(exact, after)) == list(map(exact, before))


async def test_metadata_is_replaced_whole_and_the_rest_stays(backend: WorkerBackend, clock: StoppedClock) -> None:
    agent = new_agent()
    one, other = record(agent, "one", tags=("old",)), record(agent, "other", tags=("old",))
    await backend.store_many([one, other])
    before = (await backend.get_many(agent, [one.entry.id], with_vectors=True))[0]
    clock.now += timedelta(minutes=1)

    changed = await backend.set_metadata_many(
        agent, [one.entry.id, "unknown"], MemoryMetadata(source="review", confidence=0.25, tags=("new", "newer"))
    )

    assert changed == 1
    after = (await backend.get_many(agent, [one.entry.id], with_vectors=True))[0]
    assert after.entry == before.entry.model_copy(
        update={
            "metadata": MemoryMetadata(source="review", confidence=0.25, tags=("new", "newer")),
            "updated_at": clock.now,
        }
    )
    assert str(after.vectors) == str(before.vectors)
    untouched = await backend.get(agent, other.entry.id)
    assert untouched is not None
    assert untouched.metadata.tags == ("old",)


async def test_a_change_before_the_creation_by_another_clock_stays_readable(
    backend: WorkerBackend, clock: StoppedClock
) -> None:
    agent = new_agent()
    early = record(agent, created_at=clock.now + timedelta(seconds=5))
    await backend.store_many([early])

    await backend.set_metadata_many(agent, [early.entry.id], MemoryMetadata(tags=("seen",)))

    entry = await backend.get(agent, early.entry.id)
    assert entry is not None
    assert entry.updated_at == entry.created_at
