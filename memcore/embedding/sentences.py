"""Rows and sentences of texts in any language, and the labels that say when and by whom."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

#: Longest label, in characters: it stays with every passage that is kept of its memory, so it must be short.
_LONGEST_LABEL = 60

#: "[8 May 2023]", or "Caroline:", or both: how texts say when and by whom. The space after the colon keeps
#: addresses ("https://") and times of day ("10:30") whole.
_LABEL = re.compile(r"(\[[^\[\]\n]+\](?=\s))? ?([^\W\d_][^\s:,;.!?\[\]]*(?: [^\s:,;.!?\[\]]+){0,2}:(?=\s))?")

#: What may end a sentence.
_MARK = re.compile(r"[.!?\u061f\u0964\u0965\u06d4\u2026\u3002\uff01\uff1f]")

#: Where a sentence ends: its mark and closing quotes, then a space; no space after the marks of scripts without any.
#: A small letter after a full stop goes on ("e.g. this"), and so does what follows a short title or a day ("Dr. Who",
#: "3. März").
_SENTENCE_END = re.compile(
    r"(?<=[!?\u061f\u0964\u0965\u06d4\u2026])[\"'\u201d\u2019)\]]* "
    r"|(?<!\b[A-Z]\.)(?<!\b[A-Z][a-z]\.)(?<!\b\d\.)(?<!\b\d\d\.)(?<=\.)[\"'\u201d\u2019)\]]* (?=[^a-z])"
    r"|(?<=[\u3002\uff01\uff1f])[\u300d\u300f\u201d]*"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """The date (in brackets) and the speaker (with a colon) at the beginning of a text; either may be empty."""

    when: str = ""
    who: str = ""


def part_rows(text: str) -> Iterator[tuple[Label, str]]:
    """Yield a text's rows: what each begins with to say when and by whom, and the rest of it.

    A remark is one row, a transcript one for each remark, a list of keys one for each key; a line without a label
    belongs to the row before it.
    """
    label, lines = Label(), list[str]()
    for line in text.splitlines():
        found, rest = part_label(line.strip())
        if found != Label() and lines:
            yield label, "\n".join(lines)
            lines = []
        if found != Label():
            label = found
        if rest:
            lines.append(rest)
    if lines:
        yield label, "\n".join(lines)


def part_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text in any language, word for word; a line break ends one."""
    for line in text.splitlines():
        whole = " ".join(line.split())
        for start, stop in pairwise(sentence_ends(whole)):
            if sentence := whole[start:stop].strip():
                yield sentence


#: So many sentences are one statement with its reason: they are kept or dropped together.
ATOMIC_SENTENCES = 2


def part_statements(text: str) -> Iterator[str]:
    """Yield what is kept or dropped as one: a text of one or two sentences whole, else each of its sentences."""
    sentences = list(part_sentences(text))
    yield from [" ".join(sentences)] if 0 < len(sentences) <= ATOMIC_SENTENCES else sentences


def sentence_ends(line: str) -> list[int]:
    """Return where the sentences of a line end, after 0, where the first begins."""
    # One pattern for both would be tried at every letter.
    ends = (_SENTENCE_END.match(line, mark.end()) for mark in _MARK.finditer(line))
    return [0, *(end.end() for end in ends if end is not None), len(line)]


def part_label(line: str) -> tuple[Label, str]:
    """Return the label of a line, and the rest of it."""
    found = _LABEL.match(line)
    if found is None or found.end() > _LONGEST_LABEL or not (rest := line[found.end() :].strip()):
        return Label(), line
    return Label(when=found[1] or "", who=found[2] or ""), rest
