"""The lists of a hybrid search, and the weighted sum that retrieve makes of them."""

import math
from dataclasses import replace

import numpy as np
import pytest
from support.hashing_embedder import HashingEmbedder
from support.memories import NOW, StoppedClock, new_agent, record

from memcore.backends.evidence import DEFAULT_NOISE
from memcore.backends.fusion import Hit, HybridBackend, RankedLists, weighted_rankings
from memcore.backends.mem0.backend import Mem0Backend
from memcore.backends.mem0.config import Mem0Config
from memcore.backends.mem0.search import SearchPlan
from memcore.embedding.bm25 import Bm25Encoder
from memcore.models.memory import MemoryCategory, MemoryQuery

EMBEDDER = HashingEmbedder(dims=16)

#: Sentences that share words in many ways, more than any list is long.
TEXTS = [
    f"{who} {did} the {what} on {day}"
    for who in ("Ada", "Ben", "Cleo", "Dan")
    for did in ("sold", "painted", "lost", "found")
    for what in ("boat", "piano", "ladder")
    for day in ("Monday", "Friday")
]
PLAN = SearchPlan()

QUESTION = "who painted the piano on Friday and found a boat"


def made(place: Mem0Config, clock: StoppedClock, plan: SearchPlan = PLAN) -> Mem0Backend:
    return Mem0Backend(
        place, company="c", embedder=EMBEDDER, encoder=Bm25Encoder(), plan_of=lambda _kind, _weight: plan, clock=clock
    )


async def filled(place: Mem0Config, clock: StoppedClock, plan: SearchPlan = PLAN) -> tuple[Mem0Backend, str]:
    backend, agent = made(place, clock, plan), new_agent()
    await backend.connect()
    await backend.store_many([record(agent, text) for text in TEXTS])
    # Another agent for whom the question's words are everyday ones: neither its memories nor their rarity may reach in.
    await backend.store_many([record(new_agent(), f"painted piano Friday {i}") for i in range(200)])
    return backend, agent


def bm25(text: str) -> float:
    """The score as Qdrant has it, the rarity counted over one agent's texts."""
    encoder = Bm25Encoder()
    documents = [encoder.encode_document(each).indices for each in TEXTS]
    document = encoder.encode_document(text)
    asked = set(encoder.encode_query(QUESTION).indices)
    score = 0.0
    for index, value in zip(document.indices, document.values, strict=True):
        if index in asked:
            spread = sum(index in each for each in documents)
            score += value * math.log(1.0 + (len(documents) - spread + 0.5) / (spread + 0.5))
    return score


def is_ranked(hits: tuple[Hit, ...]) -> bool:
    return [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


async def test_the_lists_hold_true_scores_of_one_agents_memories(place: Mem0Config, clock: StoppedClock) -> None:
    backend, agent = await filled(place, clock)
    assert isinstance(backend, HybridBackend)
    rankings = await backend.retrieve_rankings(agent, MemoryQuery(text=QUESTION, limit=3, min_relevance=0.9))
    await backend.disconnect()

    assert (rankings.shared_dense, rankings.shared_sparse) == ((), ())
    assert len(rankings.dense) == 50
    assert 0 < len(rankings.sparse) <= 50
    asked = EMBEDDER.embed_query(QUESTION)
    for hits in (rankings.dense, rankings.sparse):
        assert is_ranked(hits)
        for hit in hits:
            assert (hit.entry.agent_id, hit.entry.relevance_score) == (agent, None)
            # Also of what only keywords found.
            assert hit.cosine == pytest.approx(float(EMBEDDER.embed_query(hit.entry.content) @ asked), abs=1e-5)
    assert all(hit.score == hit.cosine for hit in rankings.dense)
    for hit in rankings.sparse:
        assert hit.score == pytest.approx(bm25(hit.entry.content), rel=1e-4)


async def test_the_words_of_what_meaning_found_are_counted_where_the_plan_says(
    place: Mem0Config, clock: StoppedClock
) -> None:
    backend, agent = await filled(place, clock, SearchPlan(has_words_of_dense=True))
    # Of more sentences than a list of keywords is long.
    rankings = await backend.retrieve_rankings(agent, MemoryQuery(text=QUESTION))
    await backend.disconnect()

    worded = {hit.entry.id for hit in rankings.sparse}
    assert any(hit.entry.id not in worded and hit.bm25 for hit in rankings.dense)
    for hit in rankings.dense:
        assert (hit.bm25 or 0.0) == pytest.approx(bm25(hit.entry.content), rel=1e-4)


@pytest.mark.parametrize("has_words_of_dense", [False, True])
@pytest.mark.parametrize("limit", [1, 7, 60])
async def test_retrieve_is_the_weighted_sum_of_the_lists(
    place: Mem0Config, clock: StoppedClock, limit: int, *, has_words_of_dense: bool
) -> None:
    plan = SearchPlan(dense_weight=0.3, has_words_of_dense=has_words_of_dense)
    backend, agent = await filled(place, clock, plan)
    query = MemoryQuery(text=QUESTION, limit=limit)
    rankings, found = await backend.retrieve_rankings(agent, query), await backend.retrieve(agent, query)
    await backend.disconnect()

    # retrieve asks for a shorter list by meaning; what it leaves out could not have been among the best.
    fused = weighted_rankings(rankings, dense_weight=backend.dense_weight)
    final = [entry.scores.final for entry in found if entry.scores]
    assert final == pytest.approx(sorted(fused.values(), reverse=True)[:limit], abs=1e-6)
    assert final == pytest.approx([fused[entry.id] for entry in found], abs=1e-6)
    # The relevance follows the order, from the evidence of the best on.
    best = found[0].relevance_score
    assert best
    assert [entry.relevance_score for entry in found] == pytest.approx(
        [best * math.sqrt(each or 0.0) for each in final], abs=1e-6
    )


async def test_filters_and_expiry_reach_every_list(place: Mem0Config, clock: StoppedClock) -> None:
    backend, agent = await filled(place, clock)
    wanted = record(agent, "painted piano", category=MemoryCategory.SOCIAL)
    gone = record(agent, "painted piano Friday", category=MemoryCategory.SOCIAL, expires_at=NOW)
    await backend.store_many([wanted, gone])
    query = MemoryQuery(text=QUESTION, categories=frozenset({MemoryCategory.SOCIAL}))
    rankings = await backend.retrieve_rankings(agent, query)
    await backend.disconnect()

    assert [hit.entry.id for hit in rankings.dense] == [wanted.entry.id]
    assert [hit.entry.id for hit in rankings.sparse] == [wanted.entry.id]


async def test_without_keywords_there_are_none_whoever_asks(place: Mem0Config, clock: StoppedClock) -> None:
    backend, agent = await filled(place, clock, SearchPlan(is_hybrid=False, has_keywords=False))
    rankings = await backend.retrieve_rankings(agent, MemoryQuery(text=QUESTION))
    words = await backend.retrieve_sparse(agent, MemoryQuery(text=QUESTION))
    await backend.disconnect()

    assert len(rankings.dense) == 50
    assert (rankings.sparse, words) == ((), ())


async def test_a_question_without_text_or_meaning_has_no_lists(place: Mem0Config, clock: StoppedClock) -> None:
    backend, agent = await filled(place, clock)
    assert not np.any(EMBEDDER.embed_query("?!"))
    for query in (MemoryQuery(), MemoryQuery(text="?!")):
        rankings = await backend.retrieve_rankings(agent, query)
        assert rankings.question == query.text
        assert replace(rankings, dense_weight=None, noise=DEFAULT_NOISE, question=None) == RankedLists()
    await backend.disconnect()


async def test_day_and_speaker_are_found_by_words_and_do_not_move_the_vector(
    place: Mem0Config, clock: StoppedClock
) -> None:
    backend, agent = made(place, clock), new_agent()
    await backend.connect()
    memory = record(agent, "we sailed to the island", tags=("speaker:Zoe",))
    await backend.store_many([memory, record(agent, "we walked to the castle", tags=("speaker:Ilja",))])
    day = f"{memory.entry.created_at:%B}"
    found = {text: await backend.retrieve_rankings(agent, MemoryQuery(text=text)) for text in ("Zoe", day)}
    (stored,) = await backend.get_many(agent, [memory.entry.id], with_vectors=True)
    await backend.disconnect()

    assert [hit.entry.id for hit in found["Zoe"].sparse] == [memory.entry.id]
    assert len(found[day].sparse) == 2
    assert stored.vectors is not None
    assert stored.vectors.dense == pytest.approx(EMBEDDER.embed_query("we sailed to the island"), abs=1e-6)
