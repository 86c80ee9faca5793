"""Placeholder of the promotion of held candidates; another part brings it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from memcore.models.conversation import Confidence, HeldCandidate, Lane, SemanticCandidate


@dataclass(frozen=True, kw_only=True)
class Promoted:
    """A cluster of candidates that is kept, and why."""

    candidates: tuple[HeldCandidate, ...]
    support: int
    confidence: Confidence
    quotes: tuple[str, ...]
    reason: str


@dataclass(frozen=True, kw_only=True)
class Promotion:
    """What becomes of held candidates."""

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
    """Promote what was said twice."""
    del arcs, before
    if is_private:
        return Promotion(dropped={each.candidate_id: "a memory request in the session" for each in held})
    clusters: dict[tuple[Lane, str], list[HeldCandidate]] = {}
    for each in held:
        said = each.candidate.object if isinstance(each.candidate, SemanticCandidate) else each.candidate.rule
        clusters.setdefault((each.lane, said.lower()), []).append(each)
    found: dict[Lane, list[Promoted]] = {Lane.SEMANTIC: [], Lane.PROCEDURAL: []}
    dropped: dict[str, str] = {}
    for (lane, said), those in clusters.items():
        support = max(len({each.turn_id for each in those}), sum(said in text.lower() for text in transcript))
        if support <= 1:
            dropped |= {each.candidate_id: "was said once" for each in those}
            continue
        quotes = tuple(dict.fromkeys(each.candidate.evidence_quote for each in those))[:3]
        found[lane].append(
            Promoted(
                candidates=tuple(those), support=support, confidence="medium", quotes=quotes, reason="was said again"
            )
        )
    return Promotion(semantic=tuple(found[Lane.SEMANTIC]), procedural=tuple(found[Lane.PROCEDURAL]), dropped=dropped)
