"""What the demo does with conversations: five sessions of one person, and what an agent is shown in the sixth."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from examples.demo.fleet_night import LIMIT_SECONDS, FleetDemo
from memcore import ids
from memcore.config.loader import effective_policy
from memcore.config.settings import Settings
from memcore.conversation.entries import TurnContext
from memcore.errors import MemoryStoreError
from memcore.ledger.conversation.turns import Session, Turn
from memcore.memory.memory import Memory
from memcore.models.conversation import LayerCounts, Owner, resolve_owner_id

#: Who talks, and to which agent.
PERSON, GUIDE = "mira", "guide"

#: What the person asks when the agent knows her.
ABOUT_IDA = "What does my sister Ida like?"

#: Days between the first session and the sixth.
_WEEKS = timedelta(weeks=3)

#: Pause between two looks, in seconds.
_POLL_INTERVAL_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionReport:
    """What came of one session.

    Attributes:
        session: its row, ended.
        turns: its turns with their outcomes.
        held: how many candidates it held back.
        became: by what became of those, how many.
    """

    session: Session
    turns: tuple[Turn, ...]
    held: int
    became: Mapping[str, int] = field(default_factory=dict)


@cache
def talk() -> tuple[Mapping[str, Any], ...]:
    """Return the five sessions, in order."""
    text = (Path(__file__).with_name("talk") / "en.yaml").read_text(encoding="utf-8")
    return tuple(yaml.safe_load(text)["sessions"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """A running stack, and the person who talks to an agent of it."""

    demo: FleetDemo
    memory: Memory
    now: datetime

    @property
    def owner(self) -> Owner:
        """Whose memory it is."""
        return Owner(agent_id=GUIDE, subject=resolve_owner_id(user_id=PERSON))

    def sessions(self) -> Iterator[SessionReport]:
        """Let the person talk through the five sessions, each to its end."""
        for number, session in enumerate(talk(), start=1):
            yield self._spoken(f"talk-{number}", session)

    def _spoken(self, session_id: str, session: Mapping[str, Any]) -> SessionReport:
        begun, turn_ids = self.now - _WEEKS + timedelta(days=session["day"]), list[str]()
        for place, turn in enumerate(session["turns"]):
            receipt = self.memory.extract_turn(
                GUIDE,
                session_id=session_id,
                user_id=PERSON,
                user_text=turn["user"],
                assistant_text=turn["assistant"],
                at=begun + timedelta(minutes=place),
            )
            if receipt is None:
                raise MemoryStoreError("a turn could not be sent")
            turn_ids.append(receipt.turn_id)
            self._await(lambda turn_id=receipt.turn_id: self._is_settled(turn_id), what="a turn")
        ledger, company = self.demo.ledger, self.demo.company
        key = ids.session_key(company=company, session_id=session_id, **self.owner.model_dump())
        held = len(ledger.sessions.held(company, key))
        self.memory.end_conversation(GUIDE, session_id=session_id, user_id=PERSON, at=begun + timedelta(minutes=9))
        self._await(lambda: self._has_ended(key), what="a session")
        ended = ledger.sessions.get(company, key)
        if ended is None:
            raise MemoryStoreError("a session is gone")
        became: dict[str, int] = {}
        for state, _ in ledger.sessions.ended_candidates(company, key).values():
            became[state] = became.get(state, 0) + 1
        return SessionReport(session=ended, turns=ledger.turns.of_session(company, key), held=held, became=became)

    def load(self, text: str) -> TurnContext:
        """Return what the agent is shown before it replies in a sixth session."""
        return self.memory.load_turn(GUIDE, text, user_id=PERSON, session_id="talk-6")

    def counts(self) -> LayerCounts:
        """Return how much of each layer is kept of the person."""
        return self.demo.ledger.conversation.counts(self.demo.company, self.owner)

    def _is_settled(self, turn_id: str) -> bool:
        turn = self.demo.ledger.turns.get(self.demo.company, turn_id)
        return turn is not None and turn.outcome is not None

    def _has_ended(self, key: str) -> bool:
        session = self.demo.ledger.sessions.get(self.demo.company, key)
        return session is not None and session.outcome is not None and session.ended_at is not None

    def _await(self, is_true: Any, *, what: str) -> None:
        deadline = time.monotonic() + LIMIT_SECONDS
        while not is_true():
            if time.monotonic() > deadline:
                raise MemoryStoreError(f"{what} of the conversation did not end")
            time.sleep(_POLL_INTERVAL_SECONDS)


def talk_of(demo: FleetDemo, settings: Settings, now: datetime) -> Talk:
    """Return the conversation of the demo over a running stack."""
    memory = Memory.from_settings(settings, effective_policy(settings.policy_path))
    return Talk(demo=demo, memory=memory, now=now)
