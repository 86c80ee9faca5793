"""Stage 1, generating_data: makes questions for passages, and splits the pairs into training and validation."""

import random
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from memcore.errors import FineTuneTrainingDataError
from memcore.finetune.documents import Pair, Passage, write_lines
from memcore.finetune.markers import StageProgress
from memcore.finetune.runner_config import GeneratingConfig
from memcore.finetune.templates import MAX_QUESTION_CHARS, KeywordExtractor, TemplateQuestions

#: The files that the stage leaves.
TRAINING_FILE = "training.jsonl"
VALIDATION_FILE = "validation.jsonl"

#: Fewest pairs: one to train on and one to measure by.
MIN_PAIRS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """Counts of the generated pairs.

    Attributes:
        passages: different texts.
        training: training pairs.
        validation: validation pairs; none of their passages is trained on.
    """

    passages: int
    training: int
    validation: int


def generate(
    passages: Iterable[Passage], config: GeneratingConfig, output: Path, *, watch: StageProgress | None = None
) -> Generated:
    """Write the training and the validation pairs.

    The same passages, in whatever order, and the same seed give the same files.

    Args:
        passages: what can be looked for; a text that comes twice counts once.
        config: how many questions, and the split.
        output: the folder of the files.
        watch: takes the progress.

    Raises:
        FineTuneTrainingDataError: there were fewer than two passages.
        FineTuneCancelledError: the stage was cancelled.
    """
    watch = watch or StageProgress()
    every = sorted({each.text: each for each in sorted(passages, key=_place)}.values(), key=_place)
    chance = random.Random(config.seed)  # noqa: S311  # chance for training, no secret
    chance.shuffle(every)
    questions = TemplateQuestions(KeywordExtractor(each.text for each in every), seed=config.seed)
    made: list[_Asked] = []
    for number, passage in enumerate(every):
        watch.done(number / len(every))
        asked = questions.of(passage, count=config.queries_per_passage)
        pairs = [Pair(query=query, positive_passage=passage.text) for query in asked]
        known = {question[:MAX_QUESTION_CHARS] for question in passage.questions}
        made.append(
            _Asked(
                known=[pair for pair in pairs if pair.query in known],
                made=[pair for pair in pairs if pair.query not in known],
            )
        )
    return _written(made, config, output)


@dataclass(frozen=True, slots=True)
class _Asked:
    """The pairs of one passage: with questions that were known, and with those made of its words."""

    known: list[Pair]
    made: list[Pair]


def _written(asked: list[_Asked], config: GeneratingConfig, output: Path) -> Generated:
    """Split by passage: no training passage is used for validation. Known questions are kept first."""
    if len(asked) < MIN_PAIRS:
        raise FineTuneTrainingDataError(
            f"{len(asked)} passages are too few: it takes {MIN_PAIRS}, one to train on and one to measure by"
        )
    held_out = min(max(round(len(asked) * config.validation_split), 1), len(asked) - 1)
    validation = [pair for of_one in asked[:held_out] for pair in (*of_one.known, *of_one.made)]
    known = [pair for of_one in asked[held_out:] for pair in of_one.known]
    made = [pair for of_one in asked[held_out:] for pair in of_one.made]
    training = [*known, *made][: config.max_pairs]
    output.mkdir(parents=True, exist_ok=True)
    # The training pairs last: a reader that finds them finds both.
    write_lines(output / VALIDATION_FILE, validation)
    write_lines(output / TRAINING_FILE, training)
    return Generated(passages=len(asked), training=len(training), validation=len(validation))


def _place(passage: Passage) -> tuple[str, int, str]:
    # Of two with one text the one with more questions stands last, and counts.
    return passage.text, len(passage.questions), passage.model_dump_json()
