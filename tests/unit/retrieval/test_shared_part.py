"""The shared part of a prompt: it displaces none of the agent's own memories, and no publisher fills it alone."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.memories import NOW
from support.scored_memories import entries, entry, scored, scored_memories
from support.search_backends import HybridBackend, PlainBackend, SharedStore, hits, near

from memcore.backends.fusion import Hit, RankedLists
from memcore.backends.inmemory import InMemoryBackend
from memcore.backends.protocol import ORGANISATION
from memcore.config.retrieval import FusionStrategy, MemoryRetrievalConfig
from memcore.models.answers import Shown
from memcore.models.memory import MemoryCategory, MemoryEntry, MemoryStoreRequest
from memcore.models.organization import OrgFact, OrgFactAuthor, OrgFactCategory, SeniorityLevel
from memcore.retrieval.context import ContextInjectionStrategy
from memcore.retrieval.formatting import format_fitting
from memcore.retrieval.packing import fit_parts
from memcore.retrieval.protocol import DefaultTokenEstimator, ScoredMemory
from memcore.retrieval.sources import Organisation

_DEFAULTS = MemoryRetrievalConfig()
_LINEAR = MemoryRetrievalConfig(fusion_strategy=FusionStrategy.LINEAR)
_RRF = MemoryRetrievalConfig(fusion_strategy=FusionStrategy.RRF)
_DIVERSE = MemoryRetrievalConfig(diversity_penalty_enabled=True, standing=Shown.ANY)

_OWN = tuple(entry(f"own{i}", f"own note {i}", relevance=0.3 + i / 100) for i in range(5))
_HOSTILE = tuple(
    entry(f"hostile{i}", f"hostile note {i}", relevance=1.0 - i / 1000, agent_id="mallory") for i in range(40)
)


async def shown(
    own: Sequence[MemoryEntry],
    shared: Sequence[MemoryEntry],
    config: MemoryRetrievalConfig = _DEFAULTS,
    *,
    budget: int = 10_000,
) -> list[tuple[str, str]]:
    """Return the origin and the text of each memory that a prompt shows."""
    backend = HybridBackend(
        RankedLists(
            dense=near(*own), sparse=_loud(own, 1.0), shared_dense=near(*shared), shared_sparse=_loud(shared, 12.0)
        )
    )
    backend.answer = tuple(own)
    store = backend if config.fusion_strategy is not FusionStrategy.LINEAR else SharedStore(tuple(shared))
    strategy = ContextInjectionStrategy(backend=backend, config=config, shared_store=store, clock=lambda: NOW)
    messages = await strategy.prepare_messages("ada", "what of 2026?", budget)
    return re.findall(r"<memory-entry (\w+)=[^<>]*>\n(.*)\n</memory-entry>", messages[-1].content) if messages else []


def _loud(found: Sequence[MemoryEntry], loudness: float) -> tuple[Hit, ...]:
    # A publication that repeats a question's words has many times the BM25 score of an honest memory.
    return tuple(Hit(entry=each, score=loudness * (each.relevance_score or 0.01)) for each in found)


@pytest.mark.parametrize("config", [_DEFAULTS, _LINEAR, _RRF, _DIVERSE], ids=["weighted", "linear", "rrf", "diverse"])
async def test_forty_publications_of_one_agent_push_out_nothing_and_take_its_limit(
    config: MemoryRetrievalConfig,
) -> None:
    found = await shown(_OWN, _HOSTILE, config)
    assert sorted(found[:5]) == sorted(("own", each.content) for each in _OWN)
    assert [origin for origin, _ in found[5:]] == ["shared"] * 3


async def test_other_publishers_are_shown_beside_one_that_publishes_much() -> None:
    honest = entry("honest", "honest note", relevance=0.8, agent_id="bob")
    found = await shown(_OWN, (*_HOSTILE, honest))
    assert ("shared", "honest note") in found


async def test_an_old_memory_of_the_agents_own_stays_above_the_threshold_whatever_others_publish() -> None:
    config = _DEFAULTS.model_copy(update={"recency_weight": 0.0, "relevance_weight": 1.0, "personal_boost": 0.0})
    assert [text for origin, text in await shown(_OWN, _HOSTILE, config) if origin == "own"] == [
        text for _, text in await shown(_OWN, (), config)
    ]


async def test_copies_that_others_publish_do_not_make_ones_own_redundant() -> None:
    same = "the disk of the build host is full"
    own = (entry("mine", same, relevance=0.4), *(entry(f"o{i}", f"other {i}", relevance=0.35) for i in range(2)))
    copies = tuple(entry(f"c{i}", same, relevance=0.99, agent_id="mallory") for i in range(3))
    config = _DIVERSE.model_copy(update={"max_memories": 3, "diversity_lambda": 0.1, "shared_fraction": 0.0})
    assert ("own", same) in await shown(own, copies, config)


async def test_what_repeats_ones_own_comes_last_of_what_others_publish() -> None:
    same = "the disk of the build host is full"
    theirs = (entry("copy", same, relevance=0.9, agent_id="bob"), entry("new", "news", relevance=0.6, agent_id="cleo"))
    config = _DIVERSE.model_copy(update={"max_memories": 2, "diversity_lambda": 0.3, "shared_fraction": 0.5})
    assert await shown((entry("mine", same, relevance=0.8),), theirs, config) == [("own", same), ("shared", "news")]


def _publishers(number: int, each: int) -> tuple[MemoryEntry, ...]:
    return tuple(
        entry(f"s{who}-{i}", f"note {who}-{i}", relevance=0.9, agent_id=f"agent{who}")
        for who in range(number)
        for i in range(each)
    )


@pytest.mark.parametrize(
    ("own", "update", "expected"),
    [
        # Twenty of each: 30 % of 20 slots are six.
        (20, {}, {"own": 14, "shared": 6}),
        (20, {"shared_fraction": 0.5}, {"own": 10, "shared": 10}),
        (20, {"shared_fraction": 0.0}, {"own": 20}),
        (20, {"shared_fraction": 1.0}, {"own": 1, "shared": 19}),
        # What the agent's own leave free is for all.
        (2, {}, {"own": 2, "shared": 18}),
        (2, {"max_per_publisher": 1}, {"own": 2, "shared": 10}),
        (0, {"max_per_publisher": 1}, {"shared": 10}),
    ],
)
async def test_each_part_is_sure_of_its_slots_and_may_use_what_the_other_leaves(
    own: int, update: dict[str, float], expected: dict[str, int]
) -> None:
    mine = tuple(entry(f"own{i:02}", f"own {i}", relevance=0.9) for i in range(own))
    found = await shown(mine, _publishers(10, 3), _DEFAULTS.model_copy(update=update))
    assert Counter(origin for origin, _ in found) == expected


async def test_each_part_is_sure_of_its_tokens() -> None:
    mine = tuple(entry(f"own{i:02}", f"{i} " + "m" * 400, relevance=0.9) for i in range(10))
    theirs = tuple(entry(f"s{i:02}", f"{i} " + "s" * 400, relevance=0.9, agent_id=f"agent{i}") for i in range(10))
    # A memory takes some 120 tokens: nine of them, of which two are 30 %.
    counts = Counter(origin for origin, _ in await shown(mine, theirs, budget=1_125))
    assert counts == {"own": 7, "shared": 2}
    assert Counter(origin for origin, _ in await shown(mine[:1], theirs, budget=1_125)) == {"own": 1, "shared": 8}
    assert Counter(origin for origin, _ in await shown(mine, theirs[:1], budget=1_125)) == {"own": 8, "shared": 1}
    # However small the prompt, the best of its own that fits is there.
    assert Counter(origin for origin, _ in await shown(mine, theirs, budget=125)) == {"own": 1}


@given(own=scored_memories(), shared=scored_memories(), data=st.data())
def test_parts_keep_their_bounds(
    own: tuple[ScoredMemory, ...], shared: tuple[ScoredMemory, ...], data: st.DataObject
) -> None:
    estimator = DefaultTokenEstimator()
    shared = tuple(each.model_copy(update={"is_shared": True}) for each in shared)
    slots, budget = data.draw(st.integers(1, 12)), data.draw(st.integers(-5, 200) | st.just(10_000))
    fraction = data.draw(st.floats(0.0, 1.0))

    def fitted(
        mine: tuple[ScoredMemory, ...], theirs: tuple[ScoredMemory, ...]
    ) -> tuple[tuple[ScoredMemory, ...], tuple[ScoredMemory, ...]]:
        return fit_parts(mine, theirs, estimator=estimator, token_budget=budget, slots=slots, shared_fraction=fraction)

    kept, more = fitted(own, shared)
    both = (*kept, *more)
    assert len(both) <= slots
    if both:
        message = format_fitting(both, injection_point=_DEFAULTS.injection_point)[1].content
        assert estimator.estimate_tokens(message) <= budget
    assert [each for each in own if each in kept] == list(kept)
    assert [each for each in shared if each in more] == list(more)
    # What others publish costs an agent no more than their part; without it, it has what it would have alone.
    alone, _ = fitted(own, ())
    assert bool(kept) == bool(alone)
    if budget == 10_000:
        assert len(kept) >= min(len(alone), slots - int(slots * fraction + 0.5))


@given(own=entries(), shared=entries(prefix="s"))
def test_what_others_publish_changes_neither_score_nor_order_of_ones_own(
    own: tuple[MemoryEntry, ...], shared: tuple[MemoryEntry, ...]
) -> None:
    shared = tuple(each.model_copy(update={"agent_id": "mallory"}) for each in shared)
    for config in (_DEFAULTS, _RRF):
        strategy = ContextInjectionStrategy(backend=PlainBackend(), config=config, clock=lambda: NOW)
        alone = RankedLists(dense=near(*own), sparse=hits(*own))
        beside = RankedLists(
            dense=near(*own), sparse=hits(*own), shared_dense=near(*shared), shared_sparse=_loud(shared, 99)
        )
        found = strategy._pipeline._fused_apart("of 2026?", beside, dense_weight=0.4)
        mine = tuple(each for each in found if not each.is_shared)
        assert mine == strategy._pipeline._fused_apart("of 2026?", alone, dense_weight=0.4)


def _fact(number: int, author: OrgFactAuthor) -> ScoredMemory:
    made = scored(f"f{number:02}", 0.9, f"fact {number}", is_shared=True)
    fact = made.entry.model_copy(update={"agent_id": ORGANISATION, "namespace": "org:adr"})
    return made.model_copy(update={"entry": fact, "author": author})


_ANN = OrgFactAuthor(is_human=True, name="ann")
_BOB = OrgFactAuthor(agent_id="bob", seniority=SeniorityLevel.SENIOR)


def test_the_limit_is_for_agents_whatever_they_write_and_not_for_people() -> None:
    strategy = ContextInjectionStrategy(backend=PlainBackend(), config=_DEFAULTS, clock=lambda: NOW)
    of_people = [_fact(number, _ANN) for number in range(6)]
    of_bob = [_fact(10 + number, _BOB) for number in range(6)]
    published = scored("p", 0.8, is_shared=True)
    published = published.model_copy(update={"entry": published.entry.model_copy(update={"agent_id": "bob"})})
    pooled = strategy._pipeline._pooled((*of_bob, *of_people, published), pool=_DEFAULTS.max_memories)
    # Five facts at most, and what an agent wrote beyond its limit takes no place of them.
    assert pooled == (*of_bob[:3], *of_people[:2])
    assert strategy._pipeline._pooled((*of_people, published), pool=_DEFAULTS.max_memories) == (
        *of_people[:5],
        published,
    )


class _Policies:
    """A ledger whose policies agents wrote."""

    def __init__(self, number: int) -> None:
        self._facts = tuple(
            OrgFact(
                id=f"p{i}", content=f"policy {i}", category=OrgFactCategory.CORE_POLICY, author=_BOB, created_at=NOW
            )
            for i in range(number)
        )

    @property
    def facts(self) -> "_Policies":
        return self

    async def policies(self, *, offset: int) -> tuple[OrgFact, ...]:
        return self._facts[offset:]

    async def standing(self, fact_ids: object) -> dict[str, tuple[int, OrgFact]]:
        del fact_ids
        return {}


async def test_policies_that_agents_wrote_lead_within_the_shared_part() -> None:
    own = tuple(entry(f"own{i:02}", f"own {i}", relevance=0.9) for i in range(20))
    strategy = ContextInjectionStrategy(backend=PlainBackend(own), config=_LINEAR, clock=lambda: NOW)
    strategy._pipeline._organisation = Organisation(_Policies(30), clock=lambda: NOW)  # type: ignore[arg-type]  # a test's part
    messages = await strategy.prepare_messages("ada", "what of 2026?", 10_000)
    origins = re.findall(r"<memory-entry (\w+)=", messages[-1].content)
    assert origins == ["organisation"] * 6 + ["own"] * 14


@pytest.mark.parametrize("config", [_DEFAULTS, _RRF], ids=["weighted", "rrf"])
async def test_where_one_publisher_fills_the_answer_the_store_is_asked_once_more_without_it(
    config: MemoryRetrievalConfig,
) -> None:
    honest = entry("honest", "honest note", relevance=0.2, agent_id="bob")

    class Short(HybridBackend):
        """A store whose answer is no longer than forty, as every store's ends somewhere."""

        async def retrieve_rankings(self, *args: Any, **more: Any) -> RankedLists:
            rankings = await super().retrieve_rankings(*args, **more)
            return replace(rankings, shared_dense=rankings.shared_dense[:40], shared_sparse=rankings.shared_sparse[:40])

    every = (*_HOSTILE, honest)
    backend = Short(RankedLists(dense=near(*_OWN), shared_dense=near(*every), shared_sparse=_loud(every, 12.0)))
    strategy = ContextInjectionStrategy(
        backend=backend, config=config.model_copy(update={"min_relevance": 0.0}), shared_store=backend
    )
    messages = await strategy.prepare_messages("ada", "what of 2026?", 10_000)
    assert "honest note" in messages[-1].content
    assert messages[-1].content.count('by="mallory"') == 3
    assert backend.excluded == [frozenset({"mallory"})]
    # Two publishers with three each fill the part: nothing is asked again.
    two = _publishers(2, 20)
    backend = Short(RankedLists(dense=near(*_OWN), shared_dense=near(*two), shared_sparse=_loud(two, 12.0)))
    strategy = ContextInjectionStrategy(backend=backend, config=config, shared_store=backend)
    await strategy.prepare_messages("ada", "what of 2026?", 10_000)
    assert backend.excluded == []


async def test_a_company_store_finds_others_beside_one_that_publishes_much() -> None:
    backend = InMemoryBackend(company="acme")
    await backend.connect()

    async def publish(agent_id: str, text: str) -> None:
        await backend.publish(agent_id, MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content=text))

    await publish("bob", "the honest note")
    for number in range(40):
        await publish("mallory", f"the loud note {number}")
    # Newest first and twenty at most: the honest note is the oldest.
    config = _LINEAR.model_copy(update={"min_relevance": 0.0})
    strategy = ContextInjectionStrategy(backend=backend, config=config, shared_store=backend)
    messages = await strategy.prepare_messages("ada", "note", 10_000)
    assert "the honest note" in messages[-1].content
    assert messages[-1].content.count('by="mallory"') == 3
