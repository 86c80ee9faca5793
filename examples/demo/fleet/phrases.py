"""The small grammar of the data set: a text with slots becomes a text with people, numbers and dates.

A slot stands in guillemets: «service», «alert.cause» (a field of the same pick), «person#2» (another pick), «n 3-40»
(a number), «hex 7» (a commit), «iso», «day 98» (a date, its own or some days before today).
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from math import ceil
from random import Random

from examples.demo.fleet.day import FORMS, moment, spoken
from memcore.errors import MemoryConfigError

#: A word of the vocabulary: a text, or fields of one thing that belong together.
Word = str | Mapping[str, str | float]

#: name, which pick (#2), field (.cause), argument.
SLOT = re.compile(r"«([a-z_]+)(#\d+)?(?:\.([a-z_]+))?(?: ([\d-]+))?»")

#: What stands before a slot that begins a sentence.
SENTENCE_ENDS = (". ", "? ", "! ", ".\n", "```\n")


class Phrases:
    """Fills slots; one object per series, so that words come round before they repeat."""

    def __init__(self, words: Mapping[str, Sequence[Word]], random: Random, today: datetime) -> None:
        self._words = words
        self._random = random
        self._today = today
        self._bags: dict[str, list[Word]] = {}

    def fill(self, text: str, days_ago: float) -> str:
        """Return the text with every slot filled; the same slot says the same thing throughout.

        Raises:
            MemoryConfigError: a slot names no word of the vocabulary.
        """
        return self._expand(text, days_ago, {})

    def _expand(self, text: str, days_ago: float, said: dict[str, Word]) -> str:
        def replace(slot: re.Match[str]) -> str:
            name, which, field, argument = slot.groups()
            if name in FORMS:
                return spoken(name, moment(self._today, float(argument or days_ago)))
            picked = f"{name}{which or ''} {argument or ''}"
            if picked not in said:
                said[picked] = self._pick(name, argument, days_ago, taken=list(said.values()))
            word = said[picked]
            found = word if isinstance(word, str) else str(word[field or "name"])
            found = self._expand(found, days_ago, said)
            return _capital(found) if _opens(text, slot.start()) else found

        return SLOT.sub(replace, text)

    def _pick(self, name: str, argument: str | None, days_ago: float, taken: list[Word]) -> Word:
        if name == "n" and argument:
            low, high = argument.split("-")
            return str(self._random.randint(int(low), int(high)))
        if name == "hex" and argument:
            return f"{self._random.getrandbits(4 * int(argument)):0{argument}x}"
        if name not in self._words:
            raise MemoryConfigError(f"the demo's vocabulary has no word for the slot {name}")
        for fresh in (False, True):
            if fresh or name not in self._bags:
                self._bags[name] = self._random.sample(self._words[name], len(self._words[name]))
            bag = self._bags[name]
            for place, word in enumerate(bag):
                if _lives(word, days_ago) and word not in taken:
                    return bag.pop(place)
        raise MemoryConfigError(
            f"the demo's vocabulary has no word left for the slot {name} at {days_ago:.0f} days ago"
        )


def _opens(text: str, place: int) -> bool:
    return place == 0 or text[:place].endswith(SENTENCE_ENDS)


def _capital(phrase: str) -> str:
    # Names of services, alerts and commands keep their small letter; only a phrase in words begins a sentence.
    first, _, rest = phrase.partition(" ")
    return phrase[0].upper() + phrase[1:] if rest and first.isalpha() else phrase


def _lives(word: Word, days_ago: float) -> bool:
    # A release or a project exists only for a while; a stand-up must not speak of what is not there yet.
    if isinstance(word, str):
        return True
    return float(word.get("until", 0)) <= ceil(days_ago) <= float(word.get("since", float("inf")))
