"""However many memories of a distrusted source answer best, those of the others are shown, listed and counted."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from support.erasure_world import WORD, ErasureWorld
from support.frozen_parts import AGENT
from support.ledger_records import COMPANY
from support.readers import reading
from support.store_items import item

from memcore.backends.mem0.backend import Mem0Backend
from memcore.jobs import StoreItem
from memcore.models.distrust import DistrustRule
from memcore.models.memory import MemoryCategory, MemoryMetadata, MemoryQuery, MemoryStoreRequest
from memcore.models.origin import Channel, Origin, Writer, writing_as

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
