"""Stage 1, generating_data: makes questions for passages of their own words, without a model and without labels.

The pairs are split into training and validation.
"""

import math
import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from memcore.embedding.languages import ENGLISH_STOP_WORDS
from memcore.errors import FineTuneTrainingDataError
from memcore.finetune.documents import Pair, Passage, write_lines
from memcore.finetune.markers import StageProgress
from memcore.finetune.runner_config import GeneratingConfig

#: The files that the stage leaves.
TRAINING_FILE = "training.jsonl"
VALIDATION_FILE = "validation.jsonl"

#: Fewest pairs: one to train on and one to measure by.
MIN_PAIRS = 2

#: Most passages to measure by, of those with known questions and of the others: more cost time, and decide nothing.
MOST_MEASURED = 500


def generate(passages: Iterable[Passage], config: GeneratingConfig, output: Path, *, watch: StageProgress) -> None:
    """Write the training and the validation pairs.

    The same passages, in whatever order, and the same seed give the same files; a text that comes twice counts once.
    Templates of the validation are others than those of the training, and a made question that fits two passages is
    left out: both would be right.

    Raises FineTuneTrainingDataError when there are fewer than two passages, and FineTuneCancelledError.
    """
    every = sorted({each.text: each for each in sorted(passages, key=_place)}.values(), key=_place)
    if len(every) < MIN_PAIRS:
        raise FineTuneTrainingDataError(
            f"{len(every)} passages are too few: it takes {MIN_PAIRS}, one to train on and one to measure by"
        )
    chance = random.Random(config.seed)  # noqa: S311  # chance for training, no secret
    chance.shuffle(every)
    keywords = KeywordExtractor(each.text for each in every)
    held_out = {each.text for each in _held_out(every, config.validation_split)}
    asked: list[tuple[Passage, tuple[str, ...], tuple[str, ...]]] = []
    for number, passage in enumerate(every):
        watch.done(number / len(every))
        frames = MEASURING if passage.text in held_out else TRAINING
        known, made = questions_for(passage, keywords, frames, count=config.queries_per_passage, seed=config.seed)
        asked.append((passage, known, made))
    times = Counter(question.casefold() for _, known, made in asked for question in (*known, *made))
    known_ones: dict[bool, list[Pair]] = {True: [], False: []}
    made_ones: dict[bool, list[Pair]] = {True: [], False: []}
    for passage, known, made in asked:
        is_held_out = passage.text in held_out
        alone = [question for question in made if times[question.casefold()] == 1]
        if not known and not alone:
            alone = [(MEASURING if is_held_out else TRAINING).of_sentence(passage.text)]
        known_ones[is_held_out] += [Pair(query=each, positive_passage=passage.text, is_asked=True) for each in known]
        made_ones[is_held_out] += [Pair(query=each, positive_passage=passage.text) for each in alone]
    output.mkdir(parents=True, exist_ok=True)
    # The training pairs last: a reader that finds them finds both. Known questions are kept first.
    write_lines(output / VALIDATION_FILE, [*known_ones[True], *made_ones[True]])
    write_lines(output / TRAINING_FILE, [*known_ones[False], *made_ones[False]][: config.max_pairs])


def _held_out(every: Sequence[Passage], share: float) -> Sequence[Passage]:
    """Return the passages to measure by: the share of those with known questions, and of the others."""
    asked = [each for each in every if each.questions]
    others = [each for each in every if not each.questions]
    found = [each for some in (asked, others) for each in some[: min(round(len(some) * share), MOST_MEASURED)]]
    return (found or every[:1])[: len(every) - 1]


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
        self._written_small = set[str]()
        self._passages = 0
        for text in texts:
            self._passages += 1
            words = words_of(text)
            self._passages_with.update({word.lower() for word in words})
            self._written_small.update(word for word in words if word.islower())

    def is_name(self, word: str) -> bool:
        """Whether a word with a capital is a name: no text writes it small ("The"), and it is no mask ("HOST")."""
        small = word.lower()
        return not word.isupper() and small not in self._written_small and small not in ENGLISH_STOP_WORDS

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
    found = _WORD.findall(text)
    return [word for word in found if len(word) >= _LETTERS and word.lower() not in ENGLISH_STOP_WORDS]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames:
    """The forms in which questions are made of a passage's words."""

    with_name: tuple[str, ...]
    without_name: tuple[str, ...]
    sentence: str

    def filled(self, chance: random.Random, words: Sequence[str], names: Sequence[str]) -> str:
        """Return a question of some of these words and names."""
        if len(words) < 3:  # noqa: PLR2004  # as many as a frame takes
            return " ".join(words)
        uses_name = bool(names) and chance.random() < 0.5  # noqa: PLR2004  # every second one
        name = chance.choice(names) if uses_name else ""
        # "What did Ada say about Ada?" asks nothing.
        others = [word for word in words if word != name]
        one, two, three = chance.sample(others if len(others) > 2 else words, 3)  # noqa: PLR2004  # as above
        frame = chance.choice(self.with_name if uses_name else self.without_name)
        return frame.format(name=name, one=one, two=two, three=three)[:MAX_QUESTION_CHARS]

    def of_sentence(self, passage: str) -> str:
        """Return a question for the passage's first sentence."""
        first = _SENTENCE.split(" ".join(passage.split()), maxsplit=1)[0]
        return self.sentence.format(first)[:MAX_QUESTION_CHARS]


#: The last form is the reference's.
TRAINING = Frames(
    with_name=(
        "What did {name} say about {one}?",
        "When did {name} talk about {one} and {two}?",
        "What does {name} think of {one}?",
        "Why did {name} mention {one}?",
        "What happened to {name} with the {one} and the {two}?",
    ),
    without_name=(
        "What is known about {one} and {two}?",
        "How is {one} done when there is {two}?",
        "Why does {one} matter for {two}?",
        "{one} {two} {three}",
        "What should one do about {one}?",
        "Where does {one} come up with {two} and {three}?",
    ),
    sentence="find information about {}",
)

#: A model that has learned the forms above gains nothing by them here.
MEASURING = Frames(
    with_name=(
        "Is there anything from {name} on {one}?",
        "{name} told us something regarding {one} and {two}, which was it?",
        "Remind me of {name}, {one} and so on.",
        "I need the note in which {name} brings up {one}.",
    ),
    without_name=(
        "Do we have something on {one} or {two}?",
        "I am looking for {two}, it had to do with {one}.",
        "Which note covers {one}, {two}, {three}?",
        "Tell me more: {one}, and then {two}.",
    ),
    sentence="Who wrote this: {}",
)


def questions_for(
    passage: Passage, keywords: KeywordExtractor, frames: Frames, *, count: int, seed: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return at most ``count`` different questions: known ones, and those made of its rare words and names."""
    known = tuple(dict.fromkeys(question[:MAX_QUESTION_CHARS] for question in passage.questions))[:count]
    # By the text, not by its place: a passage more does not change the questions of the others.
    chance = random.Random(f"{seed}|{passage.text}")  # noqa: S311  # chance for training, no secret
    words = keywords.of(passage.text, most=_KEYWORDS)
    names = [name for name in names_of(passage.text) if keywords.is_name(name)]
    made: dict[str, None] = {}
    tries = count * 4 if words else 0
    while len(known) + len(made) < count and tries:
        question = frames.filled(chance, words, names)
        if question not in known:
            made[question] = None
        tries -= 1
    return known, tuple(made)
