"""Less of the same: re-ranking by maximal marginal relevance.

Carbonell and Goldstein: The use of MMR, diversity-based reranking for reordering documents, 1998.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

from memcore.retrieval.scored_memory import ScoredMemory

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

    Picks the highest of ``lambda * combined_score - (1 - lambda) * greatest similarity to one picked before``; of
    equals the one that stood first.

    Args:
        scored: best first.
        diversity_lambda: 1.0 is relevance alone, 0.0 difference alone.
        similarity_fn: compares two contents; word pairs in common when left out.
        limit: stop after this many; all when left out.
        beside: picked before, and not returned.

    Raises:
        ValueError: diversity_lambda is not a number from 0.0 to 1.0.
    """
    # Written so that NaN fails too.
    if not 0.0 <= diversity_lambda <= 1.0:
        raise ValueError(f"diversity_lambda must be 0.0 to 1.0, not {diversity_lambda}")
    every = [*scored, *beside]
    alike = _by_content(every, similarity_fn)
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


def _by_content(scored: Sequence[ScoredMemory], similarity_fn: Similarity | None) -> Callable[[int, int], float]:
    texts = [each.entry.content for each in scored]
    if similarity_fn is not None:
        return lambda i, j: similarity_fn(texts[i], texts[j])
    # Once for each text and not for each comparison.
    pairs = [_bigrams(text) for text in texts]
    return lambda i, j: _jaccard(pairs[i], pairs[j])


def _bigrams(text: str) -> _Bigrams:
    words = text.lower().split()
    return frozenset(pairwise(words))


def _jaccard(a: _Bigrams, b: _Bigrams) -> float:
    common = len(a & b)
    return common / (len(a) + len(b) - common) if common else 0.0
