"""Any memories, any filter: the backend agrees with a list and a few lines of Python."""

import uuid
from datetime import timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from memories import DAWN, NOW, new_agent, record
from scans import order, scanned

from memcore.backends.factory import WorkerBackend
from memcore.backends.record import Lineage, MemoryRecord
from memcore.backends.where import Where
from memcore.models import MemoryCategory, MemoryQuery

IDS = [str(uuid.UUID(int=n * 2**64 + n)) for n in range(1, 13)]
TAGS = ("red", "green", "blue")
TIMES = st.integers(0, 4).map(lambda n: DAWN + timedelta(microseconds=n))
SOME_TAGS = st.lists(st.sampled_from(TAGS), max_size=3, unique=True).map(tuple)
CATEGORIES = st.sampled_from(list(MemoryCategory)[:3])
NAMESPACES = st.sampled_from(["n1", "n2"])
A_SESSION = st.sampled_from([None, "s1", "s2"])


@st.composite
def memories(draw: st.DrawFn) -> list[MemoryRecord]:
    """A few memories of one agent, most of them of the same few times."""
    agent = new_agent()
    return [
        record(
            agent,
            f"memory {n}",
            memory_id=str(uuid.uuid4()),
            created_at=draw(TIMES),
            category=draw(CATEGORIES),
            namespace=draw(NAMESPACES),
            tags=draw(SOME_TAGS),
            expires_at=draw(st.sampled_from([None, NOW, NOW + timedelta(microseconds=1)])),
            lineage=Lineage(session_id=draw(A_SESSION)),
        )
        for n in range(draw(st.integers(0, 12)))
    ]


@st.composite
def wheres(draw: st.DrawFn, made: list[MemoryRecord]) -> Where:
    """A filter that often matches some of these memories."""
    ids = [one.entry.id for one in made] or [IDS[0]]
    some_ids = st.frozensets(st.sampled_from(ids))
    since, before = draw(st.none() | TIMES), draw(st.none() | TIMES)
    if since is not None and before is not None and since >= before:
        before = None
    return Where(
        agent_id=made[0].entry.agent_id if made else new_agent(),
        categories=draw(st.none() | st.frozensets(CATEGORIES)),
        namespaces=draw(st.none() | st.frozensets(NAMESPACES)),
        tags=draw(SOME_TAGS.filter(lambda tags: len(tags) < 3)),
        without_tags=draw(st.lists(st.sampled_from(TAGS), max_size=1).map(tuple)),
        created_since=since,
        created_before=before,
        expires_by=draw(st.sampled_from([None, None, NOW])),
        ids=draw(st.none() | some_ids),
        without_ids=draw(st.just(frozenset()) | some_ids),
        session_id=draw(A_SESSION),
    )


def matches(where: Where, one: MemoryRecord) -> bool:
    e = one.entry
    return (
        (where.categories is None or e.category in where.categories)
        and (where.namespaces is None or e.namespace in where.namespaces)
        and all(tag in e.metadata.tags for tag in where.tags)
        and not any(tag in e.metadata.tags for tag in where.without_tags)
        and (where.created_since is None or where.created_since <= e.created_at)
        and (where.created_before is None or e.created_at < where.created_before)
        and (where.expires_by is None or (e.expires_at is not None and e.expires_at <= where.expires_by))
        and (where.ids is None or e.id in where.ids)
        and e.id not in where.without_ids
        and where.session_id in {None, one.lineage.session_id}
    )


_SETTINGS = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@_SETTINGS
@given(data=st.data())
async def test_counts_scans_and_deletes_are_those_of_the_model(backend: WorkerBackend, data: st.DataObject) -> None:
    made = data.draw(memories())
    where = data.draw(wheres(made))
    await backend.store_many(made)
    expected = [one for one in made if matches(where, one)]

    assert await backend.count_where(where) == len(expected)
    found = await scanned(backend, where, limit=data.draw(st.integers(1, 5)))
    assert [one.entry.id for one in found] == order(expected)
    assert await backend.delete_where(where) == len(expected)
    left = await scanned(backend, Where(agent_id=where.agent_id), limit=256)
    assert [one.entry.id for one in left] == order([one for one in made if one not in expected])
    await backend.delete_where(Where(agent_id=where.agent_id))


@_SETTINGS
@given(data=st.data())
async def test_queries_without_a_text_are_those_of_the_model(backend: WorkerBackend, data: st.DataObject) -> None:
    made = data.draw(memories())
    where = data.draw(wheres(made))
    query = MemoryQuery(
        categories=where.categories,
        namespaces=where.namespaces,
        tags=where.tags,
        since=where.created_since,
        until=where.created_before,
        limit=data.draw(st.integers(1, 12)),
    )
    await backend.store_many(made)
    same = Where(
        agent_id=where.agent_id, categories=where.categories, namespaces=where.namespaces, tags=where.tags,
        created_since=where.created_since, created_before=where.created_before,
    )  # fmt: skip
    expected = [one for one in made if matches(same, one) and one.entry.expires_at != NOW]
    expected.sort(key=lambda one: (-one.entry.created_at.timestamp(), one.entry.id))

    found = await backend.retrieve(where.agent_id, query)

    assert [entry.id for entry in found] == [one.entry.id for one in expected[: query.limit]]
    await backend.delete_where(Where(agent_id=where.agent_id))
