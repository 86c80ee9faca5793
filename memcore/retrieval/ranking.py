"""Ranking: linear scores of relevance and recency, rank fusion, weighted fusion, and diversity (MMR)."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from memcore.backends.evidence import (
    MOST_JUDGED,
    MOST_WEAK,
    PROMPT_SLACK,
    Candidate,
    Evidence,
    absolute,
    best_of,
    evidence_of,
    showing,
    standings,
)
from memcore.backends.fusion import RankedLists, weighted_rankings
from memcore.config.retrieval import FusionStrategy, MemoryRetrievalConfig
from memcore.models.answers import Shown, Standing
from memcore.models.memory import NON_INFERABLE_TAG, MemoryCategory, MemoryEntry
from memcore.retrieval.protocol import ScoredMemory, best_first

_HOUR = timedelta(hours=1)

#: Places of a ranking in which a newer memory may stand beside the best without standing near it.
_FIRST = 3


def compute_recency_score(created_at: datetime, now: datetime, decay_rate: float) -> float:
    """Return ``exp(-decay_rate * age in hours)``: 1.0 for a memory made now or later, towards 0.0 with age.

    A rate of 0.01 halves the score in about three days.
    """
    return math.exp(-decay_rate * max(0.0, (now - created_at) / _HOUR))


def compute_combined_score(relevance: float, recency: float, relevance_weight: float, recency_weight: float) -> float:
    """Return the weighted sum, held to 0.0 to 1.0 against what floating point adds; the weights make 1.0."""
    return min(1.0, max(0.0, relevance_weight * relevance + recency_weight * recency))


def rank_memories(
    entries: Sequence[MemoryEntry],
    *,
    config: MemoryRetrievalConfig,
    now: datetime,
    shared_entries: Sequence[MemoryEntry] = (),
    limit: int | None = None,
) -> tuple[ScoredMemory, ...]:
    """Return the memories that reach ``config.min_relevance``, and the weak ones, best first.

    The agent's own are raised by ``config.personal_boost``, up to 1.0. Without a limit, at most ``config.max_memories``
    are returned; re-ranking needs more.
    """
    scored: list[ScoredMemory] = []
    for is_shared, boost, found in ((False, config.personal_boost, entries), (True, 0.0, shared_entries)):
        for entry in found:
            known = config.default_relevance if entry.relevance_score is None else entry.relevance_score
            relevance = min(1.0, known + boost)
            recency = compute_recency_score(entry.last_stated_at, now, config.recency_decay_rate)
            combined = compute_combined_score(relevance, recency, config.relevance_weight, config.recency_weight)
            if combined >= config.min_relevance or entry.standing is Standing.WEAK:
                scored.append(
                    ScoredMemory(
                        entry=entry,
                        relevance_score=relevance,
                        recency_score=recency,
                        combined_score=combined,
                        is_shared=is_shared,
                        scoring_strategy=FusionStrategy.LINEAR,
                    )
                )
    return tuple(sorted(scored, key=best_first))[: config.max_memories if limit is None else limit]


# Cormack, Clarke and Buettcher: Reciprocal Rank Fusion outperforms Condorcet and individual rank learning methods,
# 2009.

#: The reference's smoothing constant: the tenth place of a list is still worth 87 % of the first.
DEFAULT_K = 60

#: The reference's length of the result.
DEFAULT_MAX_RESULTS = 20


def fuse_ranked_lists(
    ranked_lists: Sequence[Sequence[MemoryEntry]],
    *,
    k: int = DEFAULT_K,
    max_results: int = DEFAULT_MAX_RESULTS,
    shared_ids: Collection[str] = frozenset(),
    min_relevance: float = 0.0,
) -> tuple[ScoredMemory, ...]:
    """Return the memories by the sum of ``1 / (k + rank)`` over the lists they stand in, best first.

    Ranks count from 1, and a memory counts once in a list, at its best place. ``combined_score`` is the sum, spread
    over 0.0 to 1.0 between the worst and the best (all 1.0 when they are equal).

    Args:
        ranked_lists: each best first; of a memory in several lists the first object is kept.
        k: smoothing constant, 1 or more; a smaller one makes more of the difference between places.
        max_results: most memories returned, 1 or more.
        shared_ids: which of them are shared knowledge.
        min_relevance: drop those whose sum is less than this share of the best one's, 0.0 to 1.0. The share is of the
            sum itself: on the spread scale the worst is always 0.0 and would always go, however good it is.
    """
    if k < 1:
        raise ValueError(f"k must be 1 or more, not {k}")
    if max_results < 1:
        raise ValueError(f"max_results must be 1 or more, not {max_results}")
    entries: dict[str, MemoryEntry] = {}
    sums: dict[str, float] = {}
    for ranked in ranked_lists:
        seen: set[str] = set()
        for rank, entry in enumerate(ranked, start=1):
            if entry.id in seen:
                continue
            seen.add(entry.id)
            entries.setdefault(entry.id, entry)
            sums[entry.id] = sums.get(entry.id, 0.0) + 1.0 / (k + rank)
    if not sums:
        return ()
    low, high = min(sums.values()), max(sums.values())
    kept = [key for key, total in sums.items() if total >= min_relevance * high]
    kept.sort(key=lambda key: (-sums[key], -entries[key].last_stated_at.timestamp(), key))
    return tuple(
        ScoredMemory(
            entry=entries[key],
            relevance_score=entries[key].relevance_score or 0.0,
            recency_score=0.0,
            combined_score=1.0 if high == low else (sums[key] - low) / (high - low),
            is_shared=key in shared_ids,
            scoring_strategy=FusionStrategy.RRF,
        )
        for key in kept[:max_results]
    )


def fuse_weighted(
    rankings: RankedLists,
    *,
    config: MemoryRetrievalConfig,
    dense_weight: float,
    now: datetime,
    question: str,
    is_shared: bool = False,
) -> tuple[ScoredMemory, ...]:
    """Return the agent's own memories that may be shown, or the shared ones, best first.

    Personal and shared memories are scaled together, so that the best of either can be the best of all; then the
    agent's own are raised by ``personal_boost``, all are scaled back to 0 to 1, and recency is added by its weight. A
    cap at 1, as ``linear`` has it, would make all that come near the best equal, which has 1 here. The rankings have
    raw scores: cosine similarities and BM25, neither cut off.

    Each has its standing (memcore.backends.evidence), and ``config.standing`` says which are returned. The relevance
    compares between questions, and ``config.min_relevance`` is held against the combined score on its scale; what is
    weak has less anyway.
    """
    every = (*rankings.shared_sparse, *rankings.shared_dense, *rankings.sparse, *rankings.dense)
    shared = {hit.entry.id for hit in (*rankings.shared_dense, *rankings.shared_sparse)}
    entries = {hit.entry.id: hit.entry for hit in every}
    summary_of = {hit.entry.id: hit.summary_id for hit in every if hit.summary_id is not None}
    relevance = beside_summary(weighted_rankings(rankings, dense_weight=dense_weight, question=question), summary_of)
    boost = 0.0 if is_shared else config.personal_boost
    # Most are not shown: only those that are become objects.
    places: list[tuple[float, float, float, MemoryEntry]] = []
    for key, score in relevance.items():
        if (key in shared) is is_shared:
            share = (score + boost) / (1.0 + config.personal_boost)
            recency = compute_recency_score(entries[key].last_stated_at, now, config.recency_decay_rate)
            combined = compute_combined_score(share, recency, config.relevance_weight, config.recency_weight)
            places.append((combined, share, recency, entries[key]))
    places.sort(key=lambda place: (-place[0], -place[3].last_stated_at.timestamp(), place[3].id))
    ranked = [(entry, relevance[entry.id]) for *_, entry in places]
    standing_of, best_of_owner, older_of = _standings(question, ranked, rankings, least=config.min_evidence)
    return tuple(
        ScoredMemory(
            entry=entry.model_copy(update={"standing": standing_of[entry.id]}),
            relevance_score=absolute(share, best_of_owner[entry.agent_id]),
            recency_score=recency,
            combined_score=combined,
            is_shared=is_shared,
            summary_id=summary_of.get(entry.id),
            older_id=older_of.get(entry.id),
            scoring_strategy=FusionStrategy.WEIGHTED,
        )
        for combined, share, recency, entry in places
        if config.standing.has(standing_of[entry.id])
        and (
            standing_of[entry.id] is Standing.WEAK
            or entry.id in older_of
            or absolute(combined, best_of_owner[entry.agent_id]) >= config.min_relevance
        )
    )


def judged(
    question: str, ranked: Sequence[ScoredMemory], rankings: RankedLists, *, config: MemoryRetrievalConfig
) -> tuple[ScoredMemory, ...]:
    """Return the memories of a ranking with their standing, without those that ``config.standing`` does not show.

    Of a fusion by ranks the places count: its scores are spread between the worst and the best.
    """
    by_rank = config.fusion_strategy is FusionStrategy.RRF
    scores = [1.0 / (config.rrf_k + place) if by_rank else each.combined_score for place, each in enumerate(ranked)]
    places = [(each.entry, score) for each, score in zip(ranked, scores, strict=True)]
    standing_of, _, older_of = _standings(question, places, rankings, least=config.min_evidence)
    return tuple(
        each.model_copy(
            update={
                "entry": each.entry.model_copy(update={"standing": standing_of[each.entry.id]}),
                "older_id": older_of.get(each.entry.id),
            }
        )
        for each in ranked
        if config.standing.has(standing_of[each.entry.id])
    )


def earned(memories: Sequence[ScoredMemory], *, shown: Shown) -> tuple[ScoredMemory, ...]:
    """Return the memories without weak ones where any is strong, or else with few of them.

    The agent's own and shared ones were judged apart. What has no standing was judged by nobody, and stays.
    """
    if shown is Shown.ANY:
        return tuple(memories)
    shown = showing((each.entry.standing for each in memories), shown)
    weak = [each for each in memories if each.entry.standing is Standing.WEAK]
    left_out = weak[MOST_WEAK if shown.has(Standing.WEAK) else 0 :]
    return tuple(each for each in memories if each not in left_out)


def _standings(
    question: str, ranked: Sequence[tuple[MemoryEntry, float]], rankings: RankedLists, *, least: float
) -> tuple[dict[str, Standing], dict[str, float], dict[str, str]]:
    """Return how each memory stands, the best evidence of each agent's, and beside which older one a newer is shown.

    Each is judged beside what the same agent wrote: whatever another one publishes, it hides nothing.
    """
    near = _cosines(rankings)
    by_owner: dict[str, list[tuple[MemoryEntry, float]]] = {}
    for entry, score in ranked:
        by_owner.setdefault(entry.agent_id, []).append((entry, score))
    standing_of, best_of_owner, older_of = dict[str, Standing](), dict[str, float](), dict[str, str]()
    for owner, places in by_owner.items():
        first = [entry for entry, _ in places[:MOST_JUDGED]]
        candidates = [Candidate.of(each, near.get(each.id), rankings.asked) for each in first]
        found = evidence_of(question, candidates, noise=rankings.noise, asked=rankings.asked)
        best_of_owner[owner] = best_of(found)
        evidence = {each.id: evidence for each, evidence in zip(first, found, strict=True)}
        standing_of |= standings(
            {entry.id: score for entry, score in places}, evidence, least=least, slack=PROMPT_SLACK
        )
        older_of |= _newer_beside(first, evidence, standing_of)
    standing_of |= dict.fromkeys(older_of, Standing.STRONG)
    return standing_of, best_of_owner, older_of


def _newer_beside(
    first: Sequence[MemoryEntry], evidence: Mapping[str, Evidence], standing_of: Mapping[str, Standing]
) -> dict[str, str]:
    """Return which of the first are shown because they are newer than the best and may say what became of it.

    A change is often told in other words than what it ends, and the older one alone would be shown as what holds.
    """
    if not first or standing_of[first[0].id] is not Standing.STRONG:
        return {}
    best, *others = first[:_FIRST]
    return {
        each.id: best.id
        for each in others
        if standing_of[each.id] is not Standing.STRONG
        and evidence[each.id].is_near
        and each.last_stated_at > best.last_stated_at
    }


def _cosines(rankings: RankedLists) -> dict[str, float]:
    worded = (*rankings.sparse, *rankings.shared_sparse, *rankings.archived_sparse)
    near = (*rankings.dense, *rankings.shared_dense, *rankings.archived_dense)
    known = {hit.entry.id: hit.cosine for hit in worded if hit.cosine is not None}
    return known | {hit.entry.id: hit.score if hit.cosine is None else hit.cosine for hit in near}


def with_archived(rankings: RankedLists) -> RankedLists:
    """Return the agent's own lists with its archived memories among them; one that is in the store counts once."""
    own = {hit.entry.id for hit in (*rankings.dense, *rankings.sparse)}
    return RankedLists(
        dense=(*rankings.dense, *(hit for hit in rankings.archived_dense if hit.entry.id not in own)),
        sparse=(*rankings.sparse, *(hit for hit in rankings.archived_sparse if hit.entry.id not in own)),
        dense_weight=rankings.dense_weight,
        noise=rankings.noise,
        asked=rankings.asked,
        question=rankings.question,
    )


def beside_summary(relevance: Mapping[str, float], summary_of: Mapping[str, str]) -> dict[str, float]:
    """Return the relevance of archived memories with that of their summaries; of all others as it is.

    ``summary_of`` names the summary of each archived memory. Its relevance becomes the mean of its own and its
    summary's where that is more: what stood beside it says what it was about. It never becomes less, or what a run has
    archived would stand behind all that it left.
    """
    return {
        key: max(own, (own + relevance.get(summary_of[key], 0.0)) / 2.0) if key in summary_of else own
        for key, own in relevance.items()
    }


def covered(memories: Iterable[ScoredMemory]) -> frozenset[str]:
    """Return the ids of the summaries that archived originals among the memories replace in a prompt."""
    return frozenset(each.summary_id for each in memories if each.summary_id is not None)


# Carbonell and Goldstein: The use of MMR, diversity-based reranking for reordering documents, 1998.

#: The reference's trade-off: mostly relevance.
DEFAULT_DIVERSITY_LAMBDA = 0.7

#: How alike two texts are, 0.0 to 1.0.
Similarity = Callable[[str, str], float]

_Bigrams = frozenset[tuple[str, str]]


def bigram_jaccard(text_a: str, text_b: str) -> float:
    """Return the share of word pairs that two texts have in common, 0.0 to 1.0, whatever the case of their letters.

    A text of fewer than two words has no pairs and is like nothing.
    """
    return _jaccard(_bigrams(text_a), _bigrams(text_b))


def apply_diversity_penalty(
    scored: Sequence[ScoredMemory],
    *,
    diversity_lambda: float = DEFAULT_DIVERSITY_LAMBDA,
    similarity_fn: Similarity | None = None,
    limit: int | None = None,
    beside: Sequence[ScoredMemory] = (),
) -> tuple[ScoredMemory, ...]:
    """Return the same memories in another order: each next one is relevant and unlike those before it.

    Picks the highest of ``lambda * combined_score - (1 - lambda) * greatest similarity to one picked before``, those of
    ``beside`` among these; of equals the one that stood first. Contents are compared by the word pairs that they have
    in common, unless another function is given.
    """
    # Written so that NaN fails too.
    if not 0.0 <= diversity_lambda <= 1.0:
        raise ValueError(f"diversity_lambda must be 0.0 to 1.0, not {diversity_lambda}")
    every = [*scored, *beside]
    texts = [each.entry.content for each in every]
    # Once for each text and not for each comparison.
    pairs = [] if similarity_fn else [_bigrams(text) for text in texts]

    def alike(i: int, j: int) -> float:
        return similarity_fn(texts[i], texts[j]) if similarity_fn else _jaccard(pairs[i], pairs[j])

    left = list(range(len(scored)))
    nearest = [max((alike(i, j) for j in range(len(scored), len(every))), default=0.0) for i in left]
    picked: list[int] = []
    while left and (limit is None or len(picked) < limit):
        best = max(
            left,
            key=lambda i: diversity_lambda * scored[i].combined_score - (1.0 - diversity_lambda) * nearest[i],
        )
        left.remove(best)
        picked.append(best)
        for i in left:
            nearest[i] = max(nearest[i], alike(i, best))
    return tuple(scored[i] for i in picked)


def _bigrams(text: str) -> _Bigrams:
    return frozenset(pairwise(text.lower().split()))


def _jaccard(a: _Bigrams, b: _Bigrams) -> float:
    common = len(a & b)
    return common / (len(a) + len(b) - common) if common else 0.0


def surer_first(memories: Sequence[ScoredMemory]) -> tuple[ScoredMemory, ...]:
    """Return the memories with the combined score of each lesson times its confidence, in that order."""
    if not any(_is_lesson(each) for each in memories):
        return tuple(memories)
    weighed = [
        each.model_copy(update={"combined_score": each.combined_score * each.entry.metadata.confidence})
        if _is_lesson(each)
        else each
        for each in memories
    ]
    return tuple(sorted(weighed, key=best_first))


def _is_lesson(memory: ScoredMemory) -> bool:
    entry = memory.entry
    return entry.category is MemoryCategory.PROCEDURAL and NON_INFERABLE_TAG in entry.metadata.tags
