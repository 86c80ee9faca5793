"""A trial: an embedder beside the one that serves, on what the agents remember and ask, before anything is switched."""

from collections.abc import Sequence
from statistics import median
from time import perf_counter

import numpy as np
from numpy.typing import NDArray
from pydantic import computed_field

from memcore.backends.fusion import default_dense_weight
from memcore.embedding.batching import questions
from memcore.embedding.calibration import noise_of
from memcore.embedding.protocol import Embedder
from memcore.finetune.dataset import Recorded, chosen
from memcore.finetune.documents import Owned, Pair
from memcore.finetune.evaluate import DEPTH, ENOUGH_ASKED, Part, WordScores, judge, scaled
from memcore.finetune.generate import MEASURING, KeywordExtractor, questions_for
from memcore.finetune.markers import StageProgress
from memcore.finetune.promotion import promotion_verdict
from memcore.ledger.collections import Verdict
from memcore.models.base import Frozen

#: Texts that are searched unless more are asked for: half a minute of a small transformer on one core.
DEFAULT_TEXTS = 1_000

#: Words of a text; what is behind them few transformers read.
WORDS = 512

#: Texts whose time is taken, after one that warms the model up; what is drawn by chance is the same each time.
_TIMED, _SEED = 20, 0

#: Bytes of a number of a vector.
_BYTES = 4

_SAYS = {
    Verdict.PROMOTED: "switching is worthwhile",
    Verdict.UNDECIDED: "whether switching is worthwhile is open",
    Verdict.REJECTED: "switching is not worthwhile",
}


class TriedEmbedder(Frozen):
    """One of both embedders.

    Attributes:
        noise: the cosine up to which its similarity of two texts may be chance.
        text_ms: the median time of one text, alone, on this machine.
        vector_bytes: of the vectors of all memories.
        ndcg_at_10: of its ranking, fused with words at its best weight, on the questions that were asked, or on those
            of templates where too few were.
        shown_again: share of what was shown for recorded questions that is among its first ten; None without such.
    """

    name: str
    dims: int
    noise: float
    text_ms: float
    vector_bytes: int
    ndcg_at_10: float
    shown_again: float | None


class Trial(Frozen):
    """What a trial found; nothing was written.

    Attributes:
        texts: how many were searched.
        asked: the leads of the one that is tried on questions that somebody asked; these decide.
        templates: on questions made of a memory's rare words, which repeat more of it than people's do.
        recorded: recorded questions. What was shown for them was chosen by what serves, so they decide nothing.
        dense_weight: share of the vectors that suits the one that is tried.
    """

    serves: TriedEmbedder
    tried: TriedEmbedder
    texts: int
    asked: Part | None
    templates: Part | None
    recorded: int
    dense_weight: float
    verdict: Verdict
    reason: str

    @computed_field  # type: ignore[prop-decorator]  # pydantic's own way
    @property
    def says(self) -> str:
        """Whether switching is worthwhile, in one line."""
        cost = f"a text takes {self.tried.text_ms:.1f} ms instead of {self.serves.text_ms:.1f}"
        return f"{_SAYS[self.verdict]}: {self.reason}; {cost}"


class _Rows:
    """An embedder's rows of texts, each made once."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: dict[str, NDArray[np.float32]] = {}

    def passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if fresh := [text for text in dict.fromkeys(texts) if text not in self._known]:
            self._known |= dict(zip(fresh, self._embedder.embed_documents(fresh), strict=True))
        return np.stack([self._known[text] for text in texts])

    def queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return questions(self._embedder, texts)


def run_trial(
    memories: Sequence[Owned],
    recorded: Sequence[Recorded],
    serves: Embedder,
    tried: Embedder,
    *,
    count: int,
    texts: int = DEFAULT_TEXTS,
    watch: StageProgress,
) -> Trial:
    """Compare an embedder with the one that serves.

    Args:
        memories: passages, with the questions that are known for them.
        recorded: questions that were kept, with what was shown.
        serves: the embedder of the collection that serves.
        tried: the other one.
        count: how many memories there are.
        texts: how many are searched; half of them, at most, have known questions.
        watch: takes the progress.

    Raises FineTuneTrainingDataError where there is no memory, MemoryEmbeddingError.
    """
    known = chosen((each for each in memories if each.passage.questions), (), most=texts // 2, seed=_SEED)
    rest = chosen((each for each in memories if not each.passage.questions), (), most=texts - len(known), seed=_SEED)
    every = [each.passage.text for each in (*known, *rest)]
    pairs = [
        Pair(query=question, positive_passage=each.passage.text, is_asked=True)
        for each in known
        for question in each.passage.questions
    ]
    keywords = KeywordExtractor(every)
    for each in rest[: texts // 2]:
        _, made = questions_for(each.passage, keywords, MEASURING, count=1, seed=_SEED)
        pairs += [Pair(query=question, positive_passage=each.passage.text) for question in made]
    shown = [text for each in recorded for text in each.shown]
    pool = list(dict.fromkeys([*every, *shown]))
    # First, while no text is cached.
    times = [_median_ms(embedder, pool) for embedder in (serves, tried)]
    rows = _Rows(serves), _Rows(tried)
    report = judge(pairs, pool, rows[1], rows[0], seed=_SEED, watch=watch)
    verdict, reason = promotion_verdict(report, base="what serves")
    has_enough = report.asked is not None and report.asked.questions >= ENOUGH_ASKED
    part = report.asked if has_enough else report.templates or report.asked
    quality = 0.0 if part is None else part.fused_ndcg_at_10
    lead = 0.0 if part is None else part.fused_lead.mean

    def facts(embedder: Embedder, place: int, ndcg: float) -> TriedEmbedder:
        return TriedEmbedder(
            name=embedder.name,
            dims=embedder.dims,
            noise=noise_of(embedder),
            text_ms=times[place],
            vector_bytes=count * embedder.dims * _BYTES,
            ndcg_at_10=ndcg,
            shown_again=_shown_again(rows[place], recorded, pool, default_dense_weight(embedder.kind)),
        )

    return Trial(
        serves=facts(serves, 0, quality - lead),
        tried=facts(tried, 1, quality),
        texts=len(pool),
        asked=report.asked,
        templates=report.templates,
        recorded=len(recorded),
        dense_weight=report.fusion_weight,
        # What people ask in other words, no template asks: alone they speak for the embedder that knows words best.
        verdict=verdict if has_enough else Verdict.UNDECIDED,
        reason=reason,
    )


def _median_ms(embedder: Embedder, texts: Sequence[str]) -> float:
    took = []
    for text in texts[: _TIMED + 1]:
        began = perf_counter()
        embedder.embed_query(text)
        took.append(1_000.0 * (perf_counter() - began))
    return median(took[1:] or took or [0.0])


def _shown_again(rows: _Rows, recorded: Sequence[Recorded], pool: Sequence[str], dense_weight: float) -> float | None:
    if not recorded:
        return None
    asked, place = [each.question for each in recorded], {text: at for at, text in enumerate(pool)}
    near, said = rows.queries(asked) @ rows.passages(pool).T, WordScores(pool).scores(asked)
    fused = dense_weight * scaled(near) + (1.0 - dense_weight) * scaled(said)
    first = np.argsort(-fused, axis=1, kind="stable")[:, :DEPTH]
    shares = [
        np.isin([place[text] for text in each.shown[:DEPTH]], found).mean()
        for each, found in zip(recorded, first, strict=True)
    ]
    return float(np.mean(shares))
