"""Raw BM25 scores on the scale of relevance, and back (SPEC M5)."""

from memcore.errors import MemoryInputError


def relevance_of(score: float) -> float:
    """Map a raw BM25 score, 0 or higher, to score / (1 + score): the order stays, where a clamp levels strong hits.

    Raises MemoryInputError for a negative score or one that is no number.
    """
    if not score >= 0.0:
        raise MemoryInputError("score", f"must be 0 or higher, not {score}")
    # The same fraction as score / (1 + score), in the form that stays 1.0 and not NaN when the score is infinite.
    return 1.0 - 1.0 / (1.0 + score) if score > 1.0 else score / (1.0 + score)


def score_of(relevance: float) -> float:
    """Map a relevance, 0 up to but not including 1, back to the raw score: a minimum relevance as a score threshold.

    Raises MemoryInputError outside that range: no finite score has relevance 1.
    """
    if not 0.0 <= relevance < 1.0:
        raise MemoryInputError("relevance", f"must be 0 or higher and below 1, not {relevance}")
    return relevance / (1.0 - relevance)
