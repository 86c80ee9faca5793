"""Packs ranked memories into slots and token budget: whole, or the passages of long ones that match the question."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from memcore.retrieval.formatting import BETWEEN_MEMORIES, memory_block
from memcore.retrieval.passages import CUT, Passage, PassageMatcher, part_passages, shown_passages
from memcore.retrieval.protocol import ScoredMemory, TokenEstimator
from memcore.untrusted_text import escaped

#: Tokens of a memory that is never cut: two remarks of a dialogue. With 60, prompts of remarks lost 1 to 2 %.
SHORT_TOKENS = 100

#: How much a passage's match counts beside its memory's score. From .2 to .4 all measured nearly alike
#: (docs/benchmarks/2026-11.md).
MATCH_WEIGHT = 0.2

#: The best memories are cut, up to so many times the tokens of a prompt: others hardly come in, and cost time.
_REACH = 3


def fit_parts(
    own: Sequence[ScoredMemory],
    shared: Sequence[ScoredMemory],
    *,
    estimator: TokenEstimator,
    token_budget: int,
    slots: int,
    shared_fraction: float,
    question: str = "",
    matcher: PassageMatcher | None = None,
) -> tuple[tuple[ScoredMemory, ...], tuple[ScoredMemory, ...]]:
    """Return what fits of an agent's own memories, and of shared knowledge.

    Shared knowledge has its fraction of slots and tokens for certain, and the agent's own memories the rest; either may
    use what the other leaves free. Both are given best first.

    With a matcher, and where not all fits, long memories are cut to the passages that match the question. Facts of the
    organisation stay whole.
    """
    both = (*own, *shared)
    gap = estimator.estimate_tokens(BETWEEN_MEMORIES)
    blocks = [memory_block(memory) for memory in both]
    costs = [estimator.estimate_tokens(block) + gap for block in blocks]
    # Apart, so that what others publish does not change what is shown of the agent's own.
    parts = range(len(own)), range(len(own), len(both))
    cut: dict[int, _Cut] = {}
    if matcher is not None and (len(both) > slots or sum(costs) > token_budget + gap):
        for places in parts:
            near = _first(places, costs, most=_REACH * token_budget)
            cut |= _cut_long({place: both[place] for place in near}, question, matcher, estimator)
    mine, theirs = (_pieces(places, both, costs, cut, estimator) for places in parts)
    # No line break stands before the first.
    packing = _Packing(slots=slots, tokens=token_budget + gap)
    # The best of its own that fits at all is in, however small the prompt.
    packing.take(mine, most=1)
    packing.take(theirs, slots=sure_slots(slots, shared_fraction), tokens=int(token_budget * shared_fraction))
    packing.take(mine)
    packing.take(theirs)

    def fits(memories: Mapping[int, ScoredMemory]) -> bool:
        shown = (memory_block(each) if each.is_part else blocks[place] for place, each in memories.items())
        return estimator.estimate_tokens(BETWEEN_MEMORIES.join(shown)) <= token_budget

    chosen = _chosen(both, packing.taken, cut)
    # The whole may take more tokens than its parts; see fit.
    while chosen and not fits(chosen):
        packing.drop_last()
        chosen = _chosen(both, packing.taken, cut)
    # What is left is for the rest of the best.
    for place, memory in chosen.items():
        if memory.is_part and fits(whole := {**chosen, place: both[place]}):
            chosen = whole
    kept = tuple(memory for place, memory in chosen.items() if place < len(own))
    return kept, tuple(chosen.values())[len(kept) :]


def sure_slots(slots: int, shared_fraction: float) -> int:
    """Return the slots that shared knowledge has for certain; half a slot is one, so of two slots it has one."""
    return int(slots * shared_fraction + 0.5)


#: The passages of a memory, and how well each matches, 1.0 for the best.
_Cut = Sequence[tuple[Passage, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """A memory, or a passage of it, that may be taken, and its tokens.

    ``frames`` are the tokens of what it shares with other pieces: its memory's fence, a heading, a label.
    """

    memory: int
    passage: int | None = None
    value: float
    cost: int
    frames: Mapping[tuple[int, str], int] = field(default_factory=dict)


class _Packing:
    """What is taken into a prompt, and the slots and tokens that are left."""

    def __init__(self, *, slots: int, tokens: int) -> None:
        #: By memory and passage, in the order of taking.
        self.taken: dict[tuple[int, int | None], _Piece] = {}
        self._slots, self._tokens = slots, tokens
        self._memories = set[int]()
        self._frames = set[tuple[int, str]]()

    def take(
        self, pieces: Iterable[_Piece], *, most: int | None = None, slots: int | None = None, tokens: int | None = None
    ) -> None:
        """Take in their order those that fit; at most so many pieces, further memories and tokens."""
        slots = self._slots if slots is None else min(slots, self._slots)
        tokens = self._tokens if tokens is None else min(tokens, self._tokens)
        before = len(self.taken)
        for piece in pieces:
            if len(self.taken) - before == most:
                return
            is_new = piece.memory not in self._memories
            if piece.cost > tokens or is_new > slots or (piece.memory, piece.passage) in self.taken:
                continue
            cost = piece.cost + sum(size for frame, size in piece.frames.items() if frame not in self._frames)
            if cost > tokens:
                continue
            self.taken[piece.memory, piece.passage] = piece
            self._memories.add(piece.memory)
            self._frames |= piece.frames.keys()
            slots, tokens = slots - is_new, tokens - cost
            self._slots, self._tokens = self._slots - is_new, self._tokens - cost

    def drop_last(self) -> None:
        """Drop of the last memory what was taken last."""
        last = max(memory for memory, _ in self.taken)
        del self.taken[next(key for key in reversed(self.taken) if key[0] == last)]


def _first(places: Iterable[int], costs: Sequence[int], *, most: int) -> Iterator[int]:
    for place in places:
        if most <= 0:
            return
        most -= costs[place]
        yield place


def _cut_long(
    memories: Mapping[int, ScoredMemory], question: str, matcher: PassageMatcher, estimator: TokenEstimator
) -> dict[int, _Cut]:
    """Return the passages of the memories that may be cut, by place."""
    texts = {place: memory.entry.content for place, memory in memories.items()}
    parted = {
        place: passages
        for place, text in texts.items()
        if not memories[place].is_fact
        and estimator.estimate_tokens(text) > SHORT_TOKENS
        and len(passages := part_passages(text)) > 1
    }
    if not parted:
        return {}
    # All of them say which words are rare.
    said = [[each.in_full(text) for each in parted.get(place, ())] or [text] for place, text in texts.items()]
    matches = dict(zip(texts, matcher.matches(question, said), strict=True))
    return {
        place: tuple(
            (passage, match if passage.match is None else passage.match)
            for passage, match in zip(passages, matches[place], strict=True)
        )
        for place, passages in parted.items()
    }


def _pieces(
    places: Iterable[int],
    memories: Sequence[ScoredMemory],
    costs: Sequence[int],
    cut: Mapping[int, _Cut],
    estimator: TokenEstimator,
) -> list[_Piece]:
    """Return what may be taken of the memories, best first.

    The best passage of a memory is worth the memory's score; the others less, by their match.
    """
    pieces: list[_Piece] = []
    score = 1.0
    for place in places:
        memory = memories[place]
        # The order may be another than that of the scores, and it counts.
        score = min(score, memory.combined_score)
        if place not in cut:
            pieces.append(_Piece(memory=place, value=score, cost=costs[place]))
            continue
        fence = estimator.estimate_tokens(memory_block(_part_of(memory, f"{CUT} {BETWEEN_MEMORIES}")))
        for number, (passage, match) in enumerate(cut[place]):
            frames = {(place, "fence"): fence}
            if passage.heading:
                heading = escaped(passage.heading) + BETWEEN_MEMORIES
                frames[place, passage.heading] = estimator.estimate_tokens(heading)
            if passage.label:
                frames[place, f"line {passage.row}"] = estimator.estimate_tokens(f"{escaped(passage.label)} ")
            text = memory.entry.content[passage.start : passage.stop]
            pieces.append(
                _Piece(
                    memory=place,
                    passage=number,
                    value=score * (1.0 - MATCH_WEIGHT + MATCH_WEIGHT * match),
                    cost=estimator.estimate_tokens(f"{escaped(text)} {CUT}"),
                    frames=frames,
                )
            )
    return sorted(pieces, key=lambda piece: -piece.value)


def _chosen(
    memories: Sequence[ScoredMemory], taken: Iterable[tuple[int, int | None]], cut: Mapping[int, _Cut]
) -> dict[int, ScoredMemory]:
    """Return what is shown of each memory of which something was taken, in the memories' order, by place."""
    numbers: dict[int, list[int]] = {}
    for place, number in sorted(taken, key=lambda key: (key[0], key[1] or 0)):
        numbers.setdefault(place, []).append(number or 0)
    chosen: dict[int, ScoredMemory] = {}
    for place, of_memory in numbers.items():
        memory = chosen[place] = memories[place]
        if place in cut and len(of_memory) < len(cut[place]):
            passages = [passage for passage, _ in cut[place]]
            chosen[place] = _part_of(memory, shown_passages(memory.entry.content, passages, of_memory))
    return chosen


def _part_of(memory: ScoredMemory, text: str) -> ScoredMemory:
    entry = memory.entry.model_copy(update={"content": text})
    return memory.model_copy(update={"entry": entry, "is_part": True})
