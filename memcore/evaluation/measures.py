"""Measures of what is shown to a question."""

import math
from collections.abc import Collection, Sequence

import numpy as np

from memcore.finetune.evaluate import DEPTH, Improvement
from memcore.finetune.evaluate import compare as bootstrap

#: Makes the resamples the same every time.
_SEED = 4


def ndcg(ranked: Sequence[str], wanted: Collection[str]) -> float:
    """Return NDCG@10 with binary judgments."""
    gain = sum(1.0 / math.log2(place + 2) for place, name in enumerate(ranked[:DEPTH]) if name in wanted)
    return gain / sum(1.0 / math.log2(place + 2) for place in range(min(DEPTH, len(wanted))))


def recall(ranked: Sequence[str], wanted: Collection[str]) -> float:
    """Return the share of what is wanted among the first ten."""
    return len(set(ranked[:DEPTH]) & set(wanted)) / len(wanted)


def interval(scores: Sequence[float]) -> Improvement:
    """Return the mean over questions and its 95 % interval."""
    return compare(scores, [0.0] * len(scores))


def compare(scores: Sequence[float], others: Sequence[float]) -> Improvement:
    """Return the mean difference and its 95 % interval, paired: the same questions are drawn for both."""
    return bootstrap(np.asarray(scores, dtype=float), np.asarray(others, dtype=float), seed=_SEED)
