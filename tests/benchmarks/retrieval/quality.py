"""NDCG@10 and recall of a ranking, and a paired bootstrap of the difference of two."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

#: Results that are judged.
DEPTH = 10

#: Resamples of the bootstrap, and the seed that makes them the same every time.
_RESAMPLES, _SEED = 10_000, 4

#: Resamples drawn at once, a few megabytes of places.
_AT_ONCE = 500


def ndcg(ranked: Sequence[str], evidence: Collection[str]) -> float:
    """Return NDCG@10 with binary judgments."""
    gain = sum(1.0 / math.log2(place + 2) for place, name in enumerate(ranked[:DEPTH]) if name in evidence)
    return gain / sum(1.0 / math.log2(place + 2) for place in range(min(DEPTH, len(evidence))))


def recall(ranked: Sequence[str], evidence: Collection[str]) -> float:
    """Return the share of the evidence among the first ten."""
    return len(set(ranked[:DEPTH]) & set(evidence)) / len(evidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Improvement:
    """The difference of two rankings over the questions.

    Attributes:
        mean: of the differences.
        low: the 2.5 % quantile of the resampled means; above 0 the difference is significant.
        high: the 97.5 % quantile.
    """

    mean: float
    low: float
    high: float


def compare(scores: Sequence[float], others: Sequence[float]) -> Improvement:
    """Return the paired bootstrap of the difference: the same questions are drawn for both."""
    differences = np.asarray(scores) - np.asarray(others)
    dice = np.random.default_rng(_SEED)
    means = np.concatenate(
        [
            differences[dice.integers(len(differences), size=(_AT_ONCE, len(differences)))].mean(axis=1)
            for _ in range(_RESAMPLES // _AT_ONCE)
        ]
    )
    low, high = np.quantile(means, (0.025, 0.975))
    return Improvement(mean=float(differences.mean()), low=float(low), high=float(high))
