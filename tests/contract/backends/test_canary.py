"""The canary's memories in every backend: written, found and deleted as an agent's are, and seen by no agent."""

from datetime import timedelta

from support.memories import DAWN, new_agent, record

from memcore.backends.factory import WorkerBackend
from memcore.models.memory import CANARY_OWNER, MemoryCategory, MemoryQuery
from memcore.records import Where

SECOND = timedelta(seconds=1)


async def test_the_canary_is_found_alone_and_the_older_ones_go(backend: WorkerBackend) -> None:
    agent = new_agent()
    texts = [f"The canary of minute {minute}." for minute in range(3)]
    canaries = [
        record(CANARY_OWNER, text, created_at=DAWN + minute * SECOND, category=MemoryCategory.EPISODIC)
        for minute, text in enumerate(texts)
    ]
    await backend.store_many([*canaries, record(agent, texts[0])])

    query = MemoryQuery(text=texts[2], since=DAWN + 2 * SECOND)
    assert [each.id for each in await backend.retrieve(CANARY_OWNER, query)] == [canaries[2].entry.id]
    assert await backend.delete_where(Where(agent_id=CANARY_OWNER, created_before=DAWN + 2 * SECOND)) == 2
    left = await backend.scan(Where(agent_id=CANARY_OWNER))
    assert [each.entry.id for each in left.records] == [canaries[2].entry.id]

    assert [each.content for each in await backend.retrieve(agent, MemoryQuery(text=texts[0]))] == [texts[0]]
    assert await backend.count(agent) == 1
