"""Two ranked lists of one question become one: the weighted sum of scores brought to one scale."""

from collections.abc import Mapping


def weighted(dense: Mapping[str, float], sparse: Mapping[str, float], *, dense_weight: float) -> dict[str, float]:
    """Return a relevance of 0 to 1 for every id in either list; an id absent from a list gets nothing from it.

    Cosine similarities are spread over 0 to 1 between the list's worst and best. BM25 scores are divided by the best:
    what a keyword search does not list has the score 0, so 0 is that list's worst. Measured best with a dense weight of
    0.4 (STACK, Retrieval quality).
    """
    near, worded = _spread(dense), _scaled(sparse)
    # Without a sparse list, or without a dense one, the other speaks alone.
    share = 1.0 if not worded else 0.0 if not near else dense_weight
    fused = {key: share * near.get(key, 0.0) + (1.0 - share) * worded.get(key, 0.0) for key in {**near, **worded}}
    # 0.4 + 0.6 may come out a hair above 1.
    return {key: min(1.0, score) for key, score in fused.items()}


def _spread(scores: Mapping[str, float]) -> dict[str, float]:
    if not scores:
        return {}
    low, high = min(scores.values()), max(scores.values())
    if high == low:
        # One hit, or all alike: there is nothing to spread between, so the similarity itself speaks.
        return {key: min(1.0, max(0.0, score)) for key, score in scores.items()}
    return {key: (score - low) / (high - low) for key, score in scores.items()}


def _scaled(scores: Mapping[str, float]) -> dict[str, float]:
    best = max(scores.values(), default=0.0)
    return {key: max(0.0, score) / best for key, score in scores.items()} if best > 0.0 else {}
