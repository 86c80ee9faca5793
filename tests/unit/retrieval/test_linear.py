"""Linear ranking: boost, decay, weights, threshold, order."""

import math
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.memories import NOW
from support.scored_memories import entries, entry, ids

from memcore.config.retrieval import FusionStrategy, MemoryRetrievalConfig
from memcore.models.memory import MemoryEntry
from memcore.retrieval.ranking import compute_combined_score, compute_recency_score, rank_memories

_PLAIN = MemoryRetrievalConfig(min_relevance=0.0, personal_boost=0.0)


def test_recency_is_one_now_and_halves_at_its_half_life() -> None:
    assert compute_recency_score(NOW, NOW, 0.01) == 1.0
    assert compute_recency_score(NOW - timedelta(hours=math.log(2) / 0.01), NOW, 0.01) == pytest.approx(0.5)


def test_a_memory_of_the_future_is_as_fresh_as_one_of_now() -> None:
    assert compute_recency_score(NOW + timedelta(days=3), NOW, 0.5) == 1.0


def test_recency_of_the_oldest_memory_is_zero_and_no_error() -> None:
    assert compute_recency_score(NOW - timedelta(days=300_000), NOW, 1_000.0) == 0.0


def test_the_combined_score_is_held_to_one() -> None:
    assert compute_combined_score(1.0, 1.0, 0.7, 0.3 + 1e-7) == 1.0
    assert compute_combined_score(0.5, 1.0, 0.7, 0.3) == pytest.approx(0.65)


def test_an_entry_without_relevance_takes_the_default() -> None:
    config = _PLAIN.model_copy(update={"default_relevance": 0.25})
    assert rank_memories((entry("a"),), config=config, now=NOW)[0].relevance_score == 0.25


def test_the_boost_is_for_personal_memories_and_ends_at_one() -> None:
    config = _PLAIN.model_copy(update={"personal_boost": 0.2})
    own, near = entry("own", relevance=0.5), entry("near", relevance=0.9)
    found = rank_memories((own, near), config=config, now=NOW, shared_entries=(entry("theirs", relevance=0.6),))
    assert {each.entry.id: each.relevance_score for each in found} == {"own": 0.7, "near": 1.0, "theirs": 0.6}
    assert {each.entry.id for each in found if each.is_shared} == {"theirs"}


def test_the_threshold_is_on_the_combined_score_and_inclusive() -> None:
    config = MemoryRetrievalConfig(relevance_weight=1.0, recency_weight=0.0, personal_boost=0.0, min_relevance=0.5)
    found = rank_memories((entry("in", relevance=0.5), entry("out", relevance=0.49)), config=config, now=NOW)
    assert ids(found) == ["in"]


def test_the_list_ends_at_max_memories_unless_a_pool_is_wanted() -> None:
    config = _PLAIN.model_copy(update={"max_memories": 2})
    given_ = [entry(str(i), relevance=i / 10) for i in range(6)]
    assert ids(rank_memories(given_, config=config, now=NOW)) == ["5", "4"]
    assert len(rank_memories(given_, config=config, now=NOW, limit=6)) == 6


@given(own=entries(), theirs=entries(prefix="s"), order=st.randoms(use_true_random=False))
def test_ranking_is_sorted_bounded_and_blind_to_the_order_of_its_input(
    own: tuple[MemoryEntry, ...], theirs: tuple[MemoryEntry, ...], order: object
) -> None:
    config = MemoryRetrievalConfig(max_memories=7)
    found = rank_memories(own, config=config, now=NOW, shared_entries=theirs)
    combined = [each.combined_score for each in found]
    assert combined == sorted(combined, reverse=True)
    assert len(found) <= 7
    assert all(config.min_relevance <= score <= 1.0 for score in combined)
    assert all(each.scoring_strategy is FusionStrategy.LINEAR for each in found)
    assert all(each.is_shared == each.entry.id.startswith("s") for each in found)
    shuffled = list(own)
    order.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis hands out a random.Random
    assert rank_memories(shuffled, config=config, now=NOW, shared_entries=theirs) == found
