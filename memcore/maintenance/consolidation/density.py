"""Density of a text: talk may be summarised, data must be kept word for word; an op for each, chosen by it."""

import logging
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum

from memcore.maintenance.consolidation.strategy import ConsolidationOp, SummaryDraft
from memcore.models.memory import MemoryEntry
from memcore.records import MemoryRecord
from memcore.telemetry.events import Event

# The signals are those of the reference (memory-and-persistence, Dual-Mode Archival). What counts as a match is ours:
# tables, logs and shells must be seen, and prose of any language must not be mistaken for them. Shares of
# characters replace the reference's counts of words, which not every script separates. Every pattern has a bounded
# length or begins where a run begins: the time grows with the text, not with its square.

#: Characters that code and data are punctuated with, and prose hardly ever.
_MARK = r"""{}\[\]()<>=;|/\\_#$%&*+@^~`\""""
_MARKS = re.compile(f"[{_MARK}]")
_MARKS_AND_DIGITS = re.compile(rf"[{_MARK}\d]")

#: Share of marks among the visible characters at which a text is nothing but code; prose stays under a fifth of it.
_CODE_SHARE = 0.07

#: Share of marks and digits in a line from which on it is a record and no sentence.
_RECORD_SHARE = 0.12

#: Share of words with a mark or digit in them, in such a record.
_RECORD_WORDS = 0.25

#: Structured lines for each line at which a text is nothing but structure: every second one (the reference's figure).
_STRUCTURED_FACTOR = 2.0

#: Identifiers for each word at which a text is full of them: one for eight words (the reference's figure).
_IDENTIFIER_FACTOR = 8.0

#: Figures for each word at which a text is full of them: one for ten words (the reference's figure).
_FIGURE_FACTOR = 10.0

#: Mean line length, in characters, from which on lines are those of prose (the reference's figure).
_PROSE_LINE_CHARS = 80

#: Lines from which on their length says all that it can (the reference's figure).
_ENOUGH_LINES = 10

#: Words that a key's value or a list's item may have; longer ones are what somebody said.
_VALUE_WORDS = 4

#: Letters of scripts that put no space between words (Thai, Lao, Burmese, Khmer, Japanese, Chinese); two of them count
#: as a word.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")

#: The time before a line of a log or of a chat: it tells nothing of the line.
_TIME = re.compile(r"\[?(?:\d{2,4}[-./]\d\d[-./]\d{2,4}[T ,]{0,2})?\d\d?:\d\d(?::\d\d)?(?:[.,]\d{1,9})?Z?\]?[ \t]")

_BULLET = re.compile(r"[-*+•][ \t]")
_KEY_VALUE = re.compile(r"""["']?[^\s:="']{1,40}["']?[ \t]?[:=](?=\s|$)""")

#: Ends of sentences in Latin, Cyrillic, Chinese, Japanese and Arabic script, with the quotation that may end there too.
_SENTENCE_END = re.compile("[.!?\u2026\u3002\uff01\uff1f\u061f][\"'\u00bb\u201d)]?$")
#: A statement without any mark; it counts as many as the shortest statement with marks mostly has.
_IMPORT = re.compile(r"[ \t]*(?:from [\w.]+ import [\w(*]|import [\w.]+(?: as \w+)?;?$)")
_IMPORT_MARKS = 3

_COLUMNS = re.compile(r"\S(?:\t| {2,20})(?=\S)")
_INDENT = re.compile(r" {2}|\t")

_IDENTIFIER = re.compile(
    r"""
    https?://
    | [0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-
    | (?<![0-9a-zA-Z])(?=[a-f]{0,9}[0-9])[0-9a-f]{7,64}(?![0-9a-zA-Z])
    | [^\W_]_[^\W_]                              # snake_case
    | (?<![a-zA-Z])[a-z]{2,20}[A-Z]              # camelCase, but no iPhone
    | [a-z][A-Z][a-z]{1,20}[A-Z]                 # a name of three parts
    | [a-zA-Z_)]\.[a-z_]{2}                       # an attribute, a file, a host, but no e.g.
    | (?<!\S)[~.]{0,2}/\w | \w/\w{1,40}/          # a path
    | [A-Z]:\\\w
    | \d\.\d{1,3}\.\d{1,3}\.\d                # an address
    | \w[(]                                      # a call
    | (?<!\S)-{1,2}[a-zA-Z]                      # an option
    | [a-zA-Z]-?\d | \d[a-zA-Z]                  # m4, 16MB
    | \w=[\w"'] | \w::\w | \w@\w | [$]\w
    """,
    re.VERBOSE,
)

_FIGURE = re.compile(r"\d+(?:[.:,/-]\d+)*")


def code(text: str) -> float:
    """Return how much of the text is punctuated like code, delimiters of its tables included."""
    lines = [_untimed(line) for line in text.splitlines()]
    visible = sum(map(_visible, lines))
    marks = sum(map(_marks, lines)) + sum(_delimiters(lines))
    return min(1.0, marks / _CODE_SHARE / visible) if visible else 0.0


def structured(text: str) -> float:
    """Return how many of the lines are records, keys with values, rows, or parts of an indented block."""
    lines = [line for each in text.splitlines() if (line := _untimed(each)).strip()]
    if not lines:
        return 0.0
    rows = _delimiters(lines)
    count = sum(bool(row) or _is_structured(line) for line, row in zip(lines, rows, strict=True))
    return min(1.0, _STRUCTURED_FACTOR * count / len(lines))


def identifiers(text: str) -> float:
    """Return how many of the words are ids, links, paths, or names that only programs use."""
    return min(1.0, _IDENTIFIER_FACTOR * sum(map(bool, map(_IDENTIFIER.search, text.split()))) / _words(text))


def numeric(text: str) -> float:
    """Return how many figures stand among the words: versions, addresses, dates, times, amounts."""
    return min(1.0, _FIGURE_FACTOR * len(_FIGURE.findall(text)) / _words(text))


def line_structure(text: str) -> float:
    """Return how much the text is cut into short lines; 0.0 for a single line."""
    lines = text.splitlines()
    if len(lines) < 2:  # noqa: PLR2004  # a line alone has no structure
        return 0.0
    mean = sum(map(len, lines)) / len(lines)
    return max(0.0, 1.0 - mean / _PROSE_LINE_CHARS) * min(len(lines) / _ENOUGH_LINES, 1.0)


def _words(text: str) -> int:
    return max(1, len(text.split()) + len(_UNSPACED.findall(text)) // 2)


def _visible(line: str) -> int:
    return sum(map(len, line.split()))


def _untimed(line: str) -> str:
    match = _TIME.match(line)
    return line[match.end() :] if match else line


def _delimiters(lines: list[str]) -> list[int]:
    """Return for each line how many delimiters it has, where it is a row: beside another with as many."""
    counts = [max(_tight(line, ","), _tight(line, ";"), line.count("\t", 1)) for line in lines]
    beside = zip([0, *counts], counts, [*counts[1:], 0], strict=False)
    return [count if count > 1 and count in (before, after) else 0 for before, count, after in beside]


def _tight(line: str, delimiter: str) -> int:
    return line.count(delimiter) - line.count(delimiter + " ")


def _marks(line: str) -> int:
    return len(_MARKS.findall(line)) + _is_pair(line) + _IMPORT_MARKS * bool(_IMPORT.match(line))


def _is_structured(line: str) -> bool:
    begins = _INDENT.match(line) or _IMPORT.match(line)
    return bool(begins) or _is_pair(line) or _is_record(line) or len(_COLUMNS.findall(line)) > 1


def _is_pair(line: str) -> bool:
    """Return whether the line is a key with its value, or a short item of a list, and no sentence."""
    line = line.strip()
    bullet = _BULLET.match(line)
    body = line[bullet.end() :] if bullet else line
    key = _KEY_VALUE.match(body)
    value = body[key.end() :] if key else body
    said = _words(value) > _VALUE_WORDS or _SENTENCE_END.search(value)
    return bool(bullet or (key and value.strip())) and not said


def _is_record(line: str) -> bool:
    """Return whether the line is made of marks and figures; a sentence with one long id is not."""
    share = len(_MARKS_AND_DIGITS.findall(line)) / max(1, _visible(line))
    words = line.split()
    odd = sum(map(bool, map(_MARKS_AND_DIGITS.search, words)))
    return share >= _RECORD_SHARE and odd >= _RECORD_WORDS * len(words)


#: The score from which on a text is dense (the reference's default).
DEFAULT_DENSE_THRESHOLD = 0.5

#: What each signal weighs in the score (the reference's figures); together they are 1.
_WEIGHTS = ((0.30, code), (0.25, structured), (0.20, identifiers), (0.10, numeric), (0.15, line_structure))

_log = logging.getLogger(__name__)


class ContentDensity(StrEnum):
    """The kind of a text: talk (chat, stories, minutes), or data (code, logs, tables, ids)."""

    SPARSE = "sparse"
    DENSE = "dense"


class DensityClassifier:
    """Classifies texts as dense or sparse by five weighted signals; deterministic, without a model.

    From the threshold on a text is dense; 0.0 takes everything for dense, 1.0 everything for sparse. Raises ValueError
    when it is not a number from 0.0 to 1.0.
    """

    def __init__(self, dense_threshold: float = DEFAULT_DENSE_THRESHOLD) -> None:
        if not 0.0 <= dense_threshold <= 1.0:
            raise ValueError(f"dense_threshold must be 0.0 to 1.0, not {dense_threshold}")
        self._threshold = dense_threshold

    def score(self, content: str) -> float:
        """Return how dense a text is: 0.0 for plain prose, 1.0 when every signal is full."""
        return min(1.0, sum(weight * signal(content) for weight, signal in _WEIGHTS))

    def classify(self, content: str) -> ContentDensity:
        """Return what a text is: dense when its score reaches the threshold."""
        # A full score reaches 1.0 too, which yet means that nothing is dense.
        is_dense = self._threshold < 1.0 and self.score(content) >= self._threshold
        return ContentDensity.DENSE if is_dense else ContentDensity.SPARSE

    def classify_batch(self, entries: Iterable[MemoryEntry]) -> tuple[tuple[MemoryEntry, ContentDensity], ...]:
        """Return each memory with its density, in the given order, and log the counts."""
        pairs = tuple((entry, self.classify(entry.content)) for entry in entries)
        counts = Counter(density for _, density in pairs)
        _log.info(Event.CONSOLIDATION_DENSITY_CLASSIFIED, extra={kind.value: counts[kind] for kind in ContentDensity})
        return pairs


class DensityRoutingOp:
    """Chooses an op by the density of most of the group; a tie is sparse."""

    def __init__(self, classifier: DensityClassifier, *, dense: ConsolidationOp, sparse: ConsolidationOp) -> None:
        self._classifier = classifier
        self._dense = dense
        self._sparse = sparse

    async def write(self, sources: Sequence[MemoryRecord], *, kept: MemoryRecord | None = None) -> SummaryDraft:
        """Return what the chosen op writes; the memory that is kept has a vote too."""
        voters = [*sources, kept] if kept is not None else list(sources)
        dense = sum(self._classifier.classify(each.entry.content) is ContentDensity.DENSE for each in voters)
        is_dense = 2 * dense > len(voters)
        _log.info(Event.CONSOLIDATION_DUAL_MODE_GROUP_CLASSIFIED, extra={"dense": dense, "voters": len(voters)})
        return await (self._dense if is_dense else self._sparse).write(sources, kept=kept)
