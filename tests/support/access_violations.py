"""Every call of a backend, made by an outsider for the memories of another; none may reach them.

A new call of a protocol needs an entry here; a test compares the entries with the protocols.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from inspect import iscoroutinefunction
from typing import Any

import pytest

from memcore.backends.factory import WorkerBackend
from memcore.backends.fusion import HybridBackend
from memcore.backends.protocol import (
    ArchiveIndex,
    BatchBackend,
    FactStore,
    MemoryBackend,
    SharedKnowledgeStore,
    archive_index_of,
    facts_of,
)
from memcore.errors import MemoryInputError
from memcore.models.memory import MemoryEntry, MemoryMetadata, MemoryQuery, MemoryStoreRequest
from memcore.records import MemoryRecord, SearchNotes, Where
from support.memories import copied, record

#: The protocols whose calls stand below.
PROTOCOLS: tuple[type, ...] = (
    MemoryBackend,
    BatchBackend,
    HybridBackend,
    ArchiveIndex,
    SharedKnowledgeStore,
    FactStore,
)

#: Calls that reach no memory.
LIFECYCLE = frozenset({"connect", "disconnect", "health_check"})

#: What an outsider would write over an owner's metadata.
DEFACED = MemoryMetadata(source="outsider", confidence=0.0, tags=("defaced",))
NOTES = SearchNotes(by="outsider", texts=("defaced",))

#: More than anybody has in these tests: a limit that hides nothing.
PLENTY = 50


@dataclass(frozen=True, kw_only=True)
class AccessViolation:
    """An outsider, what it has, and what it tries to reach.

    Attributes:
        backend: the outsider's: the owner's own, or another company's.
        me: the outsider.
        mine: the outsider's own memories.
        target_memories: the owner's memories, at least one.
        token: a claim mark that memories of the owner carry.
        cursor: one that a page of the owner's gave.
        published: id of a memory that the owner published.
        fact: the shown version of a fact of the owner's company, with the owner's words.
        is_colleague: whether both are of one company, so that the outsider may read what the owner published.
    """

    backend: WorkerBackend
    me: str
    mine: Sequence[MemoryRecord]
    target_memories: Sequence[MemoryRecord]
    token: str
    cursor: str | None
    published: str
    fact: MemoryRecord | None
    is_colleague: bool

    @property
    def shared(self) -> SharedKnowledgeStore:
        assert isinstance(self.backend, SharedKnowledgeStore)
        return self.backend

    @property
    def facts(self) -> FactStore | None:
        return facts_of(self.backend)

    @property
    def ids(self) -> list[str]:
        return [one.entry.id for one in self.target_memories]

    @property
    def by_words(self) -> MemoryQuery:
        return MemoryQuery(text=self.target_memories[0].entry.content, limit=PLENTY)

    @property
    def mine_alone(self) -> Where:
        return Where(agent_id=self.me)

    @property
    def theirs(self) -> Where:
        return Where(agent_id=self.me, ids=frozenset(self.ids))

    @property
    def marked(self) -> Where:
        return Where(agent_id=self.me, token=self.token)


async def _stored(t: AccessViolation) -> bool:
    # A memory with the owner's text is the outsider's own.
    entry = t.target_memories[0].entry
    request = MemoryStoreRequest(category=entry.category, namespace=entry.namespace, content=entry.content)
    memory_id = await t.backend.store(t.me, request)
    assert memory_id not in t.ids
    return await t.backend.delete(t.me, memory_id)


async def _stored_many(t: AccessViolation) -> int:
    entry = t.target_memories[0].entry
    own = record(t.me, entry.content, namespace=entry.namespace)
    await t.backend.store_many([own])
    return await t.backend.delete_many(t.me, [own.entry.id, *t.ids])


async def _rankings(t: AccessViolation) -> object:
    if not isinstance(t.backend, HybridBackend):
        return ()
    archived: dict[str, Any] = {"include_archived": True} if archive_index_of(t.backend) else {}
    rankings = await t.backend.retrieve_rankings(t.me, t.by_words, include_shared=True, **archived)
    assert (rankings.archived_dense, rankings.archived_sparse) == ((), ())
    assert _shows_no_secret(t, entries_in((rankings.shared_dense, rankings.shared_sparse)))
    return rankings.dense, rankings.sparse


async def _indexed(t: AccessViolation) -> int:
    # The owner's entry under a summary of the owner's, with a text of the outsider's: a copy of the outsider's own.
    if (index := archive_index_of(t.backend)) is None:
        return 1
    await index.index_archived(t.me, [copied(record(t.me, "no, mine"), t.ids[0])], moved_from=t.ids)
    found = await index.indexed_archived(t.me)
    assert all(copy.record.entry.agent_id == t.me for copy in found)
    await index.unindex_archived(t.me, entries=[copy.archival_id for copy in found])
    return len(found)


async def _unindexed(t: AccessViolation) -> object:
    if (index := archive_index_of(t.backend)) is None:
        return ()
    archival_ids = [copied(each, t.ids[0]).archival_id for each in t.target_memories]
    await index.unindex_archived(t.me, summaries=t.ids, originals=t.ids, entries=archival_ids)
    return await index.indexed_archived(t.me)


def _shows_no_secret(t: AccessViolation, entries: Sequence[MemoryEntry]) -> bool:
    # What was published is for colleagues; nothing private is ever among it.
    ids = {entry.id for entry in entries}
    return ids.isdisjoint(t.ids) and (t.is_colleague or t.published not in ids)


async def _searched(t: AccessViolation) -> bool:
    queries = (MemoryQuery(limit=PLENTY), t.by_words)
    return all([_shows_no_secret(t, await t.shared.search_shared(query)) for query in queries])


async def _searched_by_words(t: AccessViolation) -> bool:
    return _shows_no_secret(t, await t.shared.search_shared_sparse(t.by_words))


async def _published(t: AccessViolation) -> bool:
    # The owner's words again: a publication of the outsider's own.
    entry = t.target_memories[0].entry
    memory_id = await t.shared.publish(t.me, MemoryStoreRequest(category=entry.category, content=entry.content))
    assert memory_id not in {*t.ids, t.published}
    return await t.shared.retract(t.me, memory_id)


async def _retracted(t: AccessViolation) -> bool:
    return any([await t.shared.retract(t.me, memory_id) for memory_id in (t.published, *t.ids)])


async def _shown(t: AccessViolation) -> bool:
    # What the company knows is put before no outsider, and nothing private can be shown as a fact.
    if t.facts is None:
        return True
    for each in (
        t.target_memories[0],
        replace(t.target_memories[0], entry=t.target_memories[0].entry.model_copy(update={"agent_id": t.me})),
    ):
        with pytest.raises(MemoryInputError, match="agent_id"):
            await t.facts.show(each)
    return True


async def _hidden(t: AccessViolation) -> bool:
    # Another company's fact, an agent's publication and a memory are no facts of this company.
    if t.facts is not None:
        for memory_id in (t.published, *t.ids, *([] if t.is_colleague or t.fact is None else [t.fact.entry.id])):
            await t.facts.hide(memory_id)
    return True


async def _fact_rankings(t: AccessViolation) -> bool:
    found = () if t.facts is None else (await t.facts.rankings(t.by_words)).dense
    ids = {hit.entry.id for hit in found}
    known = {t.fact.entry.id} if t.is_colleague and t.fact is not None else set[str]()
    return ids == known


async def _published_versions(t: AccessViolation) -> bool:
    source = None if t.fact is None else t.fact.entry.metadata.source
    found = {} if t.facts is None else await t.facts.standing([source or "", *t.ids])
    return (source in found) == (t.is_colleague and t.fact is not None)


async def _policies(t: AccessViolation) -> bool:
    source = None if t.fact is None else t.fact.entry.metadata.source
    found = () if t.facts is None else await t.facts.policies(offset=0)
    return any(each.id == source for each in found) == (t.is_colleague and t.fact is not None)


async def _version(t: AccessViolation) -> bool:
    return await t.shared.shared_version() >= 0


Returned = Callable[[AccessViolation], object]

#: Each call by name: how it is made, and what it returns; where that is None, memories, which must be the outsider's.
CALLS: tuple[tuple[str, Callable[[AccessViolation], Awaitable[Any]], Returned | None], ...] = (
    ("store", _stored, lambda _: True),
    ("retrieve", lambda t: t.backend.retrieve(t.me, MemoryQuery(limit=PLENTY)), None),
    ("retrieve", lambda t: t.backend.retrieve(t.me, t.by_words), None),
    ("retrieve_rankings", _rankings, None),
    ("get", lambda t: t.backend.get(t.me, t.ids[0]), lambda _: None),
    ("delete", lambda t: t.backend.delete(t.me, t.ids[0]), lambda _: False),
    ("count", lambda t: t.backend.count(t.me), lambda t: len(t.mine)),
    ("store_many", _stored_many, lambda _: 1),
    ("get_many", lambda t: t.backend.get_many(t.me, t.ids, with_vectors=True), lambda _: ()),
    ("delete_many", lambda t: t.backend.delete_many(t.me, t.ids), lambda _: 0),
    ("delete_where", lambda t: t.backend.delete_where(t.theirs), lambda _: 0),
    ("delete_where", lambda t: t.backend.delete_where(t.marked), lambda _: 0),
    ("count_where", lambda t: t.backend.count_where(t.theirs), lambda _: 0),
    ("count_where", lambda t: t.backend.count_where(t.marked), lambda _: 0),
    ("count_where", lambda t: t.backend.count_where(t.mine_alone), lambda t: len(t.mine)),
    ("scopes", lambda t: t.backend.scopes(t.theirs, "session_id"), lambda _: frozenset()),
    ("scan", lambda t: t.backend.scan(t.mine_alone, with_vectors=True), None),
    ("scan", lambda t: t.backend.scan(t.mine_alone, cursor=t.cursor), None),
    ("scan", lambda t: t.backend.scan(t.theirs), None),
    ("scan", lambda t: t.backend.scan(t.marked), None),
    ("set_metadata_many", lambda t: t.backend.set_metadata_many(t.me, t.ids, DEFACED), lambda _: 0),
    ("set_search_notes", lambda t: t.backend.set_search_notes(t.me, dict.fromkeys(t.ids, NOTES)), lambda _: 0),
    ("claim", lambda t: t.backend.claim(t.theirs, t.token), lambda _: 0),
    ("unclaim", lambda t: t.backend.unclaim(t.me), lambda _: None),
    ("index_archived", _indexed, lambda _: 1),
    ("unindex_archived", _unindexed, lambda _: ()),
    ("indexed_archived", _unindexed, lambda _: ()),
    ("publish", _published, lambda _: True),
    ("search_shared", _searched, lambda _: True),
    ("search_shared_sparse", _searched_by_words, lambda _: True),
    ("retract", _retracted, lambda _: False),
    ("shared_version", _version, lambda _: True),
    ("show", _shown, lambda _: True),
    ("hide", _hidden, lambda _: True),
    ("rankings", _fact_rankings, lambda _: True),
    ("standing", _published_versions, lambda _: True),
    ("policies", _policies, lambda _: True),
)


def calls_of(protocols: Iterable[type]) -> set[str]:
    """Return the names of every call that reaches memories."""
    names = {name for each in protocols for name in vars(each) if iscoroutinefunction(getattr(each, name))}
    return {name for name in names if not name.startswith("_")} - LIFECYCLE


def entries_in(answer: object) -> list[MemoryEntry]:
    """Return every memory that an answer shows, however deep it lies."""
    if isinstance(answer, MemoryEntry):
        return [answer]
    if isinstance(answer, Mapping):
        return entries_in(tuple(answer.values()))
    if isinstance(answer, tuple | list):
        return [entry for part in answer for entry in entries_in(part)]
    if is_dataclass(answer):
        return [entry for field in fields(answer) for entry in entries_in(getattr(answer, field.name))]
    return []


async def check(access_violation: AccessViolation, number: int) -> None:
    """Make one call, and see that it shows and counts the outsider's own memories alone."""
    name, make, returned = CALLS[number]
    answer = await make(access_violation)
    if returned is not None:
        assert answer == returned(access_violation), name
    own = {one.entry.id for one in access_violation.mine}
    for entry in entries_in(answer):
        assert entry.agent_id == access_violation.me, name
        assert entry.id in own, name
