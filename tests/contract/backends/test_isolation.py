"""One agent never reads, counts, changes or deletes another's memories, whatever ids it knows; nor does a company."""

from datetime import timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.access_violations import CALLS, PROTOCOLS, AccessViolation, calls_of, check
from support.collection_setup import history_rows
from support.memories import DAWN, NOW, copied, new_agent, record
from support.organization_facts import GRACE, request
from support.thorough import examples

from memcore.backends.factory import WorkerBackend
from memcore.backends.mem0.backend import Mem0Backend
from memcore.backends.mem0.writer import History
from memcore.backends.protocol import SharedKnowledgeStore, archive_index_of, facts_of
from memcore.ledger.database import Database
from memcore.ledger.organization.facts import OrgLog
from memcore.models.memory import MemoryCategory, MemoryQuery, MemoryStoreRequest
from memcore.models.organization import OrgFactCategory
from memcore.org.search import record_of
from memcore.records import MemoryRecord, Where

#: The id of the one fact that the company knows.
FACT = "safe"

WORDS = st.sampled_from(["the safe", "opens at", "seventeen", "four", "noon"])


@st.composite
def memories(draw: st.DrawFn, agent: str) -> list[MemoryRecord]:
    """A few memories, often of the same words and times as another agent's."""
    return [
        record(
            agent,
            " ".join(draw(st.lists(WORDS, min_size=1, max_size=3))),
            created_at=DAWN + timedelta(seconds=draw(st.integers(0, 2))),
            namespace=draw(st.sampled_from(["n1", "n2"])),
            category=draw(st.sampled_from([MemoryCategory.SOCIAL, MemoryCategory.SEMANTIC])),
        )
        for _ in range(draw(st.integers(1, 5)))
    ]


async def holdings(backend: WorkerBackend, agent: str, token: str) -> str:
    """Everything that is an agent's: its memories to the byte, its marks, and in mem0 their history."""
    held = (await backend.scan(Where(agent_id=agent), with_vectors=True)).records
    marked = (await backend.scan(Where(agent_id=agent, token=token))).records
    assert isinstance(backend, SharedKnowledgeStore)
    index = archive_index_of(backend)
    archived = () if index is None else await index.indexed_archived(agent)
    published = [entry for entry in await backend.search_shared(MemoryQuery(limit=1_000)) if entry.agent_id == agent]
    return f"{held} {[one.entry.id for one in marked]} {published} {archived} {await history_of(backend, held)}"


async def known_fact(backend: WorkerBackend) -> MemoryRecord | None:
    """Show the one fact that the company knows, where the backend has facts."""
    facts = facts_of(backend)
    if facts is None:
        return None
    assert isinstance(backend, Mem0Backend)
    database = Database(backend._place.ledger_url or "", name="ledger")
    log = OrgLog(database, clock=lambda: NOW)
    if not log.standing(backend._company, [FACT]):
        policy = request("the safe opens at seventeen four", category=OrgFactCategory.CORE_POLICY)
        log.publish(backend._company, FACT, policy, author=GRACE)
    (line,) = log.operations(backend._company, FACT)
    database.close()
    shown = record_of(backend._company, line)
    await facts.show(shown)
    return shown


async def history_of(backend: WorkerBackend, held: tuple[MemoryRecord, ...]) -> object:
    if not isinstance(backend, Mem0Backend):
        return None
    history = History(backend._place.history_url)
    try:
        return [history_rows(history, one.entry.id) for one in held]
    finally:
        history.close()


def test_every_call_of_the_protocols_is_tried() -> None:
    assert {name for name, _, _ in CALLS} == calls_of(PROTOCOLS)


@settings(max_examples=examples(2), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
async def test_no_call_of_an_outsider_shows_counts_or_changes_anything(
    backend: WorkerBackend, other_company: WorkerBackend, data: st.DataObject
) -> None:
    owner, neighbour = new_agent("owner"), new_agent("neighbour")
    target_memories = data.draw(memories(owner))
    await backend.store_many(target_memories)
    await backend.claim(Where(agent_id=owner, ids=frozenset({target_memories[0].entry.id})), "the owner's")
    cursor = (await backend.scan(Where(agent_id=owner), limit=1)).cursor
    if index := archive_index_of(backend):
        await index.index_archived(owner, [copied(each, target_memories[0].entry.id) for each in target_memories])
    assert isinstance(backend, SharedKnowledgeStore)
    assert isinstance(other_company, SharedKnowledgeStore)
    fact = MemoryStoreRequest(category=MemoryCategory.SOCIAL, content="the safe opens at seventeen four")
    published = await backend.publish(owner, fact)
    fact_shown = await known_fact(backend)
    versions = await other_company.shared_version()
    await other_company.retract(owner, published)
    assert await other_company.shared_version() == versions
    before = await holdings(backend, owner, "the owner's")

    # A neighbour in the company, and the agent of the same name in another company.
    for outsider, theirs in ((neighbour, backend), (owner, other_company)):
        mine = data.draw(memories(outsider))
        await theirs.store_many(mine)
        access_violation = AccessViolation(
            backend=theirs, me=outsider, mine=mine, target_memories=target_memories, token="the owner's", cursor=cursor,
            published=published, fact=fact_shown, is_colleague=theirs is backend,
        )  # fmt: skip
        for number in data.draw(st.permutations(range(len(CALLS)))):
            await check(access_violation, number)
        assert await theirs.delete_where(Where(agent_id=outsider)) == len(mine)
        assert await holdings(backend, owner, "the owner's") == before
    await backend.delete_where(Where(agent_id=owner))
    assert await backend.retract(owner, published)
    facts = facts_of(backend)
    if facts is not None and fact_shown is not None:
        # No outsider hid it.
        assert {hit.entry.id for hit in (await facts.rankings(MemoryQuery(text="safe"))).dense} == {fact_shown.entry.id}
        assert (await facts.standing([FACT])).keys() == {FACT}


async def test_another_agent_cannot_overwrite_a_memory_by_its_id(backend: WorkerBackend) -> None:
    owner, intruder = new_agent("owner"), new_agent("thief")
    mine = record(owner, "mine")
    await backend.store_many([mine])

    await backend.store_many([record(intruder, "no, mine", memory_id=mine.entry.id)])

    entry = await backend.get(owner, mine.entry.id)
    assert entry is not None
    assert entry.content == "mine"
    assert await backend.count(intruder) == 0


async def test_marks_of_one_agent_are_nothing_to_another(backend: WorkerBackend) -> None:
    first, second = new_agent("first"), new_agent("second")
    await backend.store_many([record(first), record(second)])
    assert await backend.claim(Where(agent_id=first), "same token") == 1
    assert await backend.claim(Where(agent_id=second), "same token") == 1

    await backend.unclaim(second)

    assert await backend.delete_where(Where(agent_id=second, token="same token")) == 0
    assert await backend.delete_where(Where(agent_id=first, token="same token")) == 1


async def test_agents_whose_ids_begin_alike_are_two_agents(backend: WorkerBackend) -> None:
    agent = new_agent("a")
    longer = agent + "-b"
    await backend.store_many([record(agent, category=MemoryCategory.SOCIAL), record(longer)])

    assert await backend.delete_where(Where(agent_id=agent)) == 1
    assert await backend.count(longer) == 1
