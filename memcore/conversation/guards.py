"""Placeholder of the hard local guards; another part brings them."""

from collections.abc import Iterable

from memcore.ledger.conversation.turns import Control
from memcore.models.conversation import Candidate, Decision, Fact, ProceduralCandidate, WriteDecision

_CUES = {
    "do not save": Control.NOT_THIS,
    "don't save": Control.NOT_THIS,
    "forget what i said": Control.FORGET,
    "go incognito": Control.INCOGNITO,
}


def memory_control(text: str) -> Control | None:
    """Return what a person asks about memory itself."""
    return next((control for cue, control in _CUES.items() if cue in text.lower()), None)


def before_policy(candidate: Candidate, *, user_text: str, control: Control | None) -> str | None:
    """Return the name of the guard that drops a candidate."""
    if control is not None:
        return "memory_control"
    quote = " ".join(candidate.evidence_quote.casefold().split())
    return None if quote in " ".join(user_text.casefold().split()) else "quote_not_in_turn"


def after_policy(candidate: Candidate, decision: Decision, *, user_text: str) -> Decision:
    """Return the decision as the guards leave it."""
    del user_text
    if decision.safety_conflict and isinstance(candidate, ProceduralCandidate):
        return decision.model_copy(update={"decision": WriteDecision.DROP, "guard": "safety_conflict"})
    return decision


def asked_to_forget(text: str, facts: Iterable[Fact]) -> tuple[str, ...]:
    """Return the ids of the facts whose object a sentence names."""
    return tuple(fact.fact_id for fact in facts if fact.object.lower() in text.lower())
