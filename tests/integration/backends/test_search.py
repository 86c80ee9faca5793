"""Text search on the store server: by meaning, by words, and by both in one round trip."""

from collections.abc import Iterable, Sequence
from datetime import timedelta

import numpy as np
import pytest
from numpy.typing import NDArray
from support.memories import DAWN, StoppedClock, new_agent, record

from memcore.backends.mem0.backend import Mem0Backend
from memcore.backends.mem0.config import Mem0Config
from memcore.backends.mem0.search import SearchPlan
from memcore.embedding.bm25 import Bm25Encoder, Tokenizer
from memcore.embedding.protocol import EmbedderKind
from memcore.models.answers import Shown
from memcore.models.memory import MemoryCategory, MemoryEntry, MemoryQuery

DAY = timedelta(days=1)

#: Words that this embedder takes for one thing; it knows no others.
MEANINGS = [{"car", "automobile", "vehicle"}, {"doctor", "physician"}, {"money", "cash", "budget"}, {"dog", "puppy"}]


class MeaningEmbedder:
    """Knows synonyms and nothing else: what it finds, no keyword search finds, and the other way round."""

    name = "meanings"
    kind = EmbedderKind.STATIC
    dims = len(MEANINGS)

    def embed_documents(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        return np.stack([self.embed_query(text) for text in texts])

    def embed_query(self, text: str, /) -> NDArray[np.float32]:
        words = Tokenizer.words(text)
        vector = np.array([sum(word in meaning for word in words) for meaning in MEANINGS], dtype=np.float32)
        length = np.linalg.norm(vector)
        return (vector / length).astype(np.float32) if length else vector


PLAN = SearchPlan()


def made(place: Mem0Config, clock: StoppedClock, plan: SearchPlan = PLAN) -> Mem0Backend:
    return Mem0Backend(
        place,
        company="c",
        embedder=MeaningEmbedder(),
        encoder=Bm25Encoder(),
        plan_of=lambda _kind, _weight: plan,
        clock=clock,
    )


@pytest.fixture
async def agent(place: Mem0Config, clock: StoppedClock) -> str:
    agent = new_agent()
    backend = made(place, clock)
    await backend.connect()
    texts = [
        "the physician said rest",
        "ticket ERR-4711 was closed",
        "the puppy ate the cash",
        "the doctor drives an automobile",
        "nothing of note happened",
    ]
    await backend.store_many([record(agent, text) for text in texts])
    # Another agent who says the same: rankings and scores must not reach across.
    await backend.store_many([record(new_agent(), text) for text in texts])
    await backend.disconnect()
    return agent


async def contents(backend: Mem0Backend, agent: str, query: MemoryQuery) -> list[str]:
    await backend.connect()
    try:
        found = await backend.retrieve(agent, query)
        assert {entry.agent_id for entry in found} <= {agent}
        assert all(entry.relevance_score is not None for entry in found)
        scores = [entry.relevance_score or 0.0 for entry in found]
        assert scores == sorted(scores, reverse=True)
        return [entry.content for entry in found]
    finally:
        await backend.disconnect()


async def test_hybrid_finds_what_only_the_words_say(place: Mem0Config, clock: StoppedClock, agent: str) -> None:
    found = await contents(made(place, clock), agent, MemoryQuery(text="what about ERR-4711?"))
    assert found == ["ticket ERR-4711 was closed"]


async def test_hybrid_finds_what_only_the_meaning_says(place: Mem0Config, clock: StoppedClock, agent: str) -> None:
    found = await contents(made(place, clock), agent, MemoryQuery(text="budget", min_relevance=0.1))
    assert found == ["the puppy ate the cash"]


async def test_hybrid_ranks_first_what_both_say(place: Mem0Config, clock: StoppedClock, agent: str) -> None:
    found = await contents(made(place, clock), agent, MemoryQuery(text="doctor", min_relevance=0.1, standing=Shown.ANY))
    assert found == ["the doctor drives an automobile", "the physician said rest"]


async def test_vectors_alone_find_no_keyword(place: Mem0Config, clock: StoppedClock, agent: str) -> None:
    dense = made(place, clock, SearchPlan(is_hybrid=False))
    assert await contents(dense, agent, MemoryQuery(text="ERR-4711")) == []
    found = await contents(dense, agent, MemoryQuery(text="physician", min_relevance=0.9))
    assert found == ["the physician said rest"]


async def test_keywords_alone_score_below_one_and_keep_their_order(
    place: Mem0Config, clock: StoppedClock, agent: str
) -> None:
    backend = made(place, clock)
    await backend.connect()
    found = await backend.retrieve_sparse(agent, MemoryQuery(text="physician rest doctor automobile"))
    await backend.disconnect()

    scores = [entry.relevance_score or 0.0 for entry in found]
    assert {entry.content for entry in found} == {"the physician said rest", "the doctor drives an automobile"}
    # A clamp would have made both 1.
    assert all(0.0 < score < 1.0 for score in scores)
    assert scores == sorted(scores, reverse=True)


async def test_keywords_alone_need_words(place: Mem0Config, clock: StoppedClock, agent: str) -> None:
    backend = made(place, clock)
    await backend.connect()
    assert await backend.retrieve_sparse(agent, MemoryQuery()) == ()
    assert await backend.retrieve_sparse(agent, MemoryQuery(text="???")) == ()
    assert await backend.retrieve(agent, MemoryQuery(text="???")) == ()
    await backend.disconnect()


async def test_the_least_relevance_is_judged_after_the_fusion(
    place: Mem0Config, clock: StoppedClock, agent: str
) -> None:
    # The meaning alone gives 0.4 of the score, whose root falls below; the word and the meaning together stay.
    found = await contents(made(place, clock), agent, MemoryQuery(text="doctor", min_relevance=0.7))
    assert found == ["the doctor drives an automobile"]


async def test_filters_reach_both_lists(place: Mem0Config, clock: StoppedClock, agent: str) -> None:
    backend = made(place, clock)
    await backend.connect()
    for i in range(80):
        await backend.store_many([record(agent, f"the doctor and the physician, visit {i}", created_at=DAWN)])
    wanted = record(agent, "one doctor among many", category=MemoryCategory.SOCIAL)
    await backend.store_many([wanted])
    query = MemoryQuery(text="doctor physician visit", categories=frozenset({MemoryCategory.SOCIAL}), limit=1)
    found = await backend.retrieve(agent, query)
    await backend.disconnect()

    # A filter behind the limit would have left nothing.
    assert [entry.id for entry in found] == [wanted.entry.id]


@pytest.fixture
def paths(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls that were made to the store since the test began."""
    import httpx  # noqa: PLC0415  # the fixture spies on it

    made: list[str] = []
    send = httpx.Client.send

    def spy(self: httpx.Client, request: httpx.Request, **options: object) -> httpx.Response:
        made.append(request.url.path)
        return send(self, request, **options)  # type: ignore[arg-type]  # passed through as they came

    monkeypatch.setattr(httpx.Client, "send", spy)
    return made


async def test_a_hybrid_search_is_one_round_trip(
    place: Mem0Config, clock: StoppedClock, agent: str, paths: list[str]
) -> None:
    backend = made(place, clock)
    await backend.connect()
    await backend.store_many([record(agent, "the doctor said this yesterday", expires_at=clock())])
    del paths[:]
    assert await backend.retrieve(agent, MemoryQuery(text="doctor rest"))
    await backend.disconnect()

    # What has expired costs nothing as long as the lists are longer than what there is to find.
    assert paths == [f"/collections/{place.collection}/points/query/batch"]


@pytest.mark.parametrize("is_hybrid", [True, False])
async def test_expired_memories_take_no_place_in_the_lists(
    place: Mem0Config, clock: StoppedClock, agent: str, paths: list[str], *, is_hybrid: bool
) -> None:
    backend = made(place, clock, SearchPlan(is_hybrid=is_hybrid))
    await backend.connect()
    # More and better ones than any list is long; the search must reach past all of them.
    old = [record(agent, f"doctor physician {i}", expires_at=clock()) for i in range(90)]
    live = [record(agent, f"the doctor with the dog has {i}", expires_at=clock() + DAY) for i in range(20)]
    await backend.store_many([*old, *live])
    query = MemoryQuery(text="doctor physician", limit=20, standing=Shown.ANY)
    del paths[:]
    for trips in (2, 3, 4):
        found = await backend.retrieve(agent, query)
        assert len(found) == 20
        assert not ids_of(found) & ids_of(one.entry for one in old)
        # Once a list came back full of expired ones, the next searches leave them out from the start.
        assert len(paths) == trips
    words = await backend.retrieve_sparse(agent, query)
    clock.now += DAY
    left = await backend.retrieve(agent, query)
    await backend.disconnect()

    assert len(words) == 20
    assert not ids_of(words) & ids_of(one.entry for one in old)
    assert ids_of(left)
    assert not ids_of(left) & ids_of(one.entry for one in [*old, *live])


def ids_of(entries: Iterable[MemoryEntry]) -> set[str]:
    return {entry.id for entry in entries}
