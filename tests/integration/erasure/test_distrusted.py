"""What came of a distrusted source is shown by no door, at once; what the others said still is."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel
from support.erasure_world import ErasureWorld
from support.frozen_parts import AGENT, Call, reading_calls
from support.kept_conversations import arc, fact, keep, rule
from support.ledger_records import COMPANY
from support.memories import copied, record
from support.readers import Readers, reading
from support.store_items import item

from memcore.backends.deletion import Deletion
from memcore.backends.mem0.backend import Mem0Backend
from memcore.errors import MemoryNotFoundError
from memcore.jobs import StoreItem
from memcore.maintenance.provenance import MemoryState, TextLocation
from memcore.models.archival import ArchivalMode
from memcore.models.conversation import Owner
from memcore.models.memory import MemoryCategory, MemoryMetadata, MemoryQuery, MemoryStoreRequest, propagated_tag
from memcore.models.memory_changes import MemoryPage
from memcore.models.origin import OPERATOR, OWN, Channel, Origin, Writer, writing_as
from memcore.records import ORIGIN_KEY, MemoryRecord

SCRAPED = Origin(channels=(Channel.TOOL,), principals=("scraper",))
OWNER = Owner(agent_id=AGENT, subject="user:bo")
TRUE, FALSE = "clean", "scraped"

#: Readers that show something of a memory, and the status of what was made.
_SHOWING, _SHOWING_EVERYWHERE, _CREATED = 10, 30, 201

#: Where a writer's publications begin among its secrets.
_PUBLISHED = 12

RULES: list[dict[str, Any]] = [
    {"principal": "scraper"},
    {"channel": "tool", "agent_id": AGENT},
    {"source": "crawler"},
    {"session_id": "s-9", "agent_id": AGENT},
]

#: Those that follow an origin into all that keeps words, and whether they are of all agents.
OF_ORIGIN: list[tuple[dict[str, Any], bool]] = [
    ({"principal": "scraper"}, True),
    ({"channel": "tool"}, True),
    ({"principal": "scraper", "agent_id": AGENT}, False),
]


async def filled(world: ErasureWorld) -> dict[str, list[StoreItem]]:
    """Let two writers use the agent's memory: its engine, and a scraper with a key of its own."""
    every: dict[str, list[StoreItem]] = {}
    for who in (TRUE, FALSE):
        is_scraped = who == FALSE
        written = [
            item(world.secret(who), agent_id=AGENT, sent_at=world.clock(), session_id="s-9" if is_scraped else "s-1")
            for _ in range(6)
        ]
        if is_scraped:
            source = MemoryMetadata(source="crawler")
            written = [
                each.model_copy(
                    update={"origin": SCRAPED, "request": each.request.model_copy(update={"metadata": source})}
                )
                for each in written
            ]
        await world.ingestor().write(written)
        world.clock.now += timedelta(seconds=1)
        every[who] = written
    return every


async def filled_everywhere(world: ErasureWorld) -> dict[str, list[str]]:
    """Let both writers leave words in everything that keeps them, and return the ids of what is not in the store."""
    found: dict[str, list[str]] = {}
    for who, origin in ((TRUE, OWN), (FALSE, SCRAPED)):
        ledger, clock = world.ledger, world.clock
        made = [_record(world.secret(who), origin) for _ in range(6)]
        archived, forgotten = made[:3], made[3:]
        for each in archived:
            ledger.archive.put(COMPANY, each, mode=ArchivalMode.EXTRACTIVE, archived_at=clock())
        await world.backend.index_archived(AGENT, [copied(each, forgotten[0].entry.id) for each in archived])
        # What was removed is held by the journal.
        await world.backend.store_many(forgotten)
        ids = [each.entry.id for each in forgotten]
        await Deletion.over(ledger, company=COMPANY, clock=clock).delete_many(world.backend, AGENT, ids)
        with writing_as(
            Writer(principal="scraper", limit=Channel.TOOL, usual=Channel.TOOL) if origin is SCRAPED else Writer()
        ):
            for _ in range(3):
                request = MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content=world.secret(who))
                await world.backend.publish("bob", request)
        await world.backend.store_many(
            [_record(world.secret(who), origin, agent_id="carol", tags=(propagated_tag(AGENT),)) for _ in range(3)]
        )
        named = {"origin": origin}
        at = clock()
        keep(
            ledger,
            OWNER,
            fact(f"fact-{who}", world.secret(who), at=at).model_copy(update=named),
            rule(f"rule-{who}", world.secret(who), at=at).model_copy(update=named),
            arc(f"session-{who}", world.secret(who), at=at).model_copy(update=named),
        )
        found[who] = [each.entry.id for each in made]
        clock.now += timedelta(seconds=1)
    return found


def _record(content: str, origin: Origin, *, agent_id: str = AGENT, tags: tuple[str, ...] = ()) -> MemoryRecord:
    return record(agent_id, content, tags=tags, extra={ORIGIN_KEY: origin.stored()})


async def test_no_reader_is_shown_what_came_of_it(world: ErasureWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    written = await filled(world)
    async with reading(world, monkeypatch) as readers:
        # Each call asks for one of its memories, by its id or its text.
        about = {
            who: replace(readers, calls=reading_calls(readers.api, items[0].id, question=items[0].request.content))
            for who, items in written.items()
        }
        for rule in RULES:
            await _hidden_and_shown(about, world, rule)


async def _shown(about: dict[str, Readers], world: ErasureWorld) -> dict[str, set[str]]:
    return {who: await about[who].showing(world.secrets[who]) for who in (TRUE, FALSE)}


async def _hidden_and_shown(about: dict[str, Readers], world: ErasureWorld, rule: dict[str, Any]) -> None:
    before, client = await _shown(about, world), about[TRUE].client
    assert before[TRUE] == before[FALSE]
    assert len(before[FALSE]) >= _SHOWING
    plan = await client.post("/v1/distrusts:plan", json=rule)
    assert plan.json() == {
        "agents": [{"agent_id": AGENT, "memories": 6, "in_store": 6, "brought_back": 0}],
        "skills": {},
    }, plan.text
    said = {"reason": "its site was taken over", "confirm": True}
    added = await client.post("/v1/distrusts", json={**rule, **said})
    assert added.status_code == _CREATED, added.text
    assert await _shown(about, world) == {TRUE: before[TRUE], FALSE: set()}, rule
    place = f"/v1/distrusts/{added.json()['distrust_id']}"
    listed = (await client.get(place)).json()
    assert len(listed["memories"][AGENT]) == 6
    assert listed["distrust"]["completed_at"]
    lifted = await client.post(f"{place}/lift", json=said)
    assert lifted.json()["lifted_at"], lifted.text
    assert await _shown(about, world) == before


async def test_nothing_that_keeps_words_shows_those_of_a_distrusted_origin(
    world: ErasureWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, elsewhere = await filled(world), await filled_everywhere(world)
    async with reading(world, monkeypatch) as readers:
        about = {
            who: replace(readers, calls=_every_call(readers, written[who][0], elsewhere[who])) for who in (TRUE, FALSE)
        }
        for asked, is_of_all in OF_ORIGIN:
            before = await _everywhere(about, world)
            assert before[TRUE] == before[FALSE]
            assert len(before[FALSE]) >= _SHOWING_EVERYWHERE
            said = {"reason": "its site was taken over", "confirm": True}
            added = await readers.client.post("/v1/distrusts", json={**asked, **said})
            assert added.status_code == _CREATED, added.text
            after = await _everywhere(about, world)
            assert after[TRUE] == before[TRUE], asked
            assert after[FALSE] == TO_SUBJECT | (set() if is_of_all else before[FALSE] & OF_OTHERS), asked
            await readers.client.post(f"/v1/distrusts/{added.json()['distrust_id']}/lift", json=said)
            assert await _everywhere(about, world) == before


#: What the other agents have: a publisher, and who has copies of lessons.
OF_OTHERS = {
    "python search_shared",
    "python shared by words",
    "python list carol",
}

#: A person is shown all that is kept of them.
TO_SUBJECT = {"python export"}


def _every_call(readers: Readers, kept: StoreItem, others: Sequence[str]) -> dict[str, Call]:
    """Return the calls about a memory, and those about an archived and a removed one."""
    question = kept.request.content
    calls = reading_calls(readers.api, kept.id, question=question, entry_id=others[0])
    place = f"/v1/agents/{AGENT}"
    for name, memory_id in (("archived", others[0]), ("removed", others[3])):
        for path in (
            f"{place}/memories/{memory_id}",
            f"{place}/memories/{memory_id}/history",
            f"/v1/memories/{memory_id}/history/",
            f"/console/memories/one?agent={AGENT}&id={memory_id}",
        ):
            calls[f"GET {path.replace(memory_id, name)}"] = ("GET", path, None)
    for path in (
        f"/console/memories?agent={AGENT}",
        f"/console/memories/one?agent={AGENT}&id={kept.id}",
        f"/console/memories/archive?agent={AGENT}",
    ):
        calls[f"GET {path.replace(kept.id, 'kept')}"] = ("GET", path, None)
    return calls


async def _everywhere(about: dict[str, Readers], world: ErasureWorld) -> dict[str, set[str]]:
    return {
        who: await _in_python(about[who], world.secrets[who]) | shown
        for who, shown in (await _shown(about, world)).items()
    }


async def _in_python(readers: Readers, secrets: list[str]) -> set[str]:
    """Return the calls in Python whose answers hold any of the texts."""
    service = await readers.service()
    engine, talks, memories = service.engine, service.conversation, service.memories
    backend = await service.resources.backend()
    assert isinstance(backend, Mem0Backend)
    question, every = f"the code is {secrets[0]} today", MemoryQuery(limit=100)
    answers: dict[str, Any] = {
        "python search_shared": await memories.search_shared(every),
        "python shared by words": await memories.search_shared(
            MemoryQuery(text=f"the code is {secrets[_PUBLISHED]} today")
        ),
        "python list carol": await engine.list("carol", limit=256),
        "python zoom": [
            hit.entry
            for hit in (
                await backend.retrieve_rankings(AGENT, MemoryQuery(text=question, limit=50), include_archived=True)
            ).archived_sparse
        ],
        "python archived copies": [each.record.entry for each in await backend.indexed_archived(AGENT)],
        "python archive": await service.archive.search(AGENT, every),
        "python facts": await talks.facts(OWNER),
        "python rules": await talks.rules(OWNER),
        "python sessions": await talks.sessions(OWNER),
        "python turn": await engine.load_turn(AGENT, question, user_id="bo", is_first_turn=True),
        "python export": await talks.export(OWNER),
    }
    for who in (TRUE, FALSE):
        for kind in ("fact", "rule", "session"):
            answers[f"python explained {kind}"] = (
                *answers.get(f"python explained {kind}", ()),
                *(await talks.explained(f"{kind}-{who}")),
            )
    return {name for name, answer in answers.items() if any(each in _text(answer) for each in secrets)}


def _text(answer: Any) -> str:
    if isinstance(answer, dict):
        return _text(list(answer.values()))
    if isinstance(answer, list | tuple):
        return "".join(map(_text, answer))
    if isinstance(answer, MemoryPage):
        return _text(answer.entries)
    return str(answer.model_dump_json()) if isinstance(answer, BaseModel) else repr(answer)


async def test_a_person_is_told_that_it_is_hidden_and_others_that_there_is_none(
    world: ErasureWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = await filled(world)
    memory_id, known = written[FALSE][0].id, written[TRUE][0].id
    async with reading(world, monkeypatch) as readers:
        said = {"channel": "tool", "agent_id": AGENT, "reason": "it lies", "confirm": True}
        await readers.client.post("/v1/distrusts", json=said)
        why = (await readers.service()).memories.why
        with pytest.raises(MemoryNotFoundError):
            await why(memory_id, agent_id=AGENT)
        with writing_as(OPERATOR):
            hidden = (await why(memory_id, agent_id=AGENT, with_text=True)).memory
            assert (hidden.state, hidden.text_in, hidden.text) == (MemoryState.HIDDEN, TextLocation.STORE, None)
            assert (await why(known, agent_id=AGENT)).memory.state is MemoryState.LIVE
