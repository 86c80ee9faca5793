"""Cutting a memory's text into what can be kept or left out: sentences, word for word, and the labels before them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

#: Longest label, in characters: it stays with every passage that is kept of its memory, so it must be short.
_LONGEST_LABEL = 60

#: "[8 May 2023]", or "Caroline:", or both: the way in which texts say when and by whom. The space after the colon keeps
#: addresses ("https://") and times of day ("10:30") whole.
_LABEL = re.compile(r"(\[[^\[\]\n]+\](?=\s))? ?([^\W\d_][^\s:,;.!?\[\]]*(?: [^\s:,;.!?\[\]]+){0,2}:(?=\s))?")

#: Where a sentence ends: its mark and closing quotes, then a space; no space after the marks of scripts without any.
#: A small letter after a full stop goes on ("e.g. this"), and so does what follows a short title or a day ("Dr. Who",
#: "3. März").
_SENTENCE_END = re.compile(
    r"(?<=[!?\u061f\u0964\u0965\u06d4\u2026])[\"'\u201d\u2019)\]]* "
    r"|(?<!\b[A-Z]\.)(?<!\b[A-Z][a-z]\.)(?<!\b\d\.)(?<!\b\d\d\.)(?<=\.)[\"'\u201d\u2019)\]]* (?=[^a-z])"
    r"|(?<=[\u3002\uff01\uff1f])[\u300d\u300f\u201d]*"
)

#: Where a long sentence may be parted: after a comma or its like, before a dash.
_PAUSE = re.compile(r"(?<=[,;:]) |(?<=[\uff0c\uff1b\uff1a\u3001\u060c\u061b])| (?=[-\u2013\u2014] )")


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What a text begins with to say when and by whom; each part may be empty.

    Attributes:
        when: in brackets.
        who: with its colon.
    """

    when: str = ""
    who: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A sentence, or a piece of a long one.

    Attributes:
        text: word for word as in its memory, but for the white space around it.
        comes_on: the passage before it is of the same sentence.
        goes_on: the one after it is.
    """

    text: str
    comes_on: bool = False
    goes_on: bool = False

    @property
    def is_cut(self) -> bool:
        """Whether it is less than a sentence."""
        return self.comes_on or self.goes_on


def part_rows(text: str) -> Iterator[tuple[Label, str]]:
    """Yield a text's rows: what each begins with to say when and by whom, and the rest of it.

    Args:
        text: a remark is one row, a transcript one for each remark, a list of keys one for each key; a line without a
            label belongs to the row before it.
    """
    label, lines = Label(), list[str]()
    for line in text.splitlines():
        found, rest = _part_label(line.strip())
        if found != Label() and lines:
            yield label, "\n".join(lines)
            lines = []
        if found != Label():
            label = found
        if rest:
            lines.append(rest)
    if lines:
        yield label, "\n".join(lines)


def part_sentences(text: str, *, longest: int) -> Iterator[Passage]:
    """Yield the sentences of a text in order; one of more characters is parted at its pauses, or else between words.

    Args:
        text: in any language; a line break ends a sentence.
        longest: characters of a passage, 1 or more.
    """
    for line in text.splitlines():
        whole = " ".join(line.split())
        ends = [0, *(found.end() for found in _SENTENCE_END.finditer(whole)), len(whole)]
        for start, stop in pairwise(ends):
            if sentence := whole[start:stop].strip():
                yield from _parted(sentence, longest)


def _parted(sentence: str, longest: int) -> Iterator[Passage]:
    start = 0
    while len(sentence) - start > longest:
        stop = start + _stop(sentence[start : start + longest + 1], longest)
        yield Passage(text=sentence[start:stop].rstrip(), comes_on=start > 0, goes_on=True)
        # Of single spaces: there is one at most.
        start = stop + (sentence[stop] == " ")
    yield Passage(text=sentence[start:], comes_on=start > 0)


def _stop(window: str, longest: int) -> int:
    pauses = [found.end() for found in _PAUSE.finditer(window)]
    # A pause near the beginning would leave a scrap.
    if pauses and pauses[-1] > longest // 3:
        return min(pauses[-1], longest)
    space = window.rfind(" ")
    return space if space > 0 else longest


def _part_label(line: str) -> tuple[Label, str]:
    found = _LABEL.match(line)
    if found is None or found.end() > _LONGEST_LABEL or not (rest := line[found.end() :].strip()):
        return Label(), line
    return Label(when=found[1] or "", who=found[2] or ""), rest
