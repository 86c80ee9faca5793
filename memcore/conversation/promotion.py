"""What of the candidates that a session held back is kept at its end: what was said again, then or before.

Candidates that say the same are one cluster. Its support is the number of turns in which it was said, counted by the
candidates or by the texts of the turns, whichever is more.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations

from memcore.conversation import cues
from memcore.conversation.words import Words, plain
from memcore.models.conversation import (
    Confidence,
    HeldCandidate,
    ProceduralCandidate,
    SemanticCandidate,
    WriteDecision,
)

#: The version of these rules, for the outcome of an end.
POLICY_VERSION = "promotion-1"

#: From where on two texts are about the same: the share of their words that both have, or how many these are.
_SAME_SHARE, _SAME_WORDS = 0.5, 3

#: Words shared from which on the text of a turn supports a candidate, where it does not name the object.
_SUPPORTING_WORDS = 2

#: Turns in which something must have been said; for a rule, also those that make it sure.
_REPEATED, _SURE = 2, 3

#: The score that an earlier session's summary must have, and what adds to it: the object itself, or words.
_ARC_SCORE, _ARC_TERM, _ARC_WORDS = 2, 2, (2, 3)

#: Summaries of earlier sessions that are looked at.
MAX_ARCS = 100

#: Most quotes of what is promoted.
MAX_QUOTES = 3

_PRIVATE = "the person asked that nothing of this session be kept"
_ONCE = "it was said once"
_SAID_BY_RULE = "a rule says it"
_SAID_BY_FACT = "a fact says it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Promoted:
    """A cluster of candidates that is to be kept.

    Attributes:
        candidates: those that say the same; the first one is kept, as the newest that may be.
        support: in how many turns it was said.
        confidence: how sure it is.
        quotes: the person's words, three at most, those of the first one first.
        reason: why it is promoted.
    """

    candidates: tuple[HeldCandidate, ...]
    support: int
    confidence: Confidence
    quotes: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """What becomes of the candidates of a session: each is in one cluster here, or dropped.

    Attributes:
        semantic: facts to keep, in the order in which they were said.
        procedural: rules to keep, likewise.
        dropped: why each of the others is not kept, by its id.
    """

    semantic: tuple[Promoted, ...] = ()
    procedural: tuple[Promoted, ...] = ()
    dropped: Mapping[str, str] = field(default_factory=dict)


def promote(
    held: Sequence[HeldCandidate],
    transcript: Sequence[str],
    *,
    arcs: Sequence[str],
    before: Sequence[HeldCandidate],
    is_private: bool,
) -> Promotion:
    """Return what is kept of the candidates that a session held; their order does not matter.

    Args:
        held: the candidates.
        transcript: what the person said in the session, turn by turn.
        arcs: summaries of earlier sessions, the newest first.
        before: the candidates that earlier sessions held.
        is_private: whether the person asked in the session that something be not kept.
    """
    every = sorted({each.candidate_id: each for each in held}.values(), key=_newest_first)
    if is_private:
        return Promotion(dropped={each.candidate_id: _PRIVATE for each in every})
    evidence = _Evidence(
        turns=[Words(text) for text in transcript],
        arcs=[Words(text) for text in arcs[:MAX_ARCS]],
        before=[_Said(each) for each in before],
    )
    semantic, procedural = [], []
    dropped: dict[str, str] = {}
    for cluster in _clusters([_Said(each) for each in every]):
        promoted = _promoted(cluster, evidence)
        if promoted is None:
            dropped |= {each.held.candidate_id: _ONCE for each in cluster}
        elif cluster[0].is_fact:
            semantic.append(promoted)
        else:
            procedural.append(promoted)
    # What was asked for is a rule, though it may read as a fact; what only shows is one where no fact says it.
    asked = [each for each in procedural if _is_asked(each)]
    facts = _without(semantic, asked, reason=_SAID_BY_RULE, dropped=dropped)
    shown = [each for each in procedural if not _is_asked(each)]
    rules = asked + _without(shown, facts, reason=_SAID_BY_FACT, dropped=dropped)
    return Promotion(
        semantic=tuple(sorted(facts, key=_as_said)), procedural=tuple(sorted(rules, key=_as_said)), dropped=dropped
    )


class _Said:
    """A candidate and the words that it is compared by."""

    def __init__(self, held: HeldCandidate) -> None:
        self.held = held
        self.quote = Words(held.candidate.evidence_quote)

    @property
    def is_fact(self) -> bool:
        return isinstance(self.held.candidate, SemanticCandidate)

    @cached_property
    def object(self) -> Words | None:
        candidate = self.held.candidate
        return Words(candidate.object) if isinstance(candidate, SemanticCandidate) else None

    @cached_property
    def key(self) -> tuple[str, ...]:
        """What two candidates have in common that say the same in the same words."""
        candidate = self.held.candidate
        if isinstance(candidate, ProceduralCandidate):
            return (plain(candidate.rule),)
        return (
            candidate.category,
            plain(candidate.subject),
            plain(candidate.predicate),
            plain(candidate.object),
        )

    @cached_property
    def rule(self) -> Words:
        candidate = self.held.candidate
        return self.quote if isinstance(candidate, SemanticCandidate) else Words(candidate.rule)

    def is_like(self, other: "_Said") -> bool:
        """Whether both say the same of one thing, or ask for the same."""
        if self.is_fact is not other.is_fact:
            return False
        if self.key == other.key:
            return True
        if self.object is None or other.object is None:
            return _is_same(self.rule, other.rule)
        return self.object.is_same_term(other.object) and _is_same(self.quote, other.quote)

    def stands_in(self, text: Words) -> bool:
        """Whether the text of a turn supports it."""
        names = self.object is not None and text.has_term(self.object)
        return names or self.quote.shared_with(text) >= _SUPPORTING_WORDS

    def score_in(self, arc: Words) -> int:
        """Return how much the summary of an earlier session speaks for it."""
        score = _ARC_TERM if self.object is not None and arc.has_term(self.object) else 0
        shared = self.quote.shared_with(arc)
        return score + sum(shared >= words for words in _ARC_WORDS)


@dataclass(frozen=True, slots=True)
class _Evidence:
    """What else was said, in this session and before it."""

    turns: Sequence[Words]
    arcs: Sequence[Words]
    before: Sequence[_Said]


def _promoted(cluster: Sequence[_Said], evidence: _Evidence) -> Promoted | None:
    turns = sum(any(each.stands_in(text) for each in cluster) for text in evidence.turns)
    support = max(len({each.held.turn_id for each in cluster}), turns)
    is_before = any(each.is_like(other) for each in cluster for other in evidence.before)
    score = max((each.score_in(arc) for each in cluster for arc in evidence.arcs), default=0)
    allowed = [each for each in cluster if _may_stay(each, support, turns, is_before=is_before, score=score)]
    if not allowed:
        return None
    first = allowed[0].held
    rest = [each.held for each in cluster if each.held is not first]
    if support >= _REPEATED:
        reason = f"it was said in {support} turns"
    elif is_before:
        reason = "it was said in an earlier session too"
    else:
        reason = "the summary of an earlier session speaks of it too"
    candidates = (first, *rest)
    return Promoted(
        candidates=candidates,
        support=support,
        confidence=_confidence(first, support),
        quotes=tuple(dict.fromkeys(each.candidate.evidence_quote for each in candidates))[:MAX_QUOTES],
        reason=reason,
    )


def _may_stay(each: _Said, support: int, turns: int, *, is_before: bool, score: int) -> bool:
    if support >= _REPEATED:
        return True
    if not each.is_fact:
        return False
    if each.held.decision.decision is WriteDecision.REQUIRE_REPETITION:
        return support >= 1 and is_before
    return turns >= 1 and (is_before or score >= _ARC_SCORE)


def _confidence(first: HeldCandidate, support: int) -> Confidence:
    if isinstance(first.candidate, SemanticCandidate):
        return first.decision.confidence
    return "high" if support >= _SURE else "medium"


def _clusters(every: Sequence[_Said]) -> list[list[_Said]]:
    """Group what is alike, also by way of others; the order within is that of ``every``."""
    group = list(range(len(every)))

    def root(at: int) -> int:
        while group[at] != at:
            group[at] = at = group[group[at]]
        return at

    for one, other in combinations(range(len(every)), 2):
        if root(one) != root(other) and every[one].is_like(every[other]):
            group[root(other)] = root(one)
    found: dict[int, list[_Said]] = {}
    for at, each in enumerate(every):
        found.setdefault(root(at), []).append(each)
    return list(found.values())


def _without(
    some: Iterable[Promoted], others: Sequence[Promoted], *, reason: str, dropped: dict[str, str]
) -> list[Promoted]:
    """Return what none of the others says too, and note the rest as dropped."""
    left = []
    for each in some:
        if any(_is_said_by(each, other) for other in others):
            dropped |= {candidate.candidate_id: reason for candidate in each.candidates}
        else:
            left.append(each)
    return left


def _is_said_by(one: Promoted, other: Promoted) -> bool:
    return any(_overlap(mine, its) for mine in one.quotes for its in other.quotes)


def _overlap(one: str, other: str) -> bool:
    first, second = Words(one), Words(other)
    if _is_same(first, second):
        return True
    is_lasting = cues.DURABLE.search(plain(one)) and cues.DURABLE.search(plain(other))
    return bool(is_lasting) and first.shared_with(second) >= _SUPPORTING_WORDS


def _is_same(one: Words, other: Words) -> bool:
    return one.jaccard(other) >= _SAME_SHARE or one.shared_with(other) >= _SAME_WORDS


def _is_asked(promoted: Promoted) -> bool:
    candidates = (each.candidate for each in promoted.candidates)
    return any(isinstance(each, ProceduralCandidate) and each.kind == "explicit" for each in candidates)


def _newest_first(held: HeldCandidate) -> tuple[float, str]:
    return -held.created_at.timestamp(), held.candidate_id


def _as_said(promoted: Promoted) -> tuple[float, str]:
    first = promoted.candidates[0]
    return first.created_at.timestamp(), first.candidate_id
