"""Turns, facts and rules of a person, as tests write them."""

from datetime import timedelta
from typing import Any

from memcore import ids
from memcore.jobs import TurnPayload
from memcore.ledger.conversation.memory import Commit
from memcore.ledger.conversation.turns import Control, Recorded, Turn
from memcore.ledger.ledger import Ledger
from memcore.models.conversation import (
    Arc,
    Decision,
    Fact,
    HeldCandidate,
    Layer,
    Owner,
    ProfileRule,
    SemanticCandidate,
    WriteDecision,
)
from support.ledger_records import COMPANY
from support.memories import DAWN

ADA = Owner(agent_id="guide", subject="user:ada")
IDLE = timedelta(minutes=20)
LEASE = timedelta(minutes=1)


def session_key(session_id: str = "s-1", owner: Owner = ADA, *, company: str = COMPANY) -> str:
    """Return the key of a session."""
    return ids.session_key(company=company, session_id=session_id, **owner.model_dump())


def turn_payload(turn_id: str, *, owner: Owner = ADA, company: str = COMPANY, **fields: Any) -> TurnPayload:
    """Return what the client sends for a turn."""
    said = {"session_id": "s-1", "user_text": "I like tea.", "assistant_text": "Noted.", "at": DAWN}
    return TurnPayload(company=company, turn_id=turn_id, **owner.model_dump(), **{**said, **fields})


def record_turn(
    ledger: Ledger, turn_id: str, *, control: Control | None = None, forgotten: tuple[str, ...] = (), **fields: Any
) -> Recorded:
    """Record a turn as its job does."""
    return ledger.turns.record(turn_payload(turn_id, **fields), idle=IDLE, control=control, forgotten=forgotten)


def claimed_turn(ledger: Ledger, turn_id: str, *, company: str = COMPANY) -> Turn:
    """Claim a turn, as a worker that asks the model does."""
    turn = ledger.turns.claim(company, turn_id, lease=LEASE)
    assert turn is not None
    return turn


def fact(fact_id: str, **fields: Any) -> Fact:
    """Return a fact about Ada."""
    own = {
        "fact_id": fact_id, "category": "preference", "subject": "User", "predicate": "LIKES", "object": "tea",
        "evidence_quote": "I like tea", "version": 1, "session_id": "s-1", "created_at": DAWN,
        "last_referenced_at": DAWN, "changed_at": DAWN,
    }  # fmt: skip
    return Fact.model_validate(own | fields)


def rule(rule_id: str, **fields: Any) -> ProfileRule:
    """Return a rule of how to answer Ada."""
    own = {
        "rule_id": rule_id, "rule": f"Answer in {rule_id} words.", "quotes": ["shorter, please"], "kind": "explicit",
        "version": 1, "session_id": "s-1", "created_at": DAWN, "last_referenced_at": DAWN, "changed_at": DAWN,
    }  # fmt: skip
    return ProfileRule.model_validate(own | fields)


def arc(session_id: str, **fields: Any) -> Arc:
    """Return the summary of a session with Ada."""
    own = {
        "summary": "Ada spoke of tea.", "turns": 3, "started_at": DAWN, "ended_at": DAWN, "version": 1,
        "session_id": session_id, "created_at": DAWN, "last_referenced_at": DAWN, "changed_at": DAWN,
    }  # fmt: skip
    return Arc.model_validate(own | fields)


def held(candidate_id: str, turn_id: str, **fields: Any) -> HeldCandidate:
    """Return a fact that waits for the end of its session."""
    said = {
        "category": "preference", "subject": "User", "predicate": "LIKES", "object": "tea",
        "evidence_quote": "I like tea",
    }  # fmt: skip
    decision = Decision(
        decision=WriteDecision.COMMIT_AT_SESSION_END, reason="it may pass", confidence="medium", policy_version="1"
    )
    return HeldCandidate(
        candidate_id=candidate_id,
        layer=Layer.SEMANTIC,
        candidate=SemanticCandidate.model_validate(said | fields),
        decision=decision,
        turn_id=turn_id,
        created_at=DAWN,
    )


def write(ledger: Ledger, commit: Commit, *, owner: Owner = ADA, company: str = COMPANY, max_rules: int = 20) -> int:
    """Write a commit on top of what is there."""
    version = ledger.conversation.state(company, owner).version
    return ledger.conversation.write(company, owner, commit, expected=version, max_rules=max_rules)
