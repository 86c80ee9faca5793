"""Two ranked lists of one question become one: the weighted sum of their scores, each a share of its list's best.

The mem0 backend and the retrieval room fuse with this function and no other.
"""

from collections.abc import Mapping

from memcore.backends.legs import Legs
from memcore.embedding.protocol import EmbedderKind

#: Share of the vectors where the policy names none. Token vectors added up (static) rank worse than BM25, a
#: transformer's rank about as well; both measured on the development split (docs/benchmarks/2026-11.md).
_STATIC_WEIGHT, _TRANSFORMER_WEIGHT = 0.4, 0.5


def default_dense_weight(kind: EmbedderKind) -> float:
    """Return the share of the vectors that measured best for a kind of embedder."""
    return _STATIC_WEIGHT if kind is EmbedderKind.STATIC else _TRANSFORMER_WEIGHT


def weighted_legs(legs: Legs, *, dense_weight: float) -> dict[str, float]:
    """Return the relevance of every memory in any of the lists, personal and shared on one scale; see ``weighted``."""
    dense = {hit.entry.id: hit.score for hit in (*legs.dense, *legs.shared_dense)}
    sparse = {hit.entry.id: hit.score for hit in (*legs.sparse, *legs.shared_sparse)}
    for hit in (*legs.dense, *legs.shared_dense, *legs.sparse, *legs.shared_sparse):
        if hit.cosine is not None:
            dense.setdefault(hit.entry.id, hit.cosine)
        if hit.bm25 is not None:
            sparse.setdefault(hit.entry.id, hit.bm25)
    return weighted(dense, sparse, dense_weight=dense_weight)


def weighted(dense: Mapping[str, float], sparse: Mapping[str, float], *, dense_weight: float) -> dict[str, float]:
    """Return a relevance of 0 to 1 for every id in either list; an id absent from a list gets nothing from it.

    The sum is ``w * cosine / best cosine + (1 - w) * BM25 / best BM25``; what is below 0 counts as 0. Spreading the
    cosines between the list's worst and best instead loses 0.02 NDCG@10: the worst of a list says how long the list is,
    not how near the memory. Give the true cosine of what only keywords found, where it is known
    (docs/benchmarks/2026-11.md).

    Args:
        dense: cosine similarities by id.
        sparse: raw BM25 scores by id.
        dense_weight: the share w of the first list, 0 to 1; a list that is empty, or holds nothing above 0, leaves
            its share to the other, which then speaks alone.
    """
    near, worded = _scaled(dense), _scaled(sparse)
    share = 0.0 if not near else 1.0 if not worded else dense_weight
    fused = {
        key: share * near.get(key, 0.0) + (1.0 - share) * worded.get(key, 0.0)
        for key in (*dense, *(key for key in sparse if key not in dense))
    }
    # 0.4 + 0.6 may come out a hair above 1.
    return {key: min(1.0, score) for key, score in fused.items()}


def _scaled(scores: Mapping[str, float]) -> dict[str, float]:
    best = max(scores.values(), default=0.0)
    return {key: max(0.0, score) / best for key, score in scores.items()} if best > 0.0 else {}
