"""Bounds on shares that were counted: what a share may really be, at the least and at the most.

A share that was counted is no fact about the next time. The bounds are of E. B. Wilson, "Probable inference, the law of
succession, and statistical inference", Journal of the American Statistical Association 22 (1927).
"""

import math

#: Normal quantile of a bound that holds 95 times in 100.
_QUANTILE = 1.645


def lower_bound(hits: float, of: float) -> float:
    """Return the least that a share may really be, 0 to 1: 0.0 without a case."""
    return _wilson(hits, of, -1.0)


def upper_bound(hits: float, of: float) -> float:
    """Return the most that a share may really be, 0 to 1: 1.0 without a case."""
    return _wilson(hits, of, 1.0)


def _wilson(hits: float, of: float, side: float) -> float:
    if of <= 0.0:
        return max(0.0, side)
    share, square = min(1.0, hits / of), _QUANTILE**2
    centre = share + square / (2 * of)
    width = _QUANTILE * math.sqrt(share * (1 - share) / of + square / (4 * of * of))
    return min(1.0, max(0.0, (centre + side * width) / (1 + square / of)))
