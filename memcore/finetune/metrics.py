"""How well a ranking finds the one passage that answers: NDCG@10 and Recall@10, question by question."""

from typing import TYPE_CHECKING

import numpy as np
from pydantic import ConfigDict, Field, computed_field

from memcore.frozen import Frozen

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: How many of a ranking are looked at.
DEPTH = 10


class EvalMetrics(Frozen):
    """A checkpoint beside its base, on questions whose passages it was not trained on; 0 to 1 each.

    Attributes:
        improvement_ndcg: relative change of NDCG; 0.0 when the base has none.
        improvement_recall: the same of recall.
    """

    # What is derived is written too, and a file with it is read again.
    model_config = ConfigDict(extra="ignore")

    ndcg_at_10: float = Field(ge=0.0, le=1.0)
    recall_at_10: float = Field(ge=0.0, le=1.0)
    base_ndcg_at_10: float = Field(ge=0.0, le=1.0)
    base_recall_at_10: float = Field(ge=0.0, le=1.0)

    @computed_field  # type: ignore[prop-decorator]  # pydantic's own way
    @property
    def improvement_ndcg(self) -> float:
        """Relative change of NDCG."""
        return _relative(self.ndcg_at_10, self.base_ndcg_at_10)

    @computed_field  # type: ignore[prop-decorator]  # pydantic's own way
    @property
    def improvement_recall(self) -> float:
        """Relative change of recall."""
        return _relative(self.recall_at_10, self.base_recall_at_10)


def ndcg_of(ranks: "NDArray[np.int64]") -> "NDArray[np.float64]":
    """Return each question's NDCG@10, given the rank of its one passage (0 is first)."""
    return np.where(ranks < DEPTH, 1.0 / np.log2(ranks + 2.0), 0.0)


def recall_of(ranks: "NDArray[np.int64]") -> "NDArray[np.float64]":
    """Return 1.0 for each question whose passage stands among the first ten, else 0.0."""
    return np.asarray(ranks < DEPTH, dtype=np.float64)


def ranks_of(scores: "NDArray[np.float32]", gold: "NDArray[np.int64]") -> "NDArray[np.int64]":
    """Return the rank of each row's gold column; those of equal score stand before it."""
    own = np.take_along_axis(scores, gold[:, None], axis=1)
    return np.asarray((scores >= own).sum(axis=1) - 1, dtype=np.int64)


def _relative(value: float, base: float) -> float:
    return (value - base) / base if base else 0.0
