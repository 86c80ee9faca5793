"""Weighted fusion of the four lists of a hybrid search."""

import math
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.memories import NOW
from support.scored_memories import entries, entry, ids

from memcore.backends.evidence import PROMPT_SLACK, needed_share
from memcore.backends.fusion import Hit, RankedLists
from memcore.config.retrieval import FusionStrategy, MemoryRetrievalConfig
from memcore.models.answers import Shown, Standing
from memcore.models.memory import MemoryEntry
from memcore.retrieval.protocol import ScoredMemory, best_first
from memcore.retrieval.ranking import earned, fuse_ranked_lists, fuse_weighted, judged
from memcore.retrieval.subjects import by_subject

_RELEVANCE_ALONE = MemoryRetrievalConfig(
    relevance_weight=1.0, recency_weight=0.0, personal_boost=0.0, min_relevance=0.0, standing=Shown.ANY
)


def _fused(rankings: RankedLists, config: MemoryRetrievalConfig = _RELEVANCE_ALONE) -> tuple[ScoredMemory, ...]:
    parts = [
        # A word that every memory has: full evidence.
        fuse_weighted(rankings, config=config, dense_weight=0.4, now=NOW, question="printer", is_shared=is_shared)
        for is_shared in (False, True)
    ]
    return tuple(sorted((each for part in parts for each in part), key=best_first))


def test_bm25_is_never_clamped() -> None:
    hits = tuple(Hit(entry=entry(name), score=score) for name, score in (("a", 24.0), ("b", 12.0), ("c", 6.0)))
    assert [each.combined_score for each in _fused(RankedLists(sparse=hits))] == pytest.approx([1.0, 0.5, 0.25])


def test_vectors_and_keywords_add_up_by_their_weight() -> None:
    a, b = entry("a"), entry("b")
    rankings = RankedLists(
        dense=(Hit(entry=a, score=0.8), Hit(entry=b, score=0.4)),
        sparse=(Hit(entry=b, score=9.0),),
    )
    assert {each.entry.id: each.combined_score for each in _fused(rankings)} == pytest.approx({"a": 0.4, "b": 0.8})


def test_personal_and_shared_are_on_one_scale_and_is_shared_is_kept() -> None:
    rankings = RankedLists(
        dense=(Hit(entry=entry("own"), score=0.4),),
        shared_dense=(Hit(entry=entry("theirs"), score=0.8),),
        sparse=(Hit(entry=entry("own"), score=3.0),),
        shared_sparse=(Hit(entry=entry("theirs"), score=6.0),),
    )
    found = _fused(rankings)
    assert [(each.entry.id, each.is_shared) for each in found] == [("theirs", True), ("own", False)]
    assert [each.combined_score for each in found] == pytest.approx([1.0, 0.5])


def test_the_boost_comes_after_the_scale_and_only_to_personal_memories() -> None:
    rankings = RankedLists(
        sparse=(Hit(entry=entry("own"), score=5.0),), shared_sparse=(Hit(entry=entry("theirs"), score=10.0),)
    )
    found = _fused(rankings, _RELEVANCE_ALONE.model_copy(update={"personal_boost": 0.25}))
    assert {each.entry.id: each.relevance_score for each in found} == pytest.approx(
        {"own": math.sqrt(0.6), "theirs": math.sqrt(0.8)}
    )


def test_the_boost_makes_no_equals_of_the_best() -> None:
    hits = tuple(Hit(entry=entry(name), score=score) for name, score in (("c", 9.5), ("b", 9.8), ("a", 10.0)))
    found = _fused(RankedLists(sparse=hits), _RELEVANCE_ALONE.model_copy(update={"personal_boost": 0.1}))
    assert ids(found) == ["a", "b", "c"]
    assert found[0].combined_score == 1.0
    assert len({each.combined_score for each in found}) == 3


def test_the_threshold_cuts_the_combined_score() -> None:
    hits = tuple(Hit(entry=entry(name), score=score) for name, score in (("a", 10.0), ("b", 2.0)))
    assert ids(_fused(RankedLists(sparse=hits), _RELEVANCE_ALONE.model_copy(update={"min_relevance": 0.5}))) == ["a"]


@pytest.mark.parametrize(("newer_score", "first"), [(9.0, "old"), (9.8, "new")])
def test_by_default_age_decides_only_between_near_equals(newer_score: float, first: str) -> None:
    old = entry("old", created_at=NOW - timedelta(days=60))
    new = entry("new", "a printer needs new toner each week", created_at=NOW)
    rankings = RankedLists(sparse=(Hit(entry=old, score=10.0), Hit(entry=new, score=newer_score)))
    assert ids(_fused(rankings, MemoryRetrievalConfig()))[0] == first


@given(own=entries(), theirs=entries(prefix="s"), data=st.data())
def test_fusion_is_sorted_bounded_and_complete(
    own: tuple[MemoryEntry, ...], theirs: tuple[MemoryEntry, ...], data: st.DataObject
) -> None:
    def ranked(found: tuple[MemoryEntry, ...], low: float, high: float) -> tuple[Hit, ...]:
        some = [each for each in found if data.draw(st.booleans())]
        return tuple(Hit(entry=each, score=data.draw(st.floats(min_value=low, max_value=high))) for each in some)

    rankings = RankedLists(
        dense=ranked(own, -1.0, 1.0),
        sparse=ranked(own, 1e-3, 80.0),
        shared_dense=ranked(theirs, -1.0, 1.0),
        shared_sparse=ranked(theirs, 1e-3, 80.0),
    )
    config = MemoryRetrievalConfig(min_relevance=0.0, standing=Shown.ANY, max_memories=100)
    found = _fused(rankings, config)
    combined = [each.combined_score for each in found]
    assert combined == sorted(combined, reverse=True)
    hits = (*rankings.dense, *rankings.sparse, *rankings.shared_dense, *rankings.shared_sparse)
    assert sorted(ids(found)) == sorted({hit.entry.id for hit in hits})
    assert all(each.is_shared == each.entry.id.startswith("s") for each in found)
    assert all(each.scoring_strategy is FusionStrategy.WEIGHTED for each in found)


def test_each_owners_memories_are_judged_by_their_own_best() -> None:
    loud = tuple(Hit(entry=entry(f"l{at}", agent_id="mallory"), score=100.0 - at) for at in range(40))
    honest = Hit(entry=entry("h", agent_id="bob"), score=1.0)
    found = _fused(
        RankedLists(shared_sparse=(*loud, honest)), _RELEVANCE_ALONE.model_copy(update={"standing": Shown.WEAK})
    )
    assert "h" in ids(found), "who publishes much hides what another one wrote"


def test_weak_ones_are_few_and_stand_beside_no_strong_one() -> None:
    def standing(name: str, how: Standing | None) -> ScoredMemory:
        found = entry(name).model_copy(update={"standing": how})
        return ScoredMemory(entry=found, relevance_score=0.5, recency_score=0.5, combined_score=0.5)

    weak = [standing(f"w{at}", Standing.WEAK) for at in range(5)]
    strong, unjudged = standing("s", Standing.STRONG), standing("u", None)
    assert ids(earned([*weak, unjudged], shown=Shown.WEAK)) == ["w0", "w1", "w2", "u"]
    assert ids(earned([*weak, strong, unjudged], shown=Shown.WEAK)) == ["s", "u"]
    assert ids(earned([*weak, unjudged], shown=Shown.STRONG)) == ["u"]
    assert len(earned([*weak, strong], shown=Shown.ANY)) == 6


def test_a_prompt_needs_a_little_less_than_a_list_of_results() -> None:
    scores = {"a": 10.0, "b": 6.6, "c": 1.0}
    hits = tuple(Hit(entry=entry(name), score=score) for name, score in scores.items())
    found = _fused(RankedLists(sparse=hits), _RELEVANCE_ALONE.model_copy(update={"standing": Shown.WEAK}))
    assert needed_share(scores) > scores["b"] / scores["a"] > needed_share(scores) - PROMPT_SLACK
    assert ids(earned(found, shown=Shown.WEAK)) == ["a", "b"]


@pytest.mark.parametrize(
    ("days", "cosine", "is_shown"),
    [(1, 0.38, True), (-1, 0.38, False), (1, 0.2, False)],
    ids=["newer", "older", "far"],
)
def test_a_newer_memory_that_is_nearly_meant_stands_beside_the_best(
    days: int, cosine: float, *, is_shown: bool
) -> None:
    best = entry("best", content="the printer is on the second floor")
    other = entry("other", content="we carried it down", created_at=best.created_at + timedelta(days=days))
    near = (Hit(entry=best, score=0.9), Hit(entry=other, score=cosine))
    rankings = RankedLists(dense=near, sparse=(Hit(entry=best, score=9.0),), noise=0.4)
    config = _RELEVANCE_ALONE.model_copy(update={"standing": Shown.WEAK, "min_relevance": 0.9})
    found = _fused(rankings, config)
    assert [(each.entry.id, each.older_id) for each in found] == [("best", None), ("other", "best")][: 1 + is_shown]
    assert {each.entry.standing for each in found} == {Standing.STRONG}
    assert [each.place_in_subject for each in by_subject("printer", found)] == [1, 2][: 1 + is_shown]
    # A fusion by ranks judges by places.
    by_rank = config.model_copy(update={"fusion_strategy": FusionStrategy.RRF, "rrf_k": 1, "standing": Shown.ANY})
    ranked = fuse_ranked_lists([[best, entry("between", created_at=best.created_at - timedelta(days=9)), other]], k=1)
    apart = judged("printer", ranked, rankings, config=by_rank)
    assert [each.older_id for each in apart] == [None, None, "best" if is_shown else None]
