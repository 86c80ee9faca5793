"""Stage 4, evaluating: compares the checkpoint with its base on questions whose passages neither was trained on.

Both are scored twice: by meaning alone, and fused with the words (BM25), as the product searches. Each lead has an
interval by paired bootstrap over the passages that are asked for. Questions that somebody asked are counted apart from
those that templates made, which promise more than people's questions keep.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, computed_field

from memcore.embedding.bm25 import Tokenizer
from memcore.errors import FineTuneTrainingDataError
from memcore.finetune.documents import Pair, read_lines
from memcore.finetune.markers import StageProgress
from memcore.finetune.sizing import Sizes
from memcore.models.base import Frozen

#: Places of a ranking that count.
DEPTH = 10


class EvalMetrics(Frozen):
    """A checkpoint beside its base, on questions whose passages it was not trained on; 0 to 1 each."""

    # Computed fields are written too, and a file with them is read again.
    model_config = ConfigDict(extra="ignore")

    ndcg_at_10: float = Field(ge=0.0, le=1.0)
    recall_at_10: float = Field(ge=0.0, le=1.0)
    base_ndcg_at_10: float = Field(ge=0.0, le=1.0)
    base_recall_at_10: float = Field(ge=0.0, le=1.0)

    @computed_field  # type: ignore[prop-decorator]  # pydantic's own way
    @property
    def improvement_ndcg(self) -> float:
        """Relative change of NDCG; 0.0 when the base has none."""
        base = self.base_ndcg_at_10
        return (self.ndcg_at_10 - base) / base if base else 0.0

    @computed_field  # type: ignore[prop-decorator]  # pydantic's own way
    @property
    def improvement_recall(self) -> float:
        """Relative change of recall; 0.0 when the base has none."""
        base = self.base_recall_at_10
        return (self.recall_at_10 - base) / base if base else 0.0


class TextEncoder(Protocol):
    """Turns texts into rows of unit length."""

    def passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a row for each passage."""
        ...

    def queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a row for each question."""
        ...


def ndcg_of(ranks: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return each question's NDCG@10, given the rank of its one passage (0 is first)."""
    return np.where(ranks < DEPTH, 1.0 / np.log2(ranks + 2.0), 0.0)


def recall_of(ranks: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return 1.0 for each question whose passage stands among the first ten, else 0.0."""
    return np.asarray(ranks < DEPTH, dtype=np.float64)


def ranks_of(scores: NDArray[np.float32], gold: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rank of each row's gold column; those of equal score stand before it."""
    own = np.take_along_axis(scores, gold[:, None], axis=1)
    return np.asarray((scores >= own).sum(axis=1) - 1, dtype=np.int64)


#: The usual values (Robertson and Zaragoza 2009).
_K1 = 1.2
_B = 0.75


class WordScores:
    """Scores passages by the words, as the product takes them apart, that they share with a question."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._tokenizer = Tokenizer()
        self._texts = len(texts)
        counts = [Counter(self._tokenizer.terms(text)) for text in texts]
        lengths = np.array([sum(count.values()) for count in counts], dtype=np.float32)
        mean = float(lengths.mean()) or 1.0
        rows: dict[str, list[int]] = defaultdict(list)
        values: dict[str, list[float]] = defaultdict(list)
        for row, count in enumerate(counts):
            norm = _K1 * (1.0 - _B + _B * float(lengths[row]) / mean)
            for term, times in count.items():
                rows[term].append(row)
                values[term].append(times * (_K1 + 1.0) / (times + norm))
        self._weights = {
            term: (np.array(where, dtype=np.int64), np.array(values[term], dtype=np.float32) * self._rarity(len(where)))
            for term, where in rows.items()
        }

    def scores(self, queries: Sequence[str]) -> NDArray[np.float32]:
        """Return a row for each question and a column for each passage."""
        found = np.zeros((len(queries), self._texts), dtype=np.float32)
        for row, query in enumerate(queries):
            for term in set(self._tokenizer.terms(query)):
                if term in self._weights:
                    where, weights = self._weights[term]
                    found[row, where] += weights
        return found

    def _rarity(self, texts_with: int) -> np.float32:
        return np.float32(math.log(1.0 + (self._texts - texts_with + 0.5) / (texts_with + 0.5)))


#: The file that the stage leaves.
REPORT_FILE = "eval_metrics.json"

#: Fewest questions that were asked that decide anything.
ENOUGH_ASKED = 50

#: Weights of meaning that are tried in the fused search.
WEIGHTS = tuple(round(0.05 * step, 2) for step in range(1, 20))

#: Resamples of the bootstrap, the percentiles that bound the interval, and questions scored at a time.
_RESAMPLES = 2_000
_INTERVAL = (2.5, 97.5)
_BLOCK = 256

#: Resamples drawn at once, a few megabytes of places.
_AT_ONCE = 500


class Improvement(Frozen):
    """One ranking's lead in NDCG@10 over another on the same questions, and its 95 % interval."""

    mean: float
    low: float
    high: float


class Part(Frozen):
    """The leads on the questions of one origin, and the checkpoint's own NDCG@10 on them, fused."""

    questions: int
    dense_lead: Improvement
    fused_lead: Improvement
    fused_ndcg_at_10: float


class EvalReport(Frozen):
    """The evaluation's report: by meaning alone, and fused, where each model has its own best weight of meaning.

    The leads are the checkpoint's over its base; those of the training are among the passages that were searched.

    Attributes:
        asked: on questions that somebody asked, or a model wrote; None without one, and in older reports.
        templates: on questions that templates made, in other forms than those of the training.
        sizes: what the training took; None in older reports.
    """

    metrics: EvalMetrics
    fused_ndcg_at_10: float
    base_fused_ndcg_at_10: float
    fusion_weight: float = Field(ge=0.0, le=1.0)
    dense_lead: Improvement
    fused_lead: Improvement
    questions: int
    passages: int
    asked: Part | None = None
    templates: Part | None = None
    sizes: Sizes | None = None


def evaluate(
    validation: Path,
    training: Path | None,
    checkpoint: TextEncoder,
    base: TextEncoder,
    *,
    seed: int,
    watch: StageProgress,
) -> EvalReport:
    """Compare the checkpoint with its base on the validation's questions; the training's passages are searched too.

    Raises FineTuneTrainingDataError when there is no question, MemoryInputError, FineTuneCancelledError.
    """
    pairs = list(read_lines(validation, Pair))
    others = [] if training is None else [pair.positive_passage for pair in read_lines(training, Pair)]
    return judge(pairs, others, checkpoint, base, seed=seed, watch=watch)


def judge(
    pairs: Sequence[Pair],
    others: Sequence[str],
    checkpoint: TextEncoder,
    base: TextEncoder,
    *,
    seed: int,
    watch: StageProgress,
) -> EvalReport:
    """Compare two encoders on questions; the passages and these other texts are searched. Raises as ``evaluate``."""
    if not pairs:
        raise FineTuneTrainingDataError("there are no questions to measure by")
    texts = list(dict.fromkeys([*(pair.positive_passage for pair in pairs), *others]))
    place = {text: number for number, text in enumerate(texts)}
    gold = np.array([place[pair.positive_passage] for pair in pairs], dtype=np.int64)
    queries = [pair.query for pair in pairs]
    asked = np.array([pair.is_asked for pair in pairs], dtype=np.bool_)
    # Templates repeat more of a passage's words than people do, and answers of a talk repeat fewer of its questions':
    # each counts half for the weight of meaning, where enough was asked.
    halves = [asked, ~asked] if ENOUGH_ASKED <= asked.sum() < len(asked) else [np.ones_like(asked)]
    watch.done(0.05)
    words = WordScores(texts)
    watch.done(0.1)
    new = _Judged(checkpoint, queries, texts, words, gold, halves, watch, 0.1)
    old = _Judged(base, queries, texts, words, gold, halves, watch, 0.55)

    def part(its: NDArray[np.bool_]) -> Part | None:
        if not its.any():
            return None
        return Part(
            questions=int(its.sum()),
            dense_lead=compare(ndcg_of(new.dense)[its], ndcg_of(old.dense)[its], seed=seed, groups=gold[its]),
            fused_lead=compare(new.fused[its], old.fused[its], seed=seed, groups=gold[its]),
            fused_ndcg_at_10=float(new.fused[its].mean()),
        )

    report = EvalReport(
        metrics=EvalMetrics(
            ndcg_at_10=float(ndcg_of(new.dense).mean()),
            recall_at_10=float(recall_of(new.dense).mean()),
            base_ndcg_at_10=float(ndcg_of(old.dense).mean()),
            base_recall_at_10=float(recall_of(old.dense).mean()),
        ),
        fused_ndcg_at_10=float(new.fused.mean()),
        base_fused_ndcg_at_10=float(old.fused.mean()),
        fusion_weight=new.weight,
        dense_lead=compare(ndcg_of(new.dense), ndcg_of(old.dense), seed=seed, groups=gold),
        fused_lead=compare(new.fused, old.fused, seed=seed, groups=gold),
        questions=len(pairs),
        passages=len(texts),
        asked=part(asked),
        templates=part(~asked),
    )
    watch.done(1.0)
    return report


class _Judged:
    """One model's rankings: by meaning, and fused at its best weight."""

    def __init__(
        self,
        encoder: TextEncoder,
        queries: Sequence[str],
        texts: Sequence[str],
        words: WordScores,
        gold: NDArray[np.int64],
        halves: Sequence[NDArray[np.bool_]],
        watch: StageProgress,
        begun: float,
    ) -> None:
        rows = encoder.passages(texts)
        watch.done(begun + 0.25)
        asked = encoder.queries(queries)
        dense: list[NDArray[np.int64]] = []
        fused: dict[float, list[NDArray[np.int64]]] = {weight: [] for weight in WEIGHTS}
        for start in range(0, len(queries), _BLOCK):
            own = gold[start : start + _BLOCK]
            near = asked[start : start + _BLOCK] @ rows.T
            dense.append(ranks_of(near, own))
            said = words.scores(queries[start : start + _BLOCK])
            near, said = scaled(near), scaled(said)
            for weight in WEIGHTS:
                both = np.asarray(weight * near + (1.0 - weight) * said, dtype=np.float32)
                fused[weight].append(ranks_of(both, own))
            watch.done(begun + 0.25 + 0.2 * (start + len(own)) / len(queries))
        self.dense = np.concatenate(dense)
        by_weight = {weight: ndcg_of(np.concatenate(parts)) for weight, parts in fused.items()}
        self.weight = max(
            WEIGHTS, key=lambda weight: (sum(float(by_weight[weight][half].mean()) for half in halves), -weight)
        )
        self.fused = by_weight[self.weight]


def scaled(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """Divide each row by its best, as the product's weighted fusion does."""
    best = scores.max(axis=1, keepdims=True)
    return np.asarray(scores / np.where(best > 0.0, best, 1.0), dtype=np.float32)


def compare(
    new: NDArray[np.float64], old: NDArray[np.float64], *, seed: int, groups: NDArray[np.int64] | None = None
) -> Improvement:
    """Return the mean difference and its 95 % interval by paired bootstrap (Efron 1979).

    With groups, whole groups are drawn: questions for one passage are found, or missed, together.
    """
    chance = np.random.default_rng(seed)
    difference = new - old
    places = np.arange(len(difference)) if groups is None else np.unique(groups, return_inverse=True)[1]
    sums, counts = np.bincount(places, weights=difference), np.bincount(places)
    means = list[NDArray[np.float64]]()
    for _ in range(_RESAMPLES // _AT_ONCE):
        picks = chance.integers(0, len(sums), size=(_AT_ONCE, len(sums)))
        means.append(sums[picks].sum(axis=1) / counts[picks].sum(axis=1))
    low, high = np.percentile(np.concatenate(means), _INTERVAL)
    return Improvement(mean=float(difference.mean()), low=float(low), high=float(high))
