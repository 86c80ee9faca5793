"""Conversation memory as an engine reads it: what to show before a reply, the toggle, and how much is kept."""

import asyncio
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypeAlias, TypedDict

from pydantic import TypeAdapter

from memcore.client.client import MemoryClient
from memcore.clock import utc_now
from memcore.deadline.limits import deadline, limited_parts, unlimited
from memcore.errors import MemoryConfigError, MemoryConnectionError, MemoryInputError
from memcore.extras import naming_extras
from memcore.models.base import naming_fields
from memcore.models.conversation import Fact, LayerCounts, MemoryMode, Owner, ProfileRule, resolve_owner_id
from memcore.models.memory import Key, MemoryQuery, require_text
from memcore.models.origin import Authority, showing_least

if TYPE_CHECKING:
    from collections.abc import Callable

    from memcore.backends.protocol import MemoryBackend
    from memcore.config.policy import Policy
    from memcore.config.settings import Settings
    from memcore.conversation.entries import TurnContext
    from memcore.conversation.loading import TurnLoader
    from memcore.ledger.ledger import Ledger
    from memcore.memory.reader import Reader

#: Opens the ledger of the stack.
LedgerFactory: TypeAlias = "Callable[[], Ledger]"

#: Tokens of what is remembered of a person, where the engine names no other budget.
TOKEN_BUDGET = 1_000

#: The other name of incognito, on the reference's command line.
INCOGNITO_ALIAS = "guest"

_KEY: TypeAdapter[str] = TypeAdapter(Key)


def checked_owner(agent_id: str, user_id: str | None, session_id: str | None) -> Owner:
    """Return whose memory it is: the user's, or else the session's. Raises MemoryInputError."""
    subject = resolve_owner_id(user_id=user_id, session_id=session_id)
    with naming_fields(name="user_id" if user_id is not None else "session_id"):
        subject = _KEY.validate_python(subject)
    if session_id is not None:
        require_text(session_id, field="session_id")
    with naming_fields():
        return Owner(agent_id=agent_id, subject=subject)


def checked_least(given: str | None) -> Authority | None:
    """Return the least authority of what is shown. Raises MemoryInputError."""
    with naming_fields():
        return MemoryQuery.model_validate({"min_authority": given}).min_authority


class LoadFields(TypedDict, total=False):
    """How memory is loaded for a turn.

    Attributes:
        user_id: the person; the session stands for one where nobody is named.
        session_id: the session.
        token_budget: most tokens of what is remembered; 1,000 when left out.
        is_first_turn: whether the session begins; found out when left out.
        min_authority: least authority of what is shown, as in search.
    """

    user_id: str | None
    session_id: str | None
    token_budget: int
    is_first_turn: bool | None
    min_authority: str | None


class AddEvent(TypedDict):
    """What became of one fact or rule.

    Attributes:
        id: the fact's or the rule's.
        memory: what it says.
        event: ``ADD``, ``UPDATE`` or ``NOOP``.
        previous_memory: what it replaced, of an ``UPDATE``.
    """

    id: str
    memory: str
    event: Literal["ADD", "UPDATE", "NOOP"]
    previous_memory: NotRequired[str]


class AddResult(TypedDict):
    """What became of messages, in the form that mem0's ``add`` returns."""

    results: list[AddEvent]


#: Pause between two looks at turns that wait for a model, in seconds.
_POLL_INTERVAL_SECONDS = 0.05

#: The session of messages that name none: a person has one of them a day.
_DAY = "day-%Y-%m-%d"


class ConversationReader:
    """Reads conversation memory from the ledger, which is opened with the first call. Thread-safe.

    Args:
        open_ledger: opens the ledger; called again after ``close``.
        company: whose ledger it is.
        policy: says how much is shown.
    """

    def __init__(self, open_ledger: LedgerFactory, *, company: str, policy: "Policy") -> None:
        self._open_ledger = open_ledger
        self._company = company
        self._policy = policy
        self._opened: tuple[Ledger, TurnLoader] | None = None
        self._opening = threading.Lock()

    @classmethod
    def from_settings(cls, settings: "Settings", policy: "Policy") -> "ConversationReader":
        """Return the reader of the stack that the settings describe."""

        def open_ledger() -> "Ledger":
            from memcore.ledger.ledger import Ledger  # noqa: PLC0415  # with the first call: it comes with an extra

            return Ledger.open(settings.ledger_urls)

        return cls(open_ledger, company=settings.company, policy=policy)

    async def load_turn(
        self,
        reader: "Reader",
        agent_id: str,
        text: str,
        *,
        user_id: str | None = None,
        session_id: str | None = None,
        token_budget: int = TOKEN_BUDGET,
        is_first_turn: bool | None = None,
        min_authority: str | None = None,
    ) -> "TurnContext":
        """Return what is remembered of a person that a turn is about; the reader's embedder makes the text's vector."""

        async def open_backend() -> "MemoryBackend":
            # The first call loads libraries and a model, which takes seconds.
            with unlimited():
                return (await reader.open()).backend

        owner = checked_owner(agent_id, user_id, session_id)
        least = checked_least(min_authority)
        _, loader = await asyncio.to_thread(self._open)
        async with deadline(self._policy.memory.retrieval.deadline_seconds):
            with showing_least(least):
                return await loader.load_turn(
                    owner,
                    text,
                    session_id=session_id,
                    token_budget=token_budget,
                    is_first_turn=is_first_turn,
                    open_backend=open_backend,
                )

    def set_recall(self, owner: Owner, *, is_on: bool) -> None:
        """Turn on or off that a person's memory is shown."""
        ledger, _ = self._open()
        ledger.conversation.set_recall(self._company, owner, is_on=is_on)

    def status(self, owner: Owner) -> LayerCounts:
        """Return how much of each layer is kept."""
        ledger, _ = self._open()
        with limited_parts(self._policy.memory.retrieval.deadline_seconds):
            if ledger.hidden.of(self._company).hides(owner.agent_id, owner.subject):
                return LayerCounts()
            return ledger.conversation.counts(self._company, owner)

    def add(
        self,
        client: MemoryClient,
        messages: str | Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        owner: Owner,
        user_id: str | None,
        session_id: str | None,
        timeout_seconds: float,
    ) -> AddResult:
        """Send the turns of messages, wait until a model was asked about each, and return what became of them."""
        with naming_extras():
            from memcore.conversation.messages import turns_of  # noqa: PLC0415  # its libraries are an extra's

        now, sent = utc_now(), list[str]()
        for place, turn in enumerate(turns_of(messages)):
            receipt = client.extract_turn(
                owner.agent_id,
                session_id=session_id or now.strftime(_DAY),
                user_id=user_id,
                user_text=turn.user_text,
                assistant_text=turn.assistant_text,
                at=now + timedelta(microseconds=place),
            )
            if receipt is None:
                raise MemoryConnectionError("a turn could not be sent: add the messages again")
            sent.append(receipt.turn_id)
        ledger, _ = self._open()
        deadline = time.monotonic() + timeout_seconds
        results: list[AddEvent] = []
        for turn_id in sent:
            while (found := ledger.turns.get(self._company, turn_id)) is None or found.outcome is None:
                if time.monotonic() >= deadline:
                    raise TimeoutError("no model was asked about the messages in time; they are kept")
                time.sleep(_POLL_INTERVAL_SECONDS)
            results += self._events(ledger, found.outcome)
        return {"results": results}

    def _events(self, ledger: "Ledger", outcome: Mapping[str, Any]) -> "Iterator[AddEvent]":
        """Yield what became of a turn's facts and rules."""
        replaced = {new: old for old, new in outcome.get("replaced", {}).items()}
        for key in outcome.get("written", ()):
            event = AddEvent(id=key, memory=self._said(ledger, key), event="ADD")
            if key in replaced:
                event["event"], event["previous_memory"] = "UPDATE", self._said(ledger, replaced[key])
            yield event
        for key in outcome.get("bumped", ()):
            yield AddEvent(id=key, memory=self._said(ledger, key), event="NOOP")

    def _said(self, ledger: "Ledger", key: str) -> str:
        """Return what a fact or a rule says, in one sentence."""
        for _, kept in ledger.conversation.find(self._company, key):
            if isinstance(kept, Fact):
                return f"{kept.subject} {kept.predicate.replace('_', ' ').lower()} {kept.object}"
            if isinstance(kept, ProfileRule):
                return kept.rule
        return ""

    def close(self) -> None:
        """Close the ledger; a call after it opens it again."""
        with self._opening:
            opened, self._opened = self._opened, None
        if opened is not None:
            opened[0].close()

    def _open(self) -> "tuple[Ledger, TurnLoader]":
        with self._opening:
            if self._opened is None:
                with naming_extras():
                    from memcore.conversation.loading import TurnLoader  # noqa: PLC0415  # its libraries are an extra's

                    ledger = self._open_ledger()
                config = self._policy.memory.conversation
                self._opened = (
                    ledger,
                    TurnLoader(
                        ledger,
                        company=self._company,
                        config=config,
                        authorities=self._policy.memory.origins.authority,
                    ),
                )
            return self._opened


def required(reader: ConversationReader | None) -> ConversationReader:
    """Return the reader. Raises MemoryConfigError where the memory was made without one."""
    if reader is None:
        raise MemoryConfigError("conversation: this memory was made without a ledger: make it with from_settings")
    return reader


def checked_mode(mode: MemoryMode | str) -> MemoryMode:
    """Return a mode by its name, or by the other name of incognito. Raises MemoryInputError."""
    if mode == INCOGNITO_ALIAS:
        return MemoryMode.INCOGNITO
    try:
        return MemoryMode(mode)
    except ValueError:
        raise MemoryInputError("mode", f"must be one of {', '.join(MemoryMode)}, {INCOGNITO_ALIAS}") from None
