"""What tools of agents are tested with: changes over a store in memory, and a model that answers from a list."""

import asyncio
import json
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from memcore import ids
from memcore.backends.inmemory import InMemoryBackend
from memcore.clock import Clock
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.errors import MemoryNotFoundError
from memcore.ledger.ledger import Ledger
from memcore.llm.protocol import Attribution, Completion, CompletionRequest
from memcore.memories import Memories
from memcore.memory.reader import opening_model
from memcore.models.memory import MemoryEntry, MemoryQuery, MemoryStoreRequest
from memcore.retrieval.strategies.factory import StrategyParts
from support.fake_summarizer import said
from support.memories import NOW

_WORD = re.compile(r"\w+")

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

COMPANY = "acme"


class WordBackend(InMemoryBackend):
    """Finds memories by the words that they have in common with a question; its other calls are its parent's."""

    async def retrieve(self, agent_id: str, query: MemoryQuery) -> tuple[MemoryEntry, ...]:
        if query.text is None:
            return await super().retrieve(agent_id, query)
        every = await super().retrieve(agent_id, query.model_copy(update={"text": None, "limit": 1_000}))
        wanted = set(_WORD.findall(query.text.lower()))
        scores = {
            each.id: len(wanted & set(_WORD.findall(each.content.lower()))) / max(1, len(wanted)) for each in every
        }
        found = [each.model_copy(update={"relevance_score": scores[each.id]}) for each in every if scores[each.id]]
        return tuple(sorted(found, key=lambda each: (-scores[each.id], each.id))[: query.limit])


@dataclass(frozen=True, kw_only=True)
class Receipt:
    forgotten: tuple[str, ...]


class Changes:
    """Stands for memcore.memories.Memories: a new version has a new id, and the old one leads to it."""

    def __init__(self, backend: InMemoryBackend) -> None:
        self._backend = backend
        self._newer: dict[str, str] = {}

    async def get(self, agent_id: str, memory_id: str) -> MemoryEntry | None:
        while memory_id in self._newer:
            memory_id = self._newer[memory_id]
        return await self._backend.get(agent_id, memory_id)

    async def put(self, agent_id: str, request: MemoryStoreRequest) -> MemoryEntry:
        found = await self._backend.get(agent_id, await self._backend.store(agent_id, request))
        assert found is not None
        return found

    async def update(self, agent_id: str, memory_id: str, *, content: str) -> MemoryEntry:
        old = await self.get(agent_id, memory_id)
        if old is None:
            raise MemoryNotFoundError("no such memory")
        (record,) = await self._backend.get_many(agent_id, [old.id])
        entry = old.model_copy(update={"content": content, "id": ids.new_id()})
        await self._backend.store_many([replace(record, entry=entry)])
        await self._backend.delete_many(agent_id, [old.id])
        self._newer[old.id] = entry.id
        return entry

    async def forget(self, agent_id: str, memory_ids: str, *, expected: str) -> Receipt:
        del expected
        gone = await self._backend.delete_many(agent_id, [memory_ids])
        return Receipt(forgotten=(memory_ids,) if gone else ())


@dataclass
class ListModel:
    """See memcore.llm.protocol.Model.

    Attributes:
        answers: what each purpose (its last word) gets: a text, a JSON value, an error, or what a function makes of the
            question's content; a list is used up in turn, and its last answer stays.
    """

    answers: dict[str, Any] = field(default_factory=dict[str, Any])
    asked: list[CompletionRequest] = field(default_factory=list[CompletionRequest])
    by: list[Attribution] = field(default_factory=list[Attribution])

    @property
    def purposes(self) -> list[str]:
        return [each.purpose.rpartition(":")[2] for each in self.by]

    async def ask(self, request: CompletionRequest, *, by: Attribution, key: str) -> Completion:
        del key
        self.asked.append(request)
        self.by.append(by)
        await asyncio.sleep(0)
        answer = self.answers[by.purpose.rpartition(":")[2]]
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        if callable(answer):
            answer = cast("Callable[[str], Any]", answer)(request.messages[1].content)
        if isinstance(answer, Exception):
            raise answer
        return said(answer if isinstance(answer, str) else json.dumps(answer))


def strategy_parts(
    policy: Policy,
    backend: InMemoryBackend,
    *,
    ledger: Ledger | None = None,
    model: ListModel | None = None,
    clock: Clock = lambda: NOW,
    **more: Any,
) -> StrategyParts:
    """Return the parts of strategies over a store in memory."""
    given: Mapping[str, Any] = {"company": COMPANY, "changes": Changes(backend), **more}
    return StrategyParts(policy=policy, backend=backend, ledger=ledger, model=model, clock=clock, **given)


def memory_parts(settings: Settings, policy: Policy, backend: WordBackend, provider: Any) -> dict[str, Any]:
    """Return what a Memory over this backend is made of, with the language model of a provider, or without one."""
    return {
        "open_backend": lambda: backend,
        "policy": policy,
        "open_memories": lambda opened: Memories(
            opened, Ledger.open(settings.ledger_urls), company=COMPANY, policy=policy, clock=lambda: NOW
        ),
        "open_model": opening_model(settings, policy, provider=provider),
    }
