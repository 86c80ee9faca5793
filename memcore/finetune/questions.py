"""Questions that ask for a passage, made of its own words: without a model, without labels."""

import random
import re
from collections.abc import Sequence

from memcore.finetune.keywords import Keywords, names_of
from memcore.finetune.passage import Passage

#: Longest question, in characters.
MAX_QUESTION_CHARS = 200

#: Words of which questions are made.
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


class TemplateQuestions:
    """Make questions of a passage's rare words and names; the same passage and seed give the same ones.

    Args:
        keywords: what is rare among all passages.
        seed: which templates and words are taken.
    """

    def __init__(self, keywords: Keywords, *, seed: int) -> None:
        self._keywords = keywords
        self._seed = seed

    def of(self, passage: Passage, *, count: int) -> tuple[str, ...]:
        """Return at most ``count`` different questions; those that are known come first."""
        questions = dict.fromkeys(question[:MAX_QUESTION_CHARS] for question in passage.questions)
        # By the text, not by its place: a passage more does not change the questions of the others.
        chance = random.Random(f"{self._seed}|{passage.text}")  # noqa: S311  # chance for training, no secret
        words = self._keywords.of(passage.text, most=_KEYWORDS)
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
