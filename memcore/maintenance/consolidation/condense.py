"""Extractive summaries: the most telling sentences, word for word, in half the length; no model is asked."""

import heapq
from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import groupby

from memcore.embedding.bm25 import Vocabulary
from memcore.embedding.sentences import Label, part_rows, part_statements
from memcore.errors import MemoryConfigError
from memcore.maintenance.consolidation.strategy import SummaryDraft, text_size
from memcore.models.memory import CONDENSED_TAG
from memcore.records import MemoryRecord

#: Added to a passage's bytes when its worth is set against its length: without it, scraps of one rare word win over
#: sentences. On dialogue turns 20 to 60 measured alike, and 0 kept 2 to 6% less of what answers a question.
_SENTENCE_BYTES = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceCandidate:
    """A passage that may be chosen, by its terms and its cost in bytes.

    Its frames, bytes by name, must stand beside it, as its line's label; all that share a frame pay for it once.
    """

    terms: AbstractSet[str]
    cost: int
    frames: Mapping[str, int]


def cover(candidates: Sequence[SentenceCandidate], *, budget: int, rarity: Callable[[str], float]) -> list[int]:
    """Return the places of the chosen candidates in their order; at least one, when there is any.

    Greedy maximum coverage with costs, each time the candidate of the most new rarity for its bytes (Lin & Bilmes: A
    Class of Submodular Functions for Document Summarization, 2011), lazily evaluated: what a candidate adds only
    shrinks as others are chosen (Minoux: Accelerated Greedy Algorithms, 1978). Ties go to the first.
    """

    def rank(place: int) -> tuple[float, int, int]:
        each = candidates[place]
        # Added up in one order: in another the sum may differ in its last bit, and with it the choice.
        new = sum(map(rarity, sorted(each.terms - said)))
        return (-new / (each.cost + _SENTENCE_BYTES), place, len(chosen))

    said, framed, chosen = set[str](), set[str](), list[int]()
    heap = [rank(place) for place in range(len(candidates))]
    heapq.heapify(heap)
    best = heap[0][1] if heap else None
    while heap:
        worth, place, known = heapq.heappop(heap)
        each = candidates[place]
        cost = each.cost + sum(size for name, size in each.frames.items() if name not in framed)
        if cost > budget or (chosen and worth == 0.0):
            continue
        if known < len(chosen):
            heapq.heappush(heap, rank(place))
            continue
        chosen.append(place)
        budget -= cost
        said |= each.terms
        framed |= each.frames.keys()
    return sorted(chosen) if chosen or best is None else [best]


#: The words of an agent's memories, by the agent's id.
VocabularyOf = Callable[[str], Awaitable[Vocabulary]]


async def no_vocabulary(_agent_id: str) -> Vocabulary:
    """Return an empty vocabulary."""
    return Vocabulary()


#: Bytes of a space between statements; of a line's break, with the space after who; of the same under a heading, with
#: its dash; of a heading's break.
_STATEMENT_BYTES, _LINE_BYTES, _LISTED_BYTES, _HEADING_BYTES = 1, 2, 4, 1


class CondensingOp:
    """Keeps the sentences that distinguish a memory from the others, each once; deterministic for a vocabulary.

    A sentence is worth the rarity of its words among the agent's memories, without those of sentences already kept,
    per byte: names, numbers and identifiers are rare and stay, greetings and repetitions go.
    When and by whom ("[8 May 2023] Caroline:") stays with whatever is kept. ``keep_share`` is the share of the sources'
    bytes, above 0 and below 1. Without a vocabulary, words are counted over the sources alone, which is worse
    (docs/benchmarks/2026-11.md).
    """

    def __init__(self, *, keep_share: float = 0.5, vocabulary: VocabularyOf = no_vocabulary) -> None:
        if not 0.0 < keep_share < 1.0:
            raise MemoryConfigError(f"consolidation.keep_share is {keep_share}; it must be above 0 and below 1")
        self._share = keep_share
        self._vocabulary = vocabulary

    async def write(self, sources: Sequence[MemoryRecord], *, kept: MemoryRecord | None = None) -> SummaryDraft:
        """Return what is kept of the sources, oldest first: a line for each, or for each remark of a transcript."""
        del kept  # It stays in the store, beside the summary.
        vocabulary = await self._vocabulary(sources[0].entry.agent_id)
        return SummaryDraft(
            content=self._condense([source.entry.content for source in sources], vocabulary), tags=(CONDENSED_TAG,)
        )

    def _condense(self, texts: Sequence[str], vocabulary: Vocabulary) -> str:
        if vocabulary.is_empty:
            vocabulary = Vocabulary(texts)
        budget = int(self._share * sum(map(text_size, texts)))
        rows = [row for text in texts for row in part_rows(text)]
        labels = [label for label, _ in rows]
        frames = _frames(labels)
        statements = [(row, statement) for row, (_, rest) in enumerate(rows) for statement in part_statements(rest)]
        terms_of = vocabulary.terms_of([statement for _, statement in statements])
        candidates = [
            SentenceCandidate(terms=terms, cost=text_size(statement) + _STATEMENT_BYTES, frames=frames[row])
            for (row, statement), terms in zip(statements, terms_of, strict=True)
        ]
        lines: dict[int, list[str]] = {}
        for place in cover(candidates, budget=budget, rarity=vocabulary.rarity):
            row, statement = statements[place]
            lines.setdefault(row, []).append(statement)
        return _text(labels, {row: " ".join(kept) for row, kept in lines.items()})


def _frames(labels: Sequence[Label]) -> list[dict[str, int]]:
    """Return what each line needs beside its passages: who, and when as a heading that neighbours share."""
    frames: list[dict[str, int]] = []
    for number, (when, run) in enumerate(groupby(labels, key=lambda label: label.when)):
        heading = {f"heading {number}": text_size(when) + _HEADING_BYTES} if when else {}
        for label in run:
            line = text_size(label.who) + (_LISTED_BYTES if when else _LINE_BYTES)
            frames.append({f"line {len(frames)}": line, **heading})
    return frames


def _text(labels: Sequence[Label], lines: Mapping[int, str]) -> str:
    """Put the lines under one another; neighbours of one date share it as their heading."""
    text: list[str] = []
    for when, run in groupby(lines, key=lambda row: labels[row].when):
        spoken = [f"{labels[row].who} {lines[row]}".lstrip() for row in run]
        if when and len(spoken) > 1:
            text += [when, *(f"- {line}" for line in spoken)]
        else:
            text += [f"{when} {line}".lstrip() for line in spoken]
    return "\n".join(text)
