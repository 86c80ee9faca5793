"""Archived memories in a prompt: ranked beside their summaries, shown in their place, each once."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest
from support.memories import NOW
from support.scored_memories import entry, ids
from support.search_backends import HybridBackend, PlainBackend, hits

from memcore.backends.fusion import Hit, RankedLists
from memcore.config.retrieval import FusionStrategy, MemoryRetrievalConfig
from memcore.models.answers import Shown
from memcore.models.memory import NON_INFERABLE_TAG, MemoryEntry
from memcore.retrieval.context import ContextInjectionStrategy
from memcore.retrieval.ranking import beside_summary, covered, fuse_weighted, with_archived

CONFIG = MemoryRetrievalConfig(
    relevance_weight=1.0, recency_weight=0.0, personal_boost=0.0, min_relevance=0.2, standing=Shown.ANY
)


def archived(memory: MemoryEntry, score: float, summary_id: str = "s") -> Hit:
    return Hit(entry=memory, score=score, summary_id=summary_id)


def own(memory: MemoryEntry, score: float) -> Hit:
    return Hit(entry=memory, score=score)


class Uses:
    def __init__(self) -> None:
        self.ids: list[str] = []

    def record(self, agent_id: str, memory_ids: Sequence[str], *, at: datetime) -> None:
        del agent_id, at
        self.ids += memory_ids


async def prompt(rankings: RankedLists, *, config: MemoryRetrievalConfig = CONFIG, uses: Uses | None = None) -> str:
    backend = HybridBackend(rankings)
    strategy = ContextInjectionStrategy(
        backend=backend, config=config, shared_store=backend, use_recorder=uses, clock=lambda: NOW
    )
    messages = await strategy.prepare_messages("ada", "what of 2026?", 1_000)
    return messages[-1].content if messages else ""


def test_a_better_summary_raises_an_archived_memory_and_nothing_lowers_it() -> None:
    relevance = {"s": 0.5, "near": 0.9, "far": 0.1, "lost": 0.9, "other": 0.7}
    found = beside_summary(relevance, {"near": "s", "far": "s", "lost": "not found"})
    assert found == pytest.approx({"s": 0.5, "near": 0.9, "far": 0.3, "lost": 0.9, "other": 0.7})


def test_lists_are_scaled_together_and_a_memory_that_is_in_the_store_counts_once() -> None:
    rankings = RankedLists(
        sparse=(own(entry("s"), 5.0), own(entry("back"), 8.0)),
        archived_sparse=(archived(entry("o"), 10.0), archived(entry("back"), 8.0)),
    )
    found = fuse_weighted(with_archived(rankings), config=CONFIG, dense_weight=0.4, now=NOW, question="printer")
    assert {each.entry.id: each.combined_score for each in found} == pytest.approx({"o": 1.0, "back": 0.8, "s": 0.5})
    assert {each.entry.id: each.summary_id for each in found} == {"o": "s", "back": None, "s": None}
    assert covered(found) == {"s"}


async def test_an_original_stands_in_place_of_its_summary_and_says_where_it_comes_from() -> None:
    rankings = RankedLists(
        sparse=(own(entry("s", "in short"), 9.0), own(entry("young", "said today"), 5.0)),
        archived_sparse=(archived(entry("o", "in full"), 10.0),),
    )
    uses = Uses()
    shown = await prompt(rankings, uses=uses)
    assert "in full" in shown
    assert "said today" in shown
    assert "in short" not in shown
    assert 'archived="o"' in shown
    assert shown.count("archived=") == 1
    assert uses.ids == ["s", "young"], "what a run may remove was used"


async def test_a_summary_is_shown_where_none_of_its_originals_is_good_enough() -> None:
    rankings = RankedLists(
        sparse=(own(entry("s", "in short"), 9.0), own(entry("t", "the other in short"), 8.0)),
        archived_sparse=(
            archived(entry("o", "in full"), 0.1, "not found"),
            archived(entry("p", "the other"), 7.0, "t"),
        ),
    )
    shown = await prompt(rankings)
    assert "in short" in shown
    assert "in full" not in shown
    assert "the other" in shown
    assert "the other in short" not in shown


async def test_a_summary_is_shown_where_a_filter_holds_its_originals_back() -> None:
    rankings = RankedLists(
        sparse=(own(entry("s", "in short", tags=(NON_INFERABLE_TAG,)), 9.0),),
        archived_sparse=tuple(archived(entry(f"o{n}", "in full"), 10.0) for n in range(30)),
    )
    shown = await prompt(rankings, config=CONFIG.model_copy(update={"non_inferable_only": True}))
    assert "in short" in shown
    assert "in full" not in shown


async def test_summaries_that_wait_take_no_places() -> None:
    numbers = range(4)
    rankings = RankedLists(
        sparse=tuple(own(entry(f"s{n}", f"in short {n}"), 10.0) for n in numbers),
        archived_sparse=tuple(archived(entry(f"o{n}", f"in full {n}"), 5.0, f"s{n}") for n in numbers),
    )
    shown = await prompt(rankings, config=CONFIG.model_copy(update={"max_memories": 4}))
    assert [f"in full {n}" in shown for n in numbers] == [True] * 4


async def test_shared_knowledge_is_ranked_as_without_archived_memories() -> None:
    shared = tuple(
        own(entry(f"t{n}", f"theirs {n}", agent_id="bob", created_at=NOW - timedelta(days=n)), 4.0 - n)
        for n in range(3)
    )
    lists = RankedLists(sparse=(own(entry("s", "in short"), 3.0),), shared_sparse=shared)
    beside = RankedLists(
        sparse=lists.sparse, shared_sparse=shared, archived_sparse=(archived(entry("o", "in full"), 900.0),)
    )

    def theirs(shown: str) -> list[str]:
        return [line for line in shown.splitlines() if "shared=" in line]

    assert theirs(await prompt(lists)) == theirs(await prompt(beside)) != []


@pytest.mark.parametrize(
    "config",
    [
        CONFIG.model_copy(update={"zoom": False}),
        CONFIG.model_copy(update={"fusion_strategy": FusionStrategy.RRF}),
        CONFIG.model_copy(update={"fusion_strategy": FusionStrategy.LINEAR}),
    ],
)
async def test_archived_memories_are_not_asked_for_without_zoom(config: MemoryRetrievalConfig) -> None:
    rankings = RankedLists(
        sparse=hits(entry("s", "in short", relevance=0.9)), archived_sparse=(archived(entry("o", "in full"), 10.0),)
    )
    assert "in full" not in await prompt(rankings, config=config)


async def test_a_backend_of_an_engines_own_is_not_asked_with_a_word_that_it_does_not_know() -> None:
    class Engine:
        """What an engine wrote against an older release."""

        dense_weight = 0.4

        async def retrieve_rankings(self, agent_id: str, query: object, *, include_shared: bool = False) -> RankedLists:
            del agent_id, query, include_shared
            return RankedLists(sparse=(own(entry("m", "of the engine"), 1.0),))

        def __getattr__(self, name: str) -> object:
            if "archived" in name:
                raise AttributeError(name)
            return getattr(PlainBackend(), name)

    strategy = ContextInjectionStrategy(backend=Engine(), config=CONFIG, clock=lambda: NOW)  # type: ignore[arg-type]
    messages = await strategy.prepare_messages("ada", "what of 2026?", 1_000)
    assert "of the engine" in messages[-1].content


def test_covered_names_nothing_without_archived_memories() -> None:
    found = fuse_weighted(
        RankedLists(sparse=hits(entry("a", relevance=1.0))),
        config=CONFIG,
        dense_weight=0.4,
        now=NOW,
        question="printer",
    )
    assert covered(found) == frozenset()
    assert ids(found) == ["a"]
