"""How several ranked lists become one, and how a term counts in the sparse one."""

from enum import StrEnum


class FusionStrategy(StrEnum):
    """How relevance from several sources is joined.

    ``linear`` ranks one dense list; ``rrf`` sums reciprocal ranks; ``weighted`` sums the scores of the dense and the
    sparse list, each as a share of its best, the measured best (docs/benchmarks/2026-11.md).
    """

    LINEAR = "linear"
    RRF = "rrf"
    WEIGHTED = "weighted"


class SparseTermWeight(StrEnum):
    """How often-repeated terms count: ``saturated`` as in BM25, or ``raw`` frequency as in the reference."""

    SATURATED = "saturated"
    RAW = "raw"
