"""Stage 1, generating_data: makes questions for passages of their own words, without a model and without labels.

The pairs are split into training and validation.
"""

import math
import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from memcore.errors import FineTuneTrainingDataError
from memcore.finetune.documents import Pair, Passage, write_lines
from memcore.finetune.markers import StageProgress
from memcore.finetune.runner_config import GeneratingConfig

#: The files that the stage leaves.
TRAINING_FILE = "training.jsonl"
VALIDATION_FILE = "validation.jsonl"

#: Fewest pairs: one to train on and one to measure by.
MIN_PAIRS = 2


def generate(passages: Iterable[Passage], config: GeneratingConfig, output: Path, *, watch: StageProgress) -> None:
    """Write the training and the validation pairs.

    The same passages, in whatever order, and the same seed give the same files; a text that comes twice counts once.

    Raises FineTuneTrainingDataError when there are fewer than two passages, and FineTuneCancelledError.
    """
    every = sorted({each.text: each for each in sorted(passages, key=_place)}.values(), key=_place)
    chance = random.Random(config.seed)  # noqa: S311  # chance for training, no secret
    chance.shuffle(every)
    keywords = KeywordExtractor(each.text for each in every)
    asked: list[tuple[list[Pair], list[Pair]]] = []
    for number, passage in enumerate(every):
        watch.done(number / len(every))
        known = {question[:MAX_QUESTION_CHARS] for question in passage.questions}
        pairs = [
            Pair(query=query, positive_passage=passage.text)
            for query in template_questions(passage, keywords, count=config.queries_per_passage, seed=config.seed)
        ]
        asked.append(
            ([each for each in pairs if each.query in known], [each for each in pairs if each.query not in known])
        )
    if len(asked) < MIN_PAIRS:
        raise FineTuneTrainingDataError(
            f"{len(asked)} passages are too few: it takes {MIN_PAIRS}, one to train on and one to measure by"
        )
    # Split by passage: no training passage is used for validation. Known questions are kept first.
    held_out = min(max(round(len(asked) * config.validation_split), 1), len(asked) - 1)
    validation = [pair for known, made in asked[:held_out] for pair in (*known, *made)]
    known_ones = [pair for known, _ in asked[held_out:] for pair in known]
    made_ones = [pair for _, made in asked[held_out:] for pair in made]
    training = [*known_ones, *made_ones][: config.max_pairs]
    output.mkdir(parents=True, exist_ok=True)
    # The training pairs last: a reader that finds them finds both.
    write_lines(output / VALIDATION_FILE, validation)
    write_lines(output / TRAINING_FILE, training)


def _place(passage: Passage) -> tuple[str, int, str]:
    # Of two with one text the one with more questions stands last, and counts.
    return passage.text, len(passage.questions), passage.model_dump_json()


#: A word, and the shortest keyword, in characters.
_WORD = re.compile(r"[^\W\d_][\w'-]*")
_LETTERS = 3


class KeywordExtractor:
    """Counts in how many passages each word stands, to find the rare ones; takes every passage once."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._passages_with = Counter[str]()
        self._passages = 0
        for text in texts:
            self._passages += 1
            self._passages_with.update({word.lower() for word in words_of(text)})

    def of(self, text: str, *, most: int) -> tuple[str, ...]:
        """Return the rarest words of a text, as they are written there, the most telling first.

        A word weighs as often as it stands in the text, times its rarity; equals stand in the order of the text.
        """
        written: dict[str, str] = {}
        counts = Counter[str]()
        for word in words_of(text):
            written.setdefault(word.lower(), word)
            counts[word.lower()] += 1
        order = {word: place for place, word in enumerate(written)}
        best = sorted(written, key=lambda word: (-counts[word] * self._rarity(word), order[word]))
        return tuple(written[word] for word in best[:most])

    def _rarity(self, word: str) -> float:
        return math.log((self._passages + 1) / (self._passages_with[word] + 0.5))


def words_of(text: str) -> Sequence[str]:
    """Return the words of a text that may be keywords, in order."""
    return [word for word in _WORD.findall(text) if len(word) >= _LETTERS]


def names_of(text: str) -> tuple[str, ...]:
    """Return the likely names: words that begin with a capital where no sentence begins, and speakers."""
    names: dict[str, None] = {}
    for line in text.splitlines():
        speaker = re.match(r"(?:\[[^\]]*\]\s*)?([A-Z][\w'-]+):", line)
        if speaker is not None:
            names[speaker[1]] = None
        for found in re.finditer(r"(?<=[a-z,;] )([A-Z][a-z][\w'-]*)", line):
            names[found[1]] = None
    return tuple(names)


#: Longest question, in characters, and words of which questions are made.
MAX_QUESTION_CHARS = 200
_KEYWORDS = 8

_SENTENCE = re.compile(r"(?<=[.!?。])\s+")

_WITH_NAME = (
    "What did {name} say about {one}?",
    "When did {name} talk about {one} and {two}?",
    "What does {name} think of {one}?",
    "Why did {name} mention {one}?",
    "What happened to {name} with the {one} and the {two}?",
)

_WITHOUT_NAME = (
    "What is known about {one} and {two}?",
    "How is {one} done when there is {two}?",
    "Why does {one} matter for {two}?",
    "{one} {two} {three}",
    "What should one do about {one}?",
    "Where does {one} come up with {two} and {three}?",
)


def extractive_question(text: str) -> str:
    """Return the question of the reference: to find information about the passage's first sentence."""
    first = _SENTENCE.split(" ".join(text.split()), maxsplit=1)[0]
    return f"find information about {first}"[:MAX_QUESTION_CHARS]


def template_questions(passage: Passage, keywords: KeywordExtractor, *, count: int, seed: int) -> tuple[str, ...]:
    """Return at most ``count`` different questions, those that are known first, then of its rare words and names."""
    questions = dict.fromkeys(question[:MAX_QUESTION_CHARS] for question in passage.questions)
    # By the text, not by its place: a passage more does not change the questions of the others.
    chance = random.Random(f"{seed}|{passage.text}")  # noqa: S311  # chance for training, no secret
    words = keywords.of(passage.text, most=_KEYWORDS)
    names = names_of(passage.text)
    tries = count * 4 if words else 0
    while len(questions) < count and tries:
        questions[_filled(chance, words, names)] = None
        tries -= 1
    return tuple(questions)[:count] or (extractive_question(passage.text),)


def _filled(chance: random.Random, words: Sequence[str], names: Sequence[str]) -> str:
    if len(words) < 3:  # noqa: PLR2004  # as many as a template takes
        return " ".join(words)
    one, two, three = chance.sample(words, 3)
    uses_name = bool(names) and chance.random() < 0.5  # noqa: PLR2004  # every second one
    template = chance.choice(_WITH_NAME if uses_name else _WITHOUT_NAME)
    name = chance.choice(names) if uses_name else ""
    return template.format(name=name, one=one, two=two, three=three)[:MAX_QUESTION_CHARS]
