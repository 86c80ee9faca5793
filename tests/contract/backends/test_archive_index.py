"""The archive's index: copies that a hybrid search finds under their summaries, and that nothing else sees."""

from collections.abc import Sequence
from datetime import timedelta

import numpy as np
import pytest
from support.memories import DAWN, NOW, StoppedClock, copied, new_agent, record
from support.thorough import also_thorough

from memcore.backends.factory import WorkerBackend
from memcore.backends.fusion import HybridBackend, RankedLists
from memcore.backends.mem0.backend import Mem0Backend
from memcore.backends.protocol import ArchiveIndex, archive_index_of
from memcore.embedding.bm25 import SparseVector
from memcore.ledger.tables import history
from memcore.models.memory import MemoryCategory, MemoryMetadata, MemoryQuery
from memcore.records import Lineage, MemoryRecord, Vectors, Where

QUERY = MemoryQuery(text="who jams the printer", limit=10)


#: Backends that search by vectors, copies too; those that keep copies. The composite one keeps none.
SEARCHING = (
    "mem0",
    *also_thorough(pytest.param("mem0-with-postgresql", marks=pytest.mark.service)),
    pytest.param("mem0-on-a-qdrant-server", marks=pytest.mark.service),
)
searching = pytest.mark.parametrize("build", SEARCHING, indirect=True)
keeping = pytest.mark.parametrize("build", ["inmemory", *SEARCHING], indirect=True)


def index_of(backend: WorkerBackend) -> ArchiveIndex:
    index = archive_index_of(backend)
    assert index is not None
    return index


async def searched(backend: WorkerBackend, agent: str, query: MemoryQuery = QUERY) -> RankedLists:
    assert isinstance(backend, HybridBackend)
    return await backend.retrieve_rankings(agent, query, include_archived=True)


async def replaced(
    backend: WorkerBackend, agent: str, originals: Sequence[MemoryRecord], **more: object
) -> MemoryRecord:
    """Store a summary and copies of its originals."""
    summary = record(agent, "about the printer", lineage=Lineage(summary_of=("one", "two")), **more)  # type: ignore[arg-type]
    await backend.store_many([summary])
    await index_of(backend).index_archived(agent, [copied(each, summary.entry.id) for each in originals])
    return summary


@keeping
async def test_no_ordinary_call_sees_counts_or_changes_a_copy(backend: WorkerBackend) -> None:
    agent, index = new_agent(), index_of(backend)
    scope = Lineage(session_id="s", project_id="p", task_id="t")
    first, second = record(agent, tags=("kept",), lineage=scope), record(agent, "the printer is red", lineage=scope)
    summary = await replaced(backend, agent, [first, second])
    before = await index.indexed_archived(agent)
    archival_ids = [copy.archival_id for copy in before]
    shown = [first.entry.id, second.entry.id, *archival_ids]
    everything = Where(agent_id=agent)

    assert [record.entry for record in (await backend.scan(everything)).records] == [summary.entry]
    assert await backend.count(agent) == await backend.count_where(everything) == 1
    assert await backend.count_where(Where(agent_id=agent, ids=frozenset(shown))) == 0
    assert await backend.scopes(everything, "session_id") == frozenset()
    assert [await backend.get(agent, memory_id) for memory_id in shown] == [None] * 4
    assert await backend.get_many(agent, shown) == ()
    for query in (MemoryQuery(limit=10), MemoryQuery(text="printer", limit=10)):
        assert [each.id for each in await backend.retrieve(agent, query)] == [summary.entry.id]
    if isinstance(backend, Mem0Backend):
        assert [each.id for each in await backend.retrieve_sparse(agent, QUERY)] == [summary.entry.id]
        lists = await backend.retrieve_rankings(agent, QUERY, include_shared=True)
        assert {hit.entry.id for hit in (*lists.dense, *lists.sparse)} == {summary.entry.id}
        assert lists.archived_dense == lists.archived_sparse == ()
        assert not {hit.entry.agent_id for hit in (*lists.shared_dense, *lists.shared_sparse)} & {agent}
    assert await backend.set_metadata_many(agent, shown, MemoryMetadata(tags=("defaced",))) == 0
    assert await backend.claim(everything, "token") == 1
    await backend.unclaim(agent)
    assert await backend.delete_many(agent, shown) == 0
    assert await backend.delete_where(everything) == 1

    after = await index.indexed_archived(agent)
    assert after == before
    assert {copy.record.entry.id: copy.record.entry for copy in after} == {
        each.entry.id: each.entry for each in (first, second)
    }
    assert {copy.record.lineage for copy in after} == {scope}
    await index.unindex_archived(agent, entries=archival_ids)


@keeping
async def test_copies_are_written_once_moved_by_name_and_deleted_by_summary_original_or_entry(
    backend: WorkerBackend,
) -> None:
    agent, index = new_agent(), index_of(backend)
    one, two, three, four = (record(agent, f"the printer, {n}", memory_id=None) for n in range(4))
    below, above, other = (record(agent).entry.id for _ in range(3))
    for _ in range(2):
        await index.index_archived(agent, [copied(each, below) for each in (one, two, three, four)])

    async def under() -> dict[str, str]:
        return {copy.record.entry.id: copy.summary_id for copy in await index.indexed_archived(agent)}

    assert await under() == dict.fromkeys((each.entry.id for each in (one, two, three, four)), below)
    await index.index_archived(agent, [copied(one, above)])
    await index.index_archived(agent, [copied(one, above)], moved_from=[other])
    assert (await under())[one.entry.id] == below
    await index.index_archived(agent, [copied(one, above), copied(two, other)], moved_from=[other, below])
    assert await under() == {
        one.entry.id: above, two.entry.id: other, three.entry.id: below, four.entry.id: below
    }  # fmt: skip
    await index.unindex_archived(agent)
    assert len(await under()) == 4
    await index.unindex_archived(agent, summaries=[above], originals=[two.entry.id])
    assert set(await under()) == {three.entry.id, four.entry.id}
    await index.unindex_archived(agent, entries=[copied(three, below).archival_id])
    assert set(await under()) == {four.entry.id}
    await index.unindex_archived(agent, summaries=[below])
    assert await under() == {}


@searching
async def test_a_search_finds_copies_under_a_summary_that_is_there(backend: WorkerBackend) -> None:
    agent, other = new_agent(), new_agent()
    original = record(agent, namespace="n")
    summary = await replaced(backend, agent, [original], namespace="n")
    await replaced(backend, other, [record(other)])

    lists = await searched(backend, agent)
    assert [(hit.entry, hit.summary_id) for hit in lists.archived_dense] == [(original.entry, summary.entry.id)]
    assert [(hit.entry, hit.summary_id) for hit in lists.archived_sparse] == [(original.entry, summary.entry.id)]
    assert lists.archived_sparse[0].cosine == lists.archived_dense[0].score

    await backend.delete_many(agent, [summary.entry.id])
    lists = await searched(backend, agent)
    assert lists.archived_dense == lists.archived_sparse == ()


@searching
async def test_filters_of_a_query_hold_for_copies_and_expired_ones_are_not_shown(
    backend: WorkerBackend, clock: StoppedClock
) -> None:
    agent = new_agent()
    social = record(agent, category=MemoryCategory.SOCIAL)
    mortal = record(agent, "the printer jams until Friday", expires_at=clock() + timedelta(hours=1))
    await replaced(backend, agent, [social, mortal, record(agent, "the printer jams", created_at=NOW)])

    def found(lists: RankedLists) -> set[str]:
        return {hit.entry.id for hit in (*lists.archived_dense, *lists.archived_sparse)}

    assert len(found(await searched(backend, agent))) == 3
    only_social = QUERY.model_copy(update={"categories": frozenset({MemoryCategory.SOCIAL})})
    assert found(await searched(backend, agent, only_social)) == {social.entry.id}
    assert len(found(await searched(backend, agent, QUERY.model_copy(update={"until": DAWN + timedelta(1)})))) == 2
    clock.now += timedelta(hours=1)
    assert mortal.entry.id not in found(await searched(backend, agent))


@searching
async def test_copies_of_a_summary_that_has_expired_are_not_shown(backend: WorkerBackend, clock: StoppedClock) -> None:
    agent = new_agent()
    await replaced(backend, agent, [record(agent)], expires_at=clock() + timedelta(hours=1))
    assert (await searched(backend, agent)).archived_dense
    clock.now += timedelta(hours=1)
    assert not (await searched(backend, agent)).archived_dense


@searching
async def test_vectors_that_fit_are_taken_and_the_history_says_nothing_of_a_copy(backend: WorkerBackend) -> None:
    assert isinstance(backend, Mem0Backend)
    agent = new_agent()
    dims = backend._indexing.embedder.dims
    dense = np.zeros(dims, dtype=np.float32)
    dense[3] = 1.0
    vectors = Vectors(dense=dense, sparse=SparseVector(indices=(7,), values=(1.5,)), space=backend.vector_space)
    original = record(agent, vectors=vectors)
    await replaced(backend, agent, [original])
    archival_id = copied(original, "s").archival_id
    serving = backend._serving()
    (point,) = serving.client.retrieve(serving.last().collection, [archival_id], with_vectors=True)
    assert isinstance(point.vector, dict)
    assert point.vector[""] == dense.tolist()
    with serving._history._database.read() as connection:
        rows = connection.execute(history.select().where(history.c.memory_id.in_([archival_id, original.entry.id])))
        assert rows.all() == []
