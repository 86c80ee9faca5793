"""One agent never reads or counts what another has in the archive, whatever ids it knows; nor does a company."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from support.access_violations import calls_of
from support.archive_entries import entry

from memcore.maintenance.archival_store import ArchivalStore
from memcore.models.archival import ArchivalEntry
from memcore.models.memory import MemoryQuery

WORDS = "the safe opens at seventeen past four"


@dataclass(frozen=True, kw_only=True)
class AccessViolation:
    """An outsider's attempt on the owner's entry, under both of its ids."""

    store: ArchivalStore
    me: str
    target_memories: ArchivalEntry
    archival_id: str


async def _archived(t: AccessViolation) -> object:
    # The owner's entry in the outsider's name is another entry.
    return await t.store.archive(t.target_memories.model_copy(update={"agent_id": t.me})) != t.archival_id


#: Each call, and what an outsider who has one memory of the same words gets.
CALLS: tuple[tuple[str, Callable[[AccessViolation], Awaitable[Any]], Callable[[Any], bool]], ...] = (
    ("count", lambda t: t.store.count(t.me), lambda count: count == 1),
    (
        "search",
        lambda t: t.store.search(t.me, MemoryQuery(limit=50)),
        lambda got: [e.original_id for e in got] == ["m9"],
    ),
    (
        "search",
        lambda t: t.store.search(t.me, MemoryQuery(text=WORDS)),
        lambda got: [e.original_id for e in got] == ["m9"],
    ),
    ("restore", lambda t: t.store.restore(t.me, t.archival_id), lambda got: got is None),
    ("restore", lambda t: t.store.restore(t.me, t.target_memories.original_id), lambda got: got is None),
    ("archive", _archived, bool),
)


def test_every_call_of_the_protocol_is_tried() -> None:
    assert {name for name, _, _ in CALLS} == calls_of([ArchivalStore])


@pytest.mark.parametrize(("me", "company"), [("eve", "acme"), ("ada", "globex"), ("eve", "globex")])
async def test_an_outsider_misses_with_every_call(
    build: Callable[[str], ArchivalStore], store: ArchivalStore, me: str, company: str
) -> None:
    target_memories = entry(1, WORDS)
    archival_id = await store.archive(target_memories)
    theirs = build(company)
    await theirs.archive(entry(9, WORDS, agent_id=me))
    access_violation = AccessViolation(store=theirs, me=me, target_memories=target_memories, archival_id=archival_id)
    for name, call, is_right in CALLS:
        assert is_right(await call(access_violation)), name
    assert await store.search("ada", MemoryQuery()) == (target_memories,)
    assert await store.restore("ada", archival_id) == target_memories
