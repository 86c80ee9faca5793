"""However many memories of a distrusted source answer best, those of the others are shown, listed and counted."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from support.erasure_world import WORD, ErasureWorld
from support.frozen_parts import AGENT
from support.ledger_records import COMPANY
from support.memories import copied, record
from support.readers import reading
from support.store_items import item

from memcore.backends.deletion import Deletion
from memcore.backends.mem0.backend import Mem0Backend
from memcore.errors import MemoryRefusedError
from memcore.jobs import StoreItem
from memcore.ledger.erasure.hidden import Hidden, HiddenOwners
from memcore.models.archival import ArchivalMode
from memcore.models.distrust import DistrustRule
from memcore.models.memory import MemoryCategory, MemoryMetadata, MemoryQuery, MemoryStoreRequest
from memcore.models.origin import OWN, Channel, Origin, Writer, writing_as
from memcore.records import ORIGIN_KEY, Where

SCRAPED = Origin(channels=(Channel.TOOL,), principals=("scraper",))
QUESTION = "at how many messages does the payment queue page"
CLEAN = tuple(f"the payment queue is watched from desk {n}" for n in range(3))

RULES = [
    DistrustRule(principal="scraper"),
    DistrustRule(channel=Channel.TOOL),
    DistrustRule(source="crawler"),
    DistrustRule(agent_id=AGENT, session_id="s-9"),
]


def scraped(n: int, world: ErasureWorld) -> StoreItem:
    """Return a memory of the scraper's that answers the question better than any other."""
    text = f"the payment queue does page at so many messages: {n}"
    made = item(text, agent_id=AGENT, sent_at=world.clock(), session_id="s-9", namespace="scraped")
    request = made.request.model_copy(update={"metadata": MemoryMetadata(source="crawler")})
    return made.model_copy(update={"origin": SCRAPED, "request": request})


@pytest.fixture
async def crowded(world: ErasureWorld) -> ErasureWorld:
    """A world in which the scraper has far more to say than is shown."""
    await world.ingestor().write([scraped(n, world) for n in range(200)])
    world.clock.now += timedelta(seconds=1)
    await world.ingestor().write(
        [item(text, agent_id=AGENT, sent_at=world.clock(), session_id="s-1") for text in CLEAN]
    )
    return world


async def test_the_clean_ones_are_found_listed_and_counted(
    crowded: ErasureWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with reading(crowded, monkeypatch) as readers:
        service = await readers.service()
        backend = await service.resources.backend()
        assert isinstance(backend, Mem0Backend)
        engine, query = service.engine, MemoryQuery(text=QUESTION, limit=5)

        async def shown() -> dict[str, Any]:
            lists = await backend.retrieve_rankings(AGENT, query)
            prepared = await engine.prepare(AGENT, QUESTION, token_budget=4_000)
            prompt = "\n".join(each.content for each in prepared)
            return {
                "search": _texts(await service.memories.search(AGENT, query)),
                "by words": _texts(await backend.retrieve_sparse(AGENT, query)),
                "rankings": {_texts([hit.entry for hit in hits]) for hits in (lists.dense, lists.sparse)},
                "newest first": _texts(await backend.retrieve(AGENT, MemoryQuery(limit=5))),
                "prompt": frozenset(text for text in CLEAN if text in prompt),
                "scraped in it": "so many messages" in prompt,
                "list": _texts((await engine.list(AGENT, limit=5)).entries),
                "count": await engine.count(AGENT),
                "namespaces": await engine.namespaces(AGENT),
            }

        assert CLEAN[0] not in (await shown())["search"]
        for rule in RULES:
            distrust = crowded.ledger.distrusts.add(COMPANY, rule, WORD)
            assert await shown() == {
                **dict.fromkeys(("search", "by words", "newest first", "prompt", "list"), frozenset(CLEAN)),
                "scraped in it": False,
                "rankings": {frozenset(CLEAN)},
                "count": len(CLEAN),
                "namespaces": ("default",),
            }, rule
            crowded.ledger.distrusts.lift(COMPANY, distrust.distrust_id, WORD)
        assert await engine.count(AGENT) == 203


@pytest.mark.parametrize("rule", [*RULES[:3], DistrustRule(agent_id="bob", principal="scraper")])
async def test_the_clean_ones_are_found_among_what_is_shared(
    world: ErasureWorld, monkeypatch: pytest.MonkeyPatch, rule: DistrustRule
) -> None:
    with writing_as(Writer(principal="scraper", limit=Channel.TOOL, usual=Channel.TOOL)):
        for n in range(60):
            request = _published(f"the payment queue does page at so many messages: {n}", source="crawler")
            await world.backend.publish("bob", request)
    for text in CLEAN:
        await world.backend.publish("carol", _published(text))
    await world.ingestor().write([item("a note", agent_id=AGENT, sent_at=world.clock())])
    async with reading(world, monkeypatch) as readers:
        service = await readers.service()
        backend, query = await service.resources.backend(), MemoryQuery(text=QUESTION, limit=5)
        assert isinstance(backend, Mem0Backend)

        async def shown() -> list[frozenset[str]]:
            lists = await backend.retrieve_rankings(AGENT, query, include_shared=True)
            found = [
                await service.memories.search_shared(query),
                await backend.search_shared_sparse(query),
                *([hit.entry for hit in hits] for hits in (lists.shared_dense, lists.shared_sparse)),
            ]
            return [_texts(each) for each in found]

        assert CLEAN[0] not in (await shown())[0]
        world.ledger.distrusts.add(COMPANY, rule, WORD)
        assert await shown() == [frozenset(CLEAN)] * 4


def _published(text: str, *, source: str = "test") -> MemoryStoreRequest:
    return MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content=text, metadata=MemoryMetadata(source=source))


def _texts(entries: Sequence[Any]) -> frozenset[str]:
    return frozenset(each.content for each in entries)


async def test_what_it_had_replaced_holds_again_and_what_it_says_later_replaces_nothing(
    world: ErasureWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where its origin would let it replace the others' words."""
    old = item("the queue pages at five hundred", agent_id=AGENT, sent_at=world.clock())
    kept = item("the lift is in the west wing", agent_id=AGENT, sent_at=world.clock(), key="lift")
    await world.ingestor().write([old, kept])
    await world.ingestor().write([_agents("the queue pages at nine", world, supersedes=(old.id,))])
    async with reading(world, monkeypatch) as readers:
        service = await readers.service()
        engine, distrusts = service.engine, world.ledger.distrusts

        async def replaced_by(memory_id: str) -> set[str | None]:
            listed = {each.id: each for each in (await engine.list(AGENT, limit=256)).entries}
            found = await service.memories.search(AGENT, MemoryQuery(text="the queue pages at"))
            got = await service.memories.get(AGENT, memory_id)
            assert got is not None
            return {each.superseded_by for each in (got, listed[memory_id], *found) if each.id == memory_id}

        (before,) = await replaced_by(old.id)
        assert before is not None
        distrust = distrusts.add(COMPANY, DistrustRule(principal="scraper"), WORD)
        assert await replaced_by(old.id) == {None}
        assert await service.memories.conflicts(AGENT) == ()

        later = _agents("the lift is in the east wing", world, supersedes=(kept.id, old.id), key="lift")
        written = await world.ingestor().write([later])
        assert written.stored == {later.id}
        assert await replaced_by(old.id) == await replaced_by(kept.id) == {None}
        found = await service.memories.get_by_key(AGENT, "lift")
        assert found is not None
        assert found.id == kept.id

        distrusts.lift(COMPANY, distrust.distrust_id, WORD)
        assert await replaced_by(old.id) == {before}
        # What it had said meanwhile stands beside the others.
        assert await replaced_by(kept.id) == {None}
        assert await service.memories.get_by_key(AGENT, "lift") == found
        assert await service.memories.get(AGENT, later.id) is not None


async def test_what_a_distrusted_key_writes_at_once_is_answered_and_shown_to_nobody(
    world: ErasureWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.ingestor().write([item("a note", agent_id=AGENT, sent_at=world.clock(), key="lift")])
    world.clock.now += timedelta(seconds=1)
    async with reading(world, monkeypatch) as readers:
        service = await readers.service()
        world.ledger.distrusts.add(COMPANY, DistrustRule(principal="scraper"), WORD)
        request = MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content="the lift is in the east", key="lift")
        with writing_as(Writer(principal="scraper")):
            written = await (await service.memories.kept()).put(AGENT, request)
        assert written.content == request.content
        assert _texts((await service.engine.list(AGENT, limit=5)).entries) == {"a note"}
        with writing_as(Writer(principal="scraper")):
            # Without a key it stands alone, and a new key leads to nothing that is shown.
            for each in (request.model_copy(update={"key": None}), request.model_copy(update={"key": "stairs"})):
                assert (await (await service.memories.kept()).put(AGENT, each)).content == request.content
        assert await service.engine.get_by_key(AGENT, "stairs") is None
        found = await service.engine.get_by_key(AGENT, "lift")
        assert found is not None
        assert found.content == "a note"

        # Its edit would take a memory of the others with it.
        with writing_as(Writer(principal="scraper")), pytest.raises(MemoryRefusedError, match="distrusted"):
            await service.memories.update(AGENT, found.id, content="the lift is in the east")
        assert await service.engine.get_by_key(AGENT, "lift") == found
        assert (await service.memories.update(AGENT, found.id, content="a longer note")).content == "a longer note"


async def test_a_new_word_under_a_key_replaces_what_is_distrusted_for_good(
    world: ErasureWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.ingestor().write([_agents("the lift is in the east", world, key="lift")])
    async with reading(world, monkeypatch) as readers:
        service = await readers.service()
        distrust = world.ledger.distrusts.add(COMPANY, DistrustRule(principal="scraper"), WORD)
        request = MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content="the lift is in the west", key="lift")
        await (await service.memories.kept()).put(AGENT, request)
        world.ledger.distrusts.lift(COMPANY, distrust.distrust_id, WORD)
        assert _texts((await service.engine.list(AGENT, limit=5)).entries) == {request.content}


def _agents(text: str, world: ErasureWorld, **more: Any) -> StoreItem:
    """Return a memory that the scraper says is the agent's own word."""
    world.clock.now += timedelta(seconds=1)
    made = item(text, agent_id=AGENT, sent_at=world.clock())
    origin = Origin(channels=(Channel.AGENT,), principals=("scraper",))
    return made.model_copy(update={"origin": origin, "request": made.request.model_copy(update=more)})


async def test_a_call_asks_once_what_is_hidden(world: ErasureWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    old = item("the queue pages at five hundred", agent_id=AGENT, sent_at=world.clock())
    await world.ingestor().write([old])
    # What has a successor is looked up once more.
    await world.ingestor().write([_agents("the queue pages at nine", world, supersedes=(old.id,))])
    asked = list[str]()
    read = HiddenOwners.of

    def counting(self: HiddenOwners, company: str) -> Hidden:
        asked.append(company)
        return read(self, company)

    async with reading(world, monkeypatch) as readers:
        service, query = await readers.service(), MemoryQuery(text="the queue pages at")
        await service.memories.search(AGENT, query)
        monkeypatch.setattr(HiddenOwners, "of", counting)
        for call in (
            lambda: service.memories.search(AGENT, query),
            lambda: service.memories.search_shared(query),
            lambda: service.engine.prepare(AGENT, "the queue pages at", token_budget=500),
            lambda: service.engine.count(AGENT),
        ):
            asked.clear()
            await call()
            assert asked == [COMPANY]


async def test_the_clean_ones_are_found_in_the_archive(world: ErasureWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = [(SCRAPED, f"the payment queue does page at so many messages: {n}") for n in range(60)]
    for origin, text in (*kept, *((OWN, each) for each in CLEAN)):
        made = record(AGENT, text, extra={ORIGIN_KEY: origin.stored()})
        world.ledger.archive.put(COMPANY, made, mode=ArchivalMode.EXTRACTIVE, archived_at=world.clock())
    await world.ingestor().write([item("a note", agent_id=AGENT, sent_at=world.clock())])
    async with reading(world, monkeypatch) as readers:
        archive = (await readers.service()).archive
        queries = [MemoryQuery(text=QUESTION, limit=3), MemoryQuery(limit=3)]
        assert {each.text for each in await archive.search(AGENT, queries[0])}.isdisjoint(CLEAN)
        world.ledger.distrusts.add(COMPANY, RULES[0], WORD)
        for query in queries:
            assert {each.text for each in await archive.search(AGENT, query)} == {*CLEAN}


async def test_a_plan_counts_what_another_distrust_hides(world: ErasureWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.ingestor().write([scraped(n, world) for n in range(3)])
    await world.ingestor().write([item("a note", agent_id=AGENT, sent_at=world.clock())])
    async with reading(world, monkeypatch) as readers:
        distrusts = (await readers.service()).distrusts
        wanted = await distrusts.plan(RULES[2])
        assert [each.in_store for each in wanted.agents] == [3]
        world.ledger.distrusts.add(COMPANY, RULES[0], WORD)
        assert await distrusts.plan(RULES[2]) == wanted


@pytest.mark.parametrize("rule", RULES[2:])
async def test_a_plan_counts_what_was_made_of_it_in_the_store(
    world: ErasureWorld, monkeypatch: pytest.MonkeyPatch, rule: DistrustRule
) -> None:
    old = scraped(0, world)
    keyed = old.model_copy(update={"request": old.request.model_copy(update={"key": "limit"})})
    await world.ingestor().write([keyed])
    world.clock.now += timedelta(seconds=1)
    await world.ingestor().write(
        [item("the queue pages at nine", agent_id=AGENT, sent_at=world.clock(), namespace="scraped", key="limit")]
    )
    async with reading(world, monkeypatch) as readers:
        (found,) = (await (await readers.service()).distrusts.plan(rule)).agents
        assert (found.memories, found.in_store) == (2, 1)


@pytest.mark.parametrize("rule", [*RULES, None])
async def test_what_has_left_the_store_is_hidden_by_every_rule(
    world: ErasureWorld, monkeypatch: pytest.MonkeyPatch, rule: DistrustRule | None
) -> None:
    """Its archived text and its copy in the index, and the text that the journal holds; None names it by its id."""
    note = item("a note", agent_id=AGENT, sent_at=world.clock())
    await world.ingestor().write([note, *(scraped(n, world) for n in range(2))])
    (removed, archived) = (await world.backend.scan(Where(agent_id=AGENT, namespaces=frozenset({"scraped"})))).records
    changes = Deletion.over(world.ledger, company=COMPANY, clock=world.clock)
    await changes.delete_many(world.backend, AGENT, [removed.entry.id, archived.entry.id])
    world.ledger.archive.put(COMPANY, archived, mode=ArchivalMode.EXTRACTIVE, archived_at=world.clock())
    await world.backend.index_archived(AGENT, [copied(archived, note.id)])
    async with reading(world, monkeypatch) as readers:
        service = await readers.service()
        backend, memories = await service.resources.backend(), service.memories
        assert isinstance(backend, Mem0Backend)

        async def shown() -> dict[str, list[str]]:
            lists = await backend.retrieve_rankings(AGENT, MemoryQuery(text=QUESTION), include_archived=True)
            traces = [await memories.why(each.entry.id, agent_id=AGENT, with_text=True) for each in (removed, archived)]
            return {
                "zoom": [hit.entry.content for hit in lists.archived_sparse],
                "copies": [each.record.entry.content for each in await backend.indexed_archived(AGENT)],
                "archive": [each.text for each in await service.archive.search(AGENT, MemoryQuery())],
                "why": [each.memory.text for each in traces if each.memory.text is not None],
                "history": [
                    version.content
                    for version in await memories.history(AGENT, removed.entry.id)
                    if version.content is not None
                ],
            }

        assert all((await shown()).values())
        named = [DistrustRule(agent_id=AGENT, memory_id=each.entry.id) for each in (removed, archived)]
        for each in named if rule is None else [rule]:
            await service.distrusts.distrust(each, confirmation=WORD)
        assert not any((await shown()).values())


async def test_what_a_source_said_at_other_times_is_still_found(
    world: ErasureWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = [world.clock.now + timedelta(days=n) for n in range(3)]
    for n, day in enumerate(days):
        world.clock.now = day
        await world.ingestor().write([scraped(n, world)])
    rule = DistrustRule(principal="scraper", since=days[1], until=days[2])
    world.ledger.distrusts.add(COMPANY, rule, WORD)
    async with reading(world, monkeypatch) as readers:
        service = await readers.service()
        left = {f"the payment queue does page at so many messages: {n}" for n in (0, 2)}
        assert _texts(await service.memories.search(AGENT, MemoryQuery(text=QUESTION, limit=5))) == left
        assert _texts((await service.engine.list(AGENT, limit=5)).entries) == left
        assert await service.engine.count(AGENT) == len(left)
