"""Conversations of one company: turns are recorded, asked about and ended as workers do it."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, TypeVar

from memcore import ids
from memcore.config.conversation import ConversationConfig
from memcore.conversation.ending import EndingService
from memcore.conversation.service import ConversationService
from memcore.conversation.turns import ExtractionService, TurnRecorder
from memcore.jobs import Outcome, TurnPayload
from memcore.ledger.conversation.turns import Session, Turn
from memcore.ledger.ledger import Ledger
from memcore.llm.protocol import Model
from memcore.models.conversation import Arc, Fact, FactState, Owner, ProfileRule, SemanticCandidate
from memcore.models.memory import ConsolidationInterval, MemoryEntry, MemoryLevel
from memcore.records import Vectors
from support.ledger_records import COMPANY, StoppedClock
from support.table_model import TableModel
from support.vector_backend import VectorInMemory

Service = TypeVar("Service", bound=ConversationService)

SUBJECT = "user:mia"
OWNER = Owner(agent_id="ada", subject=SUBJECT)


class Embedding(VectorInMemory):
    """A backend whose vectors have a space, and whose embedder fails when a test says so."""

    error: Exception | None = None
    asked: int = 0

    @property
    def vector_space(self) -> str:
        return "hashing"

    async def document_vectors(self, entries: Sequence[MemoryEntry]) -> list[Vectors]:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return await super().document_vectors(entries)


class ConversationFixture:
    """Ledger, backend and model of one company, and its clock."""

    def __init__(self, ledger: Ledger, clock: StoppedClock, model: Model | None = None) -> None:
        self.ledger = ledger
        self.clock = clock
        self.table = TableModel()
        self.model: Model | None = model or self.table
        self.backend: Any = Embedding(company=COMPANY, clock=clock)
        self.config = ConversationConfig()
        self.level = MemoryLevel.PERSISTENT
        self._said = 0

    def payload(self, text: str, *, reply: str = "", session_id: str = "s-1", **more: Any) -> TurnPayload:
        self._said += 1
        given = {"agent_id": "ada", "subject": SUBJECT, "turn_id": f"turn-{self._said:03}", "at": self.clock(), **more}
        return TurnPayload(company=COMPANY, session_id=session_id, user_text=text, assistant_text=reply, **given)

    def record(self, payload: TurnPayload) -> Outcome:
        recorder = TurnRecorder(self.ledger, self.config, level=self.level, interval=ConsolidationInterval.DAILY)
        return recorder.record(payload)

    def said(self, text: str, **more: Any) -> str:
        """Record a turn, and return its id; a second passes."""
        payload = self.payload(text, **more)
        self.record(payload)
        self.clock.advance(timedelta(seconds=1))
        return payload.turn_id

    def extraction(self, **changed: Any) -> ExtractionService:
        return self._service(ExtractionService, **changed)

    def ending(self, **changed: Any) -> EndingService:
        return self._service(EndingService, **changed)

    async def drawn(self, text: str, **more: Any) -> Turn:
        """Record a turn, ask about it, and return its row."""
        turn_id = self.said(text, **more)
        await self.extraction().run(turn_id)
        return self.turn(turn_id)

    def turn(self, turn_id: str) -> Turn:
        found = self.ledger.turns.get(COMPANY, turn_id)
        assert found is not None
        return found

    def key(self, session_id: str = "s-1", subject: str = SUBJECT) -> str:
        return ids.session_key(company=COMPANY, agent_id="ada", subject=subject, session_id=session_id)

    def session(self, session_id: str = "s-1") -> Session:
        found = self.ledger.sessions.get(COMPANY, self.key(session_id))
        assert found is not None
        return found

    def close(self, session_id: str = "s-1") -> None:
        self.ledger.sessions.close_now(COMPANY, self.key(session_id), at=self.clock())

    async def end(self, session_id: str = "s-1") -> Outcome:
        """Close a session and end it."""
        self.close(session_id)
        return await self.ending().run(self.key(session_id))

    def facts(self, *states: FactState, owner: Owner = OWNER) -> dict[str, Fact]:
        """Return the facts by their objects."""
        found = self.ledger.conversation.facts(COMPANY, owner, states=states or (FactState.ACTIVE,))
        return {fact.object: fact for fact in found}

    def rules(self, *states: FactState) -> dict[str, ProfileRule]:
        found = self.ledger.conversation.rules(COMPANY, OWNER, states=states or (FactState.ACTIVE,))
        return {rule.rule: rule for rule in found}

    def held(self, session_id: str = "s-1") -> list[str]:
        """Return what a session holds, as objects of facts and as rules."""
        held = [each.candidate for each in self.ledger.sessions.held(COMPANY, self.key(session_id))]
        return [each.object if isinstance(each, SemanticCandidate) else each.rule for each in held]

    def summaries(self) -> list[str]:
        found = self.ledger.conversation.arcs(COMPANY, OWNER)
        return [each.entry.summary for each in found if isinstance(each.entry, Arc)]

    def _service(self, kind: type[Service], **changed: Any) -> Service:
        given = {
            "backend": self.backend,
            "company": COMPANY,
            "level": self.level,
            "model": self.model,
            "clock": self.clock,
            **changed,
        }
        return kind(given.pop("ledger", self.ledger), given.pop("config", self.config), **given)
