"""Stage 1, generating_data: passages become questions that ask for them, parted into what trains and what measures."""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from memcore.errors import FineTuneTrainingDataError
from memcore.finetune.keywords import Keywords
from memcore.finetune.lines import write_lines
from memcore.finetune.pair import Pair
from memcore.finetune.passage import Passage
from memcore.finetune.plan import FineTunePlan
from memcore.finetune.questions import TemplateQuestions

#: The files that the stage leaves.
TRAINING_FILE = "training.jsonl"
VALIDATION_FILE = "validation.jsonl"

#: Fewest pairs: one to train on and one to measure by.
MIN_PAIRS = 2

#: Asks a model for questions about a passage; an empty answer lets the passage's own words speak.
Writer = Callable[[Passage, int], Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """What was made.

    Attributes:
        passages: different texts.
        training: pairs to train on.
        validation: pairs to measure by; none of their passages is trained on.
    """

    passages: int
    training: int
    validation: int


def generate(
    passages: Iterable[Passage], plan: FineTunePlan, output: Path, *, writer: Writer | None = None
) -> Generated:
    """Write the training and the validation pairs.

    The same passages, in whatever order, and the same seed give the same files.

    Args:
        passages: what can be looked for; a text that comes twice counts once.
        plan: how many questions, how they are parted.
        output: the folder of the files.
        writer: who writes questions; None takes the passages' own words.

    Raises:
        FineTuneTrainingDataError: fewer than two pairs came of it.
    """
    every = sorted({each.text: each for each in sorted(passages, key=_place)}.values(), key=_place)
    chance = random.Random(plan.seed)  # noqa: S311  # chance for training, no secret
    chance.shuffle(every)
    questions = TemplateQuestions(Keywords(each.text for each in every), seed=plan.seed)
    pairs: list[list[Pair]] = []
    for passage in every:
        asked = tuple(writer(passage, plan.queries_per_passage)) if writer else ()
        asked = asked or questions.of(passage, count=plan.queries_per_passage)
        pairs.append([Pair(query=query, positive_passage=passage.text) for query in asked])
    return _written(pairs, plan, output)


def _written(pairs: list[list[Pair]], plan: FineTunePlan, output: Path) -> Generated:
    """Part by passage: a passage that is trained on is never measured by."""
    if len(pairs) < MIN_PAIRS:
        raise FineTuneTrainingDataError(
            f"{len(pairs)} passages are too few: it takes {MIN_PAIRS}, one to train on and one to measure by"
        )
    held_out = min(max(round(len(pairs) * plan.validation_split), 1), len(pairs) - 1)
    validation = [pair for of_one in pairs[:held_out] for pair in of_one]
    training = [pair for of_one in pairs[held_out:] for pair in of_one][: plan.max_pairs]
    output.mkdir(parents=True, exist_ok=True)
    # The training pairs last: whoever finds them finds both.
    write_lines(output / VALIDATION_FILE, validation)
    write_lines(output / TRAINING_FILE, training)
    return Generated(passages=len(pairs), training=len(training), validation=len(validation))


def _place(passage: Passage) -> tuple[str, str, str]:
    # Of two with one text the one with a title stands last, and counts.
    return passage.text, passage.title or "", passage.source
