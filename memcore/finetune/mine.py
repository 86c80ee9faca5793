"""Stage 2, mining_negatives: finds passages that look like a question's answer and are not."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memcore.errors import FineTuneTrainingDataError
from memcore.finetune.documents import Pair, Triple, read_lines, write_lines
from memcore.finetune.encoder import Encoder
from memcore.finetune.markers import StageProgress

#: The file that the stage leaves.
TRIPLES_FILE = "training_triples.jsonl"

#: A passage as near as this share of the true one's nearness may be another right answer: it is no negative.
TOO_NEAR = 0.95

#: Questions compared at a time; between them a cancelled stage stops.
_BLOCK = 50


def mine(
    training: Path, encoder: Encoder, output: Path, *, top_k: int, watch: StageProgress, max_pairs: int | None = None
) -> None:
    """Write each question, of the first ``max_pairs``, with its passage and at most ``top_k`` hard negatives.

    A text that answers the question under another line, or that equals the answer, is never its negative.
    Raises MemoryInputError, FineTuneTrainingDataError, FineTuneCancelledError.
    """
    pairs = list(islice(read_lines(training, Pair), max_pairs))
    if not pairs:
        raise FineTuneTrainingDataError("there are no pairs to mine for")
    texts = list(dict.fromkeys(pair.positive_passage for pair in pairs))
    place = {text: number for number, text in enumerate(texts)}
    answers: dict[str, set[int]] = {}
    for pair in pairs:
        answers.setdefault(pair.query, set()).add(place[pair.positive_passage])
    rows = encoder.passages(texts)
    watch.done(0.4)
    triples: list[Triple] = []
    for start in range(0, len(pairs), _BLOCK):
        block = pairs[start : start + _BLOCK]
        near = encoder.queries([pair.query for pair in block]) @ rows.T
        for pair, similar in zip(block, near, strict=True):
            own = place[pair.positive_passage]
            chosen = _hardest(similar, own, answers[pair.query], top_k)
            negatives = tuple(texts[each] for each in chosen)
            triples.append(Triple(query=pair.query, positive=pair.positive_passage, negatives=negatives))
        watch.done(0.4 + 0.6 * (start + len(block)) / len(pairs))
    output.mkdir(parents=True, exist_ok=True)
    write_lines(output / TRIPLES_FILE, triples)


def _hardest(similar: NDArray[np.float32], own: int, answers: set[int], top_k: int) -> Sequence[int]:
    """Return the nearest that are far enough from the answer, the nearest first; of equals the earlier."""
    order = np.argsort(-similar, kind="stable")
    limit = TOO_NEAR * float(similar[own])
    found: list[int] = []
    for each in order.tolist():
        if each not in answers and float(similar[each]) < limit:
            found.append(each)
            if len(found) == top_k:
                break
    return found
