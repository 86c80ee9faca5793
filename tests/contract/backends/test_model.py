"""Any memories of any agents, any filter, any limit: the backend agrees with a list and a few lines of Python."""

import uuid
from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.full_scan import order, scanned
from support.memories import DAWN, NOW, new_agent, record
from support.thorough import examples

from memcore.backends.factory import WorkerBackend
from memcore.models.memory import MemoryCategory, MemoryQuery
from memcore.records import Lineage, MemoryRecord, Scope, Where

TAGS = ("red", "green", "blue")
TIMES = st.integers(0, 4).map(lambda n: DAWN + timedelta(microseconds=n))
SOME_TAGS = st.lists(st.sampled_from(TAGS), max_size=3, unique=True).map(tuple)
CATEGORIES = st.sampled_from(list(MemoryCategory)[:3])
NAMESPACES = st.sampled_from(["n1", "n2"])
OUTSIDE: list[Scope | None] = [None, "session_id", "project_id"]
#: What memories hold beside memtend's own keys: nothing, an outsider's key, or what makes a lesson of one.
EXTRAS: list[dict[str, Any]] = [{}, {"procedure": "of a stranger"}, {"procedure": {"scope": "agent"}}]
A_SESSION = st.sampled_from([None, "s1", "s2"])


@st.composite
def memories(draw: st.DrawFn, agents: list[str]) -> list[MemoryRecord]:
    """A few memories of these agents, most of them of the same few times."""
    return [
        record(
            draw(st.sampled_from(agents)),
            f"memory {n}",
            memory_id=str(uuid.uuid4()),
            created_at=draw(TIMES),
            category=draw(CATEGORIES),
            namespace=draw(NAMESPACES),
            tags=draw(SOME_TAGS),
            expires_at=draw(st.sampled_from([None, NOW, NOW + timedelta(microseconds=1)])),
            lineage=Lineage(session_id=draw(A_SESSION)),
            extra=draw(st.sampled_from(EXTRAS)),
        )
        for n in range(draw(st.integers(0, 16)))
    ]


@st.composite
def wheres(draw: st.DrawFn, agent_id: str, made: list[MemoryRecord]) -> Where:
    """A filter over this agent's memories that often matches some of them, by ids of the other agents' too."""
    some_ids = st.frozensets(st.sampled_from([one.entry.id for one in made] or [str(uuid.UUID(int=1))]))
    since, before = draw(st.none() | TIMES), draw(st.none() | TIMES)
    if since is not None and before is not None and since >= before:
        before = None
    return Where(
        agent_id=agent_id,
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
        outside=draw(st.sampled_from(OUTSIDE)),
        lessons=draw(st.sampled_from([None, None, True, False])),
    )


def matches(where: Where, one: MemoryRecord) -> bool:
    e = one.entry
    return (
        e.agent_id == where.agent_id
        and (where.categories is None or e.category in where.categories)
        and (where.namespaces is None or e.namespace in where.namespaces)
        and all(tag in e.metadata.tags for tag in where.tags)
        and not any(tag in e.metadata.tags for tag in where.without_tags)
        and (where.created_since is None or where.created_since <= e.created_at)
        and (where.created_before is None or e.created_at < where.created_before)
        and (where.expires_by is None or (e.expires_at is not None and e.expires_at <= where.expires_by))
        and (where.ids is None or e.id in where.ids)
        and e.id not in where.without_ids
        and where.session_id in {None, one.lineage.session_id}
        and where.lessons in {None, one.extra == EXTRAS[2]}
        and (where.outside is None or getattr(one.lineage, where.outside) is None)
    )


@settings(
    max_examples=examples(8),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
async def test_every_backend_does_what_the_model_does(backend: WorkerBackend, data: st.DataObject) -> None:
    agents = [new_agent(), new_agent()]
    made = data.draw(memories(agents))
    await backend.store_many(made)
    agent = data.draw(st.sampled_from(agents))
    where = data.draw(wheres(agent, made))
    limit = data.draw(st.integers(1, 12))

    asked = Where(
        agent_id=agent, categories=where.categories, namespaces=where.namespaces, tags=where.tags,
        created_since=where.created_since, created_before=where.created_before,
    )  # fmt: skip
    query = MemoryQuery(
        categories=asked.categories, namespaces=asked.namespaces, tags=asked.tags,
        since=asked.created_since, until=asked.created_before, limit=limit,
    )  # fmt: skip
    hits = [one.entry for one in made if matches(asked, one) and one.entry.expires_at != NOW]
    hits.sort(key=lambda entry: (-entry.created_at.timestamp(), entry.id))
    assert [entry.id for entry in await backend.retrieve(agent, query)] == [entry.id for entry in hits[:limit]]

    # Every memory here says the word, so a text query chooses the order alone: the filters still come before the limit.
    by_text = [entry.id for entry in await backend.retrieve(agent, query.model_copy(update={"text": "memory"}))]
    assert len(set(by_text)) == len(by_text) == min(limit, len(hits))
    assert set(by_text) <= {entry.id for entry in hits}

    category = data.draw(st.none() | CATEGORIES)
    of_category = Where(agent_id=agent, categories=None if category is None else frozenset({category}))
    assert await backend.count(agent, category=category) == sum(matches(of_category, one) for one in made)

    expected = [one for one in made if matches(where, one)]
    assert await backend.count_where(where) == len(expected)
    assert [one.entry.id for one in await scanned(backend, where, limit=limit)] == order(expected)
    assert await backend.delete_where(where) == len(expected)
    for each in agents:
        left = [one for one in made if one.entry.agent_id == each and one not in expected]
        assert [one.entry.id for one in await scanned(backend, Where(agent_id=each), limit=256)] == order(left)
        await backend.delete_where(Where(agent_id=each))
