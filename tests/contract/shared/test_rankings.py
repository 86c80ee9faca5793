"""Shared knowledge among the lists of a hybrid search."""

from collections.abc import Callable

from support.publications import reported

from memcore.backends.mem0.backend import Mem0Backend
from memcore.models.memory import MemoryQuery


async def test_what_others_published_stands_in_lists_of_its_own(make_backend: Callable[[], Mem0Backend]) -> None:
    backend, query = make_backend(), MemoryQuery(text="soup of the day")
    await backend.connect()
    private = await backend.store("ada", reported("the soup of my own"))
    await backend.publish("ada", reported("soup of the day, says ada"))
    theirs = await backend.publish("bob", reported("soup of the day, says bob"))
    gone = await backend.publish("bob", reported("soup of the day, no longer"))
    await backend.retract("bob", gone)

    rankings = await backend.retrieve_rankings("ada", query, include_shared=True)
    for own in (rankings.dense, rankings.sparse):
        assert [hit.entry.id for hit in own] == [private]
    for shared in (rankings.shared_dense, rankings.shared_sparse):
        assert [(hit.entry.id, hit.entry.agent_id) for hit in shared] == [(theirs, "bob")]
    assert all(hit.cosine is not None for hit in rankings.shared_sparse)

    alone = await backend.retrieve_rankings("ada", query)
    assert (alone.shared_dense, alone.shared_sparse) == ((), ())
    assert alone.dense == rankings.dense
    await backend.disconnect()
