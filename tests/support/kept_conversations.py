"""What is kept of conversations, without a model: facts, rules and arcs, written as a step would write them."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from memcore import ids
from memcore.backends.inmemory import InMemoryBackend
from memcore.errors import MemoryEmbeddingError
from memcore.jobs import TurnPayload
from memcore.ledger.conversation.memory import Commit, Embedded
from memcore.ledger.ledger import Ledger
from memcore.models.conversation import (
    Arc,
    Decision,
    Fact,
    FactCategory,
    HeldCandidate,
    Layer,
    Owner,
    ProfileRule,
    SemanticCandidate,
    WriteDecision,
)
from support.hashing_embedder import HashingEmbedder
from support.ledger_records import COMPANY
from support.vector_backend import VectorInMemory

#: The space of the backends here.
SPACE = "test-space"


def owner(agent_id: str = "coach", subject: str = "user:ada") -> Owner:
    return Owner(agent_id=agent_id, subject=subject)


def fact(
    fact_id: str,
    quote: str,
    *,
    at: datetime,
    object: str = "it",  # noqa: A002  # the field's name
    predicate: str = "SAYS",
    category: FactCategory = FactCategory.WORK,
    session_id: str = "s",
) -> Fact:
    return Fact(
        fact_id=fact_id,
        category=category,
        subject="User",
        predicate=predicate,
        object=object,
        evidence_quote=quote,
        version=1,
        session_id=session_id,
        created_at=at,
        last_referenced_at=at,
        changed_at=at,
    )


def rule(rule_id: str, text: str, *, at: datetime) -> ProfileRule:
    return ProfileRule(
        rule_id=rule_id,
        rule=text,
        quotes=(text,),
        kind="explicit",
        version=1,
        session_id="s",
        created_at=at,
        last_referenced_at=at,
        changed_at=at,
    )


def arc(session_id: str, summary: str, *, at: datetime) -> Arc:
    return Arc(
        summary=summary,
        turns=3,
        started_at=at - timedelta(minutes=10),
        ended_at=at,
        version=1,
        session_id=session_id,
        created_at=at,
        last_referenced_at=at,
        changed_at=at,
    )


def keep(
    ledger: Ledger,
    whose: Owner,
    *kept: Fact | ProfileRule | Arc,
    vectors: Mapping[str, Embedded] | None = None,
    superseded: Mapping[str, str] | None = None,
    company: str = COMPANY,
) -> int:
    """Write all of it, and return the owner's version."""
    arcs = [each for each in kept if isinstance(each, Arc)]
    commits = [Commit(arc=each, vectors=vectors or {}) for each in arcs]
    facts = tuple(each for each in kept if isinstance(each, Fact))
    rules = tuple(each for each in kept if isinstance(each, ProfileRule))
    commits.append(Commit(facts=facts, rules=rules, vectors=vectors or {}, superseded=superseded or {}))
    version = ledger.conversation.state(company, whose).version
    for commit in commits:
        version = ledger.conversation.write(company, whose, commit, expected=version, max_rules=20)
    return version


def begin(
    ledger: Ledger, whose: Owner, session_id: str, *, at: datetime, text: str = "hello", company: str = COMPANY
) -> str:
    """Record a turn of a session, and return the session's key."""
    turn_id = ids.turn_id(
        company=company, agent_id=whose.agent_id, subject=whose.subject, session_id=session_id, turn=text
    )
    payload = TurnPayload(
        company=company,
        agent_id=whose.agent_id,
        subject=whose.subject,
        session_id=session_id,
        turn_id=turn_id,
        user_text=text,
        at=at,
    )
    ledger.turns.record(payload, idle=timedelta(minutes=20))
    return ids.session_key(company=company, session_id=session_id, **whose.model_dump())


def hold(
    ledger: Ledger, whose: Owner, session_id: str, quote: str, *, at: datetime, company: str = COMPANY
) -> HeldCandidate:
    """Hold a fact back until the end of a session, as a turn of it does."""
    begin(ledger, whose, session_id, at=at, text=quote, company=company)
    key = ids.session_key(company=company, session_id=session_id, **whose.model_dump())
    found = next(each for each in ledger.turns.of_session(company, key) if each.user_text == quote)
    turn = ledger.turns.claim(company, found.turn_id, lease=timedelta(minutes=5))
    assert turn is not None
    assert turn.token is not None
    held = HeldCandidate(
        candidate_id=ids.kept_id(kind="candidate", cause=turn.turn_id, place=0),
        layer=Layer.SEMANTIC,
        candidate=SemanticCandidate(
            category=FactCategory.MOOD, subject="User", predicate="FEELS", object="low", evidence_quote=quote
        ),
        decision=Decision(
            decision=WriteDecision.REQUIRE_REPETITION, reason="said once", confidence="low", policy_version="test"
        ),
        turn_id=turn.turn_id,
        created_at=at,
    )
    version = ledger.conversation.state(company, whose).version
    ledger.turns.settle(turn, company, turn.token, Commit(), [held], {}, expected=version, max_rules=20)
    return held


class EmbeddingBackend(VectorInMemory):
    """Makes vectors in a space, counts the questions, and fails when it is asked to."""

    def __init__(self, company: str = COMPANY) -> None:
        super().__init__(company=company)
        self.questions: list[str] = []
        self.fails_with: Exception | None = None
        self.table: dict[str, Sequence[float]] = {}

    @property
    def vector_space(self) -> str | None:
        return SPACE

    async def query_vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.questions += texts
        if self.fails_with is not None:
            raise self.fails_with
        if self.table:
            return np.array([self.table[text] for text in texts], dtype=np.float32)
        return await super().query_vectors(texts)


def embedded(*numbers: float, space: str = SPACE) -> Embedded:
    return Embedded(space, np.array(numbers, dtype=np.float32))


def hashed(text: str) -> Embedded:
    """Return the vector that EmbeddingBackend's embedder makes of a text."""
    return Embedded(SPACE, HashingEmbedder().embed_query(text))


def without_vectors() -> InMemoryBackend:
    return InMemoryBackend(company=COMPANY)


def embedder_is_away() -> MemoryEmbeddingError:
    return MemoryEmbeddingError("the embedder does not answer")
