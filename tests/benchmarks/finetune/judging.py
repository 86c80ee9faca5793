"""NDCG@10 of a model on LoCoMo's questions: by vectors alone, and fused with keywords."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from benchmarks.retrieval.conversations import Conversation

from memcore.finetune.encoder import Encoder
from memcore.finetune.evaluate import WordScores

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Ranks that count.
_DEPTH = 10

#: Weights of meaning that are tried.
WEIGHTS = tuple(round(0.05 * step, 2) for step in range(2, 19))


@dataclass(frozen=True, slots=True)
class _Scored:
    """A conversation's questions against its turns: by meaning, by words, and which turns are right."""

    near: "NDArray[np.float32]"
    said: "NDArray[np.float32]"
    gold: list[list[int]]


class Judged:
    """A model on some conversations, each question within its own.

    Args:
        encoder: the model.
        corpus: the conversations.
    """

    def __init__(self, encoder: Encoder, corpus: Sequence[Conversation]) -> None:
        self._scored = [_scored(encoder, each) for each in corpus]

    def dense(self) -> "NDArray[np.float64]":
        """Return the NDCG@10 of each question by meaning alone."""
        return np.concatenate([_ndcg(each.near, each.gold) for each in self._scored])

    def fused(self, weight: float) -> "NDArray[np.float64]":
        """Return the NDCG@10 of each question, meaning counting so much and words the rest, as the product fuses."""
        parts = [(_to_best(each.near), _to_best(each.said), each.gold) for each in self._scored]
        return np.concatenate([_ndcg(weight * near + (1.0 - weight) * said, gold) for near, said, gold in parts])

    def best_weight(self) -> float:
        """Return the weight with the best mean; of equals the least."""
        return max(WEIGHTS, key=lambda weight: (float(self.fused(weight).mean()), -weight))


def _scored(encoder: Encoder, conversation: Conversation) -> _Scored:
    texts = [turn.stored_text for turn in conversation.turns]
    place = {turn.name: number for number, turn in enumerate(conversation.turns)}
    asked = [question.text for question in conversation.questions]
    return _Scored(
        near=encoder.queries(asked) @ encoder.passages(texts).T,
        said=WordScores(texts).scores(asked),
        gold=[sorted(place[name] for name in question.evidence) for question in conversation.questions],
    )


def _to_best(scores: "NDArray[np.float32]") -> "NDArray[np.float32]":
    best = scores.max(axis=1, keepdims=True)
    return np.asarray(scores / np.where(best > 0.0, best, 1.0), dtype=np.float32)


def _ndcg(scores: "NDArray[np.floating]", gold: Sequence[Sequence[int]]) -> "NDArray[np.float64]":
    discounts = 1.0 / np.log2(np.arange(2, _DEPTH + 2))
    found = np.zeros(len(gold))
    for row, right in enumerate(gold):
        first = np.argsort(-scores[row], kind="stable")[:_DEPTH]
        found[row] = discounts[: len(first)][np.isin(first, right)].sum() / discounts[: len(right)].sum()
    return found
