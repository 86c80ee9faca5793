"""Conversation memory as an engine reads it: what to show before a reply, the toggle, and how much is kept."""

import asyncio
import threading
from typing import TYPE_CHECKING, TypeAlias

from pydantic import TypeAdapter

from memcore.errors import MemoryConfigError
from memcore.extras import naming_extras
from memcore.models.base import naming_fields
from memcore.models.conversation import LayerCounts, Owner, resolve_owner_id
from memcore.models.memory import Key

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

_KEY: TypeAdapter[str] = TypeAdapter(Key)


def checked_owner(agent_id: str, user_id: str | None, session_id: str | None) -> Owner:
    """Return whose memory it is: the user's, or else the session's. Raises MemoryInputError."""
    subject = resolve_owner_id(user_id=user_id, session_id=session_id)
    with naming_fields(name="user_id" if user_id is not None else "session_id"):
        subject = _KEY.validate_python(subject)
    with naming_fields():
        return Owner(agent_id=agent_id, subject=subject)


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
        owner: Owner,
        text: str,
        *,
        session_id: str | None,
        token_budget: int,
        is_first_turn: bool | None,
    ) -> "TurnContext":
        """Return what is remembered of a person that a turn is about; the reader's embedder makes the text's vector."""

        async def open_backend() -> "MemoryBackend":
            return (await reader.open()).backend

        _, loader = await asyncio.to_thread(self._open)
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
        return ledger.conversation.counts(self._company, owner)

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
                self._opened = (ledger, TurnLoader(ledger, company=self._company, config=config))
            return self._opened


def required(reader: ConversationReader | None) -> ConversationReader:
    """Return the reader. Raises MemoryConfigError where the memory was made without one."""
    if reader is None:
        raise MemoryConfigError("conversation: this memory was made without a ledger: make it with from_settings")
    return reader
