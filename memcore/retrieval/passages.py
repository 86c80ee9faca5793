"""Passages: the sentences of long memories that match a question, so that a prompt holds parts of more memories."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from memcore.embedding.bm25 import Tokenizer
from memcore.embedding.sentences import Label, part_label, sentence_ends
from memcore.models.memory import LESSON_SECTIONS

#: Stands where passages were left out.
CUT = "\u2026"

#: A line that says what those below it are about: "[8 May 2023]", "# Decisions", "Decisions:".
_HEADING = re.compile(r"\[[^\[\]\n]+\]|#{1,6} .+|[^.!?]{1,60}:")

#: The mark of a list's item.
_ITEM = re.compile(r"[-*+\u2022] ")

#: As str.splitlines has them.
_LINE_BREAK = re.compile(r"[\n-\r\x1c-\x1e\x85\u2028\u2029]")

#: How a section of a lesson begins, and how well each tier of it matches any question.
_SECTION = re.compile(rf"^\[({'|'.join(LESSON_SECTIONS)})\]$", re.MULTILINE)
_TIER_MATCHES = (1.0, 0.5, 0.0)

_CODE_FENCE = "```"
_BRACKETS = ("()", "[]", "{}")
_OPENING, _CLOSING = "([{", ")]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A sentence of a text, or a structure that stays whole, by its place in the text.

    Its heading, and its label ("Caroline:") where it does not begin with it, are shown before it. ``row`` is the number
    of its line: several sentences have one label. ``match`` is how well it matches every question; None where that is
    the question's to say.
    """

    start: int
    stop: int
    row: int
    heading: str = ""
    label: str = ""
    match: float | None = None

    def in_full(self, text: str) -> str:
        """Return the passage of this text, after its heading and its label."""
        return f"{self.heading} {self.label} {text[self.start : self.stop]}"


@dataclass(slots=True, kw_only=True)
class _Block:
    """Lines that belong together; ``is_apart`` says that an empty line stands before them."""

    start: int
    stop: int
    indent: int
    is_apart: bool
    is_structure: bool = False


@lru_cache(maxsize=512)
def part_passages(text: str) -> tuple[Passage, ...]:
    """Return the passages of a text in order; of a lesson its tiers, of which the first comes in before the others.

    Fenced code, a bracket until it is closed, and a line with the lines indented below it are one passage each. All
    else falls into its sentences; a line that begins with a small letter goes on with the one before it.
    """
    if tiers := _tiers(text):
        return tiers
    passages: list[Passage] = []
    heading = label = ""
    for row, block in enumerate(_blocks(text)):
        # Of the same length, so that places stay.
        flat = _LINE_BREAK.sub(" ", text[block.start : block.stop])
        if block.is_apart:
            label = ""
        if not block.is_structure and _HEADING.fullmatch(flat):
            heading, label = flat, ""
            continue
        own = _own_label(flat)
        label = own or label
        for begin, end in pairwise([0, len(flat)] if block.is_structure else _ends(flat)):
            sentence = flat[begin:end]
            passages.append(
                Passage(
                    start=block.start + end - len(sentence.lstrip()),
                    stop=block.start + begin + len(sentence.rstrip()),
                    heading=heading,
                    label="" if own and begin == 0 else label,
                    row=row,
                )
            )
    return tuple(passages)


def _tiers(text: str) -> tuple[Passage, ...]:
    """Return the tiers of a lesson: one line to choose by, when to do what and why, and the steps; none of others."""
    sections = [*_SECTION.finditer(text)]
    names = [section[1] for section in sections]
    if names not in ([*LESSON_SECTIONS], [*LESSON_SECTIONS[:-1]]) or sections[0].start():
        return ()
    # Condition, action and rationale say nothing without one another.
    starts = [section.start() for section in (sections[0], sections[1], *sections[4:])]
    ends = [len(text[:end].rstrip()) for end in (*starts[1:], len(text))]
    return tuple(
        Passage(start=start, stop=end, row=row, match=match)
        for row, (start, end, match) in enumerate(zip(starts, ends, _TIER_MATCHES, strict=False))
    )


def _own_label(line: str) -> str:
    item = _ITEM.match(line)
    found, rest = part_label(line[item.end() :] if item else line)
    return line[: len(line) - len(rest)].rstrip() if found != Label() else ""


def _ends(line: str) -> list[int]:
    """Return where the sentences end, but for ends inside of brackets."""
    ends = [0]
    for end in sentence_ends(line)[1:]:
        if end > ends[-1] and (end == len(line) or not _is_open(line, ends[-1], end)):
            ends.append(end)
    return ends


def _is_open(line: str, start: int, stop: int) -> bool:
    return any(line.count(pair[0], start, stop) > line.count(pair[1], start, stop) for pair in _BRACKETS)


def _blocks(text: str) -> Iterator[_Block]:
    block: _Block | None = None
    at = depth = 0
    is_fenced = is_apart = False
    for line in text.splitlines(keepends=True):
        begin, at = at, at + len(line)
        bare = line.strip()
        if not bare:
            is_apart = True
            continue
        start, stop = begin + len(line) - len(line.lstrip()), begin + len(line.rstrip())
        indent = start - begin
        if block is not None and (is_fenced or depth > 0 or indent > block.indent or bare[0] in _CLOSING):
            block.stop, block.is_structure = stop, True
        elif block is not None and not (is_apart or block.is_structure) and _wraps(bare):
            block.stop = stop
        else:
            if block is not None:
                yield block
            block = _Block(start=start, stop=stop, indent=indent, is_apart=is_apart)
        is_apart = False
        if bare.startswith(_CODE_FENCE):
            is_fenced, block.is_structure = not is_fenced, True
        # An opening bracket in the middle of a line is prose.
        if depth > 0 or bare[-1] in _OPENING:
            depth = max(0, depth + sum(map(bare.count, _OPENING)) - sum(map(bare.count, _CLOSING)))
    if block is not None:
        yield block


def _wraps(line: str) -> bool:
    return line[0].islower() and part_label(line)[0] == Label()


def shown_passages(text: str, passages: Sequence[Passage], places: Sequence[int]) -> str:
    """Return the passages of some places, which ascend, with marks where others were left out."""
    shown, heading, last = "", "", -1
    for place in places:
        passage = passages[place]
        if place == last + 1 and shown:
            # What stands between two neighbours, line breaks and headings, stays as it is.
            shown += text[passages[last].stop : passage.stop]
        elif shown and not _LINE_BREAK.search(text, passages[last].stop, passage.start):
            shown += f" {CUT} {text[passage.start : passage.stop]}"
        else:
            shown += f" {CUT}\n" if shown else ""
            shown += f"{passage.heading}\n" if passage.heading != heading else ""
            shown += f"{CUT} " if place and last < 0 else ""
            shown += f"{passage.label} {text[passage.start : passage.stop]}".lstrip()
        heading, last = passage.heading, place
    return shown if last == len(passages) - 1 else f"{shown} {CUT}"


class PassageMatcher:
    """Scores passages by a question's words; safe in several tasks."""

    def __init__(self) -> None:
        self._tokenizer = Tokenizer()
        # The memories of a prompt are often those of the one before.
        self._terms = lru_cache(maxsize=2_048)(lambda text: frozenset(self._tokenizer.terms(text)))

    def matches(self, question: str, texts: Sequence[Sequence[str]]) -> list[list[float]]:
        """Return how well each passage of each memory matches, 1.0 for the best of a memory.

        A match is the rarity of the question's words in a passage, and in its better neighbour: what answers often
        stands beside what was asked. Without any such word in a memory all its passages have 1.0.
        """
        wanted = tuple(dict.fromkeys(self._tokenizer.query_terms(question)))
        said = [[self._terms(text).intersection(wanted) for text in each] for each in texts]
        spread = Counter(term for each in said for terms in each for term in terms)
        count = sum(map(len, said))
        rarity = {term: math.log((count + 1.0) / (spread[term] + 0.5)) for term in wanted}
        # In the order of the question: a set's order, and the sum's last bit, differ between processes.
        own = [[sum(rarity[term] for term in wanted if term in terms) for terms in each] for each in said]
        return [_shares(_beside_neighbours(each)) for each in own]


def _beside_neighbours(values: Sequence[float]) -> list[float]:
    around = [0.0, *values, 0.0]
    return [value + max(before, after) for before, value, after in zip(around, values, around[2:], strict=False)]


def _shares(values: Sequence[float]) -> list[float]:
    best = max(values, default=0.0)
    return [value / best if best > 0.0 else 1.0 for value in values]
