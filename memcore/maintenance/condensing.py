"""The extractive summary: the sentences that tell most, word for word, in half the room; no model is asked."""

from collections.abc import Mapping, Sequence
from itertools import groupby

from memcore.backends.record import MemoryRecord
from memcore.errors import MemoryConfigError
from memcore.maintenance.coverage import Candidate, cover
from memcore.maintenance.draft import Draft
from memcore.maintenance.passages import Label, Passage, part_rows, part_sentences
from memcore.maintenance.vocabulary import Vocabulary, VocabularyOf, no_vocabulary

#: Tag of the summaries.
CONDENSED_TAG = "condensed"

#: Longest passage, in characters, that is kept or left out as one: a long sentence of people, a line of a log.
_LONGEST_PASSAGE = 160

#: Shortest passage into which a sentence is parted, in characters: less is a scrap.
_SHORTEST_LIMIT = 40

#: A passage takes at most this share of the room, so that there is something to choose among.
_PASSAGE_SHARE = 0.25

#: Stands where a sentence was cut.
_CUT = "\u2026"

#: Bytes of a space between passages; of the marks at both ends of a piece; of a line's break, with the space after
#: who; of the same under a heading, with its dash; of a heading's break.
_PASSAGE_BYTES, _CUT_BYTES, _LINE_BYTES, _LISTED_BYTES, _HEADING_BYTES = 1, 6, 2, 4, 1


class CondensingOp:
    """Keep the sentences that tell a memory from the others, each once; the same text for the same vocabulary.

    A sentence is worth the rarity of its words among the agent's memories, words that another kept sentence has said
    left out, for the room it takes: names, numbers and identifiers are rare and stay, greetings and repetitions go.
    When and by whom ("[8 May 2023] Caroline:") stays with whatever is kept.

    Args:
        keep_share: bytes of the summary to the bytes of its sources, above 0 and below 1.
        vocabulary: which words are rare among an agent's memories; when left out they are counted over the sources
            alone, which is worse (docs/benchmarks/2026-11.md).
    """

    def __init__(self, *, keep_share: float = 0.5, vocabulary: VocabularyOf = no_vocabulary) -> None:
        if not 0.0 < keep_share < 1.0:
            raise MemoryConfigError(f"consolidation.keep_share is {keep_share}; it must be above 0 and below 1")
        self._share = keep_share
        self._vocabulary = vocabulary

    async def write(self, sources: Sequence[MemoryRecord], *, kept: MemoryRecord | None = None) -> Draft:
        """Return what is kept of the sources, oldest first: a line for each, or for each remark of a transcript."""
        del kept  # It stays in the store, beside the summary.
        vocabulary = await self._vocabulary(sources[0].entry.agent_id)
        return Draft(
            content=self._condense([source.entry.content for source in sources], vocabulary), tags=(CONDENSED_TAG,)
        )

    def _condense(self, texts: Sequence[str], vocabulary: Vocabulary) -> str:
        if vocabulary.is_empty:
            vocabulary = Vocabulary()
            vocabulary.read(texts)
        budget = int(self._share * sum(map(_size, texts)))
        room = _PASSAGE_SHARE * self._share * sum(map(len, texts))
        longest = max(_SHORTEST_LIMIT, min(_LONGEST_PASSAGE, int(room)))
        rows = [row for text in texts for row in part_rows(text)]
        labels = [label for label, _ in rows]
        frames = _frames(labels)
        passages: list[tuple[int, Passage]] = []
        candidates: list[Candidate] = []
        for row, (_, rest) in enumerate(rows):
            for passage in part_sentences(rest, longest=longest):
                passages.append((row, passage))
                terms = frozenset(vocabulary.terms(passage.text))
                cost = _size(passage.text) + _PASSAGE_BYTES + (_CUT_BYTES if passage.is_cut else 0)
                candidates.append(Candidate(terms=terms, cost=cost, frames=frames[row]))
        places = cover(candidates, budget=budget, rarity=vocabulary.rarity)
        return _text(labels, _lines(passages, places))


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _frames(labels: Sequence[Label]) -> list[dict[str, int]]:
    """Return what each line needs beside its passages: who, and when as a heading that neighbours share."""
    frames: list[dict[str, int]] = []
    for number, (when, run) in enumerate(groupby(labels, key=lambda label: label.when)):
        heading = {f"heading {number}": _size(when) + _HEADING_BYTES} if when else {}
        for label in run:
            line = _size(label.who) + (_LISTED_BYTES if when else _LINE_BYTES)
            frames.append({f"line {len(frames)}": line, **heading})
    return frames


def _lines(passages: Sequence[tuple[int, Passage]], places: Sequence[int]) -> dict[int, str]:
    """Return what is kept of each row, with a mark where a sentence was cut."""
    lines: dict[int, list[str]] = {}
    chosen = frozenset(places)
    for place in places:
        row, passage = passages[place]
        before = _CUT if passage.comes_on and place - 1 not in chosen else ""
        after = _CUT if passage.goes_on and place + 1 not in chosen else ""
        lines.setdefault(row, []).append(f"{before}{passage.text}{after}")
    return {row: " ".join(kept) for row, kept in lines.items()}


def _text(labels: Sequence[Label], lines: Mapping[int, str]) -> str:
    """Put the lines under one another; neighbours of one date share it as their heading."""
    told: list[str] = []
    for when, run in groupby(lines, key=lambda row: labels[row].when):
        spoken = [f"{labels[row].who} {lines[row]}".lstrip() for row in run]
        if when and len(spoken) > 1:
            told += [when, *(f"- {line}" for line in spoken)]
        else:
            told += [f"{when} {line}".lstrip() for line in spoken]
    return "\n".join(told)
