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
class Trespass:
    """A stranger, and what he is after: the owner's entry, under both of its ids."""

    store: ArchivalStore
    me: str
    prey: ArchivalEntry
    archival_id: str


async def _archived(t: Trespass) -> object:
    # The owner's entry in the stranger's name is another entry.
    return await t.store.archive(t.prey.model_copy(update={"agent_id": t.me})) != t.archival_id


#: Each call, and what a stranger who has one memory of the same words gets.
CALLS: tuple[tuple[str, Callable[[Trespass], Awaitable[Any]], Callable[[Any], bool]], ...] = (
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
    ("restore", lambda t: t.store.restore(t.me, t.prey.original_id), lambda got: got is None),
    ("archive", _archived, bool),
)


def test_every_call_of_the_protocol_is_tried() -> None:
    assert {name for name, _, _ in CALLS} == calls_of([ArchivalStore])


@pytest.mark.parametrize(("me", "company"), [("eve", "acme"), ("ada", "globex"), ("eve", "globex")])
async def test_a_stranger_misses_with_every_call(
    build: Callable[[str], ArchivalStore], store: ArchivalStore, me: str, company: str
) -> None:
    prey = entry(1, WORDS)
    archival_id = await store.archive(prey)
    theirs = build(company)
    await theirs.archive(entry(9, WORDS, agent_id=me))
    trespass = Trespass(store=theirs, me=me, prey=prey, archival_id=archival_id)
    for name, call, is_right in CALLS:
        assert is_right(await call(trespass)), name
    assert await store.search("ada", MemoryQuery()) == (prey,)
    assert await store.restore("ada", archival_id) == prey
