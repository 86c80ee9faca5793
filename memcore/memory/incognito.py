"""Conversation memory of one process, which no disk and no broker ever holds."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, Self, Unpack

from memcore.client.async_client import awaited
from memcore.client.envelopes import (
    CrisisFields,
    FeedbackFields,
    TurnFields,
    build_close_payload,
    build_record,
    build_turn_payload,
)
from memcore.client.results import TurnReceipt
from memcore.clock import Clock, utc_now
from memcore.conversation.ending import EndingService
from memcore.conversation.entries import TurnContext
from memcore.conversation.loading import TurnLoader
from memcore.conversation.turns import ExtractionService, TurnRecorder
from memcore.errors import MemoryError  # noqa: A004  # the reference fixes the name
from memcore.event_loop import LoopThread
from memcore.ids import session_key
from memcore.jobs import EndSessionPayload, ExtractPayload
from memcore.ledger.conversation.in_memory import open_in_memory
from memcore.ledger.ledger import Ledger
from memcore.llm.accounting import create_model
from memcore.llm.protocol import Model
from memcore.memory.conversation import TOKEN_BUDGET, checked_least, checked_owner
from memcore.models.conversation import LayerCounts
from memcore.models.origin import showing_least

if TYPE_CHECKING:
    from memcore.config.policy import Policy
    from memcore.config.settings import Settings


class ClosableModel(Model, Protocol):
    """A model with connections of its own."""

    async def close(self) -> None:
        """Close the connections."""
        ...


#: Makes the model that is asked, with the ledger that keeps its account; None where none is connected.
ModelFactory = Callable[[Ledger], ClosableModel | None]

#: Turns and ends that one call carries out beside its own.
_AT_ONCE = 100


class IncognitoMemory:
    """What people say in this process, kept in its memory alone: it is gone with ``close``, or with the process.

    It has the calls of Memory for conversations. No worker takes part: ``extract_turn`` asks the model itself, and
    returns when that has answered. A turn that it could not be asked about waits, and a later call tries again. Facts
    are found by their words; there are no vectors. Records of crises and feedback are as short-lived as the rest.
    Thread-safe; use it in a ``with`` block, or close it.

    Args:
        policy: the policy of the company.
        company: its name.
        open_model: makes the model that is asked.
        clock: tells the time.
    """

    def __init__(
        self,
        policy: "Policy",
        *,
        company: str,
        open_model: ModelFactory = lambda _ledger: None,
        clock: Clock = utc_now,
    ) -> None:
        self._ledger = open_in_memory(clock=clock)
        memory = policy.memory
        self._company, self._clock = company, clock
        self._loop = LoopThread("memtend-incognito")
        self._model = open_model(self._ledger)
        self._recorder = TurnRecorder(
            self._ledger, memory.conversation, level=memory.level, interval=memory.consolidation.interval
        )
        self._extraction, self._ending = (
            service(
                self._ledger,
                memory.conversation,
                backend=None,
                company=company,
                level=memory.level,
                model=self._model,
                clock=clock,
                authorities=memory.origins.authority,
            )
            for service in (ExtractionService, EndingService)
        )
        self._loader = TurnLoader(
            self._ledger,
            company=company,
            config=memory.conversation,
            clock=clock,
            authorities=memory.origins.authority,
        )

    @classmethod
    def from_settings(cls, settings: "Settings", policy: "Policy") -> Self:
        """Return the memory of the stack that the settings describe, with the model that they name."""
        return cls(policy, company=settings.company, open_model=lambda ledger: create_model(settings, policy, ledger))

    def extract_turn(self, agent_id: str, **turn: Unpack[TurnFields]) -> TurnReceipt:
        """Draw from a turn what is worth keeping, as Memory.extract_turn does, here and now.

        Raises MemoryInputError when a field breaks a limit; nothing was kept.
        """
        payload = build_turn_payload(agent_id, company=self._company, now=self._clock(), **turn)
        self._recorder.record(payload)
        if self._model is not None:
            self._loop.run(self._extraction.run(payload.turn_id))
        self._tend()
        return TurnReceipt(job_id=payload.turn_id, turn_id=payload.turn_id)

    def end_conversation(
        self, agent_id: str, *, session_id: str, user_id: str | None = None, at: datetime | None = None
    ) -> None:
        """End a session: what it held back is decided, and it gets its summary. Raises MemoryInputError."""
        close = build_close_payload(
            agent_id, company=self._company, session_id=session_id, user_id=user_id, at=at or self._clock()
        )
        key = session_key(company=self._company, agent_id=agent_id, subject=close.subject, session_id=close.session_id)
        if self._ledger.sessions.close_now(self._company, key, at=close.at) is not None and self._model is not None:
            self._loop.run(self._ending.run(key))
        self._tend()

    def load_turn(
        self,
        agent_id: str,
        text: str,
        *,
        user_id: str | None = None,
        session_id: str | None = None,
        token_budget: int = TOKEN_BUDGET,
        is_first_turn: bool | None = None,
        min_authority: str | None = None,
    ) -> TurnContext:
        """Return what is remembered of the person, as Memory.load_turn does; words alone are compared."""
        owner = checked_owner(agent_id, user_id, session_id)
        least = checked_least(min_authority)
        self._tend()
        with showing_least(least):
            return self._loop.run(
                self._loader.load_turn(
                    owner,
                    text,
                    session_id=session_id,
                    token_budget=token_budget,
                    is_first_turn=is_first_turn,
                    open_backend=None,
                )
            )

    def set_recall(
        self, agent_id: str, is_on: bool, *, user_id: str | None = None, session_id: str | None = None
    ) -> None:
        """Turn on or off that an agent is shown what is remembered of a person."""
        owner = checked_owner(agent_id, user_id, session_id)
        self._ledger.conversation.set_recall(self._company, owner, is_on=is_on)

    def conversation_status(
        self, agent_id: str, *, user_id: str | None = None, session_id: str | None = None
    ) -> LayerCounts:
        """Return how much of each layer there is of a person."""
        return self._ledger.conversation.counts(self._company, checked_owner(agent_id, user_id, session_id))

    def record_crisis(self, agent_id: str, **fields: Unpack[CrisisFields]) -> None:
        """Keep a record of a crisis for as long as this memory lasts."""
        payload = build_record("crisis", agent_id, company=self._company, now=self._clock(), **fields)
        if payload.crisis is not None:
            self._ledger.crises.record(self._company, payload.crisis)

    def record_feedback(self, agent_id: str, **fields: Unpack[FeedbackFields]) -> None:
        """Keep what somebody thought of a session for as long as this memory lasts."""
        payload = build_record("feedback", agent_id, company=self._company, now=self._clock(), **fields)
        if payload.feedback is not None:
            self._ledger.feedback.record(self._company, payload.feedback)

    def close(self) -> None:
        """Forget everything."""
        with suppress(MemoryError):
            if self._model is not None:
                self._loop.run(self._model.close())
        self._loop.close()
        self._ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _tend(self) -> None:
        """Do what is due by now: ends of sessions in which nobody speaks any more, and turns that waited."""
        if self._model is None:
            return
        runs = {ExtractPayload.task: self._extraction.run, EndSessionPayload.task: self._ending.run}
        for item in self._ledger.work.take_due(limit=_AT_ONCE):
            if item.kind in runs:
                self._loop.run(runs[item.kind](item.key))


class AsyncIncognitoMemory:
    """What people say in this process, for engines that run an event loop; every call does what IncognitoMemory's does.

    Args:
        blocking: the memory whose calls run in threads; closed with this object.
    """

    def __init__(self, blocking: IncognitoMemory) -> None:
        self.blocking = blocking

    extract_turn = awaited(IncognitoMemory.extract_turn)
    end_conversation = awaited(IncognitoMemory.end_conversation)
    load_turn = awaited(IncognitoMemory.load_turn)
    set_recall = awaited(IncognitoMemory.set_recall)
    conversation_status = awaited(IncognitoMemory.conversation_status)
    record_crisis = awaited(IncognitoMemory.record_crisis)
    record_feedback = awaited(IncognitoMemory.record_feedback)
    close = awaited(IncognitoMemory.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def _run(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return await asyncio.to_thread(call, *args, **kwargs)
