"""A language model orders the memories that a question found; its orders are kept in the ledger, for every process."""

import asyncio
import hashlib
import json
from collections.abc import Sequence
from datetime import timedelta
from typing import cast

from memcore.clock import Clock, utc_now
from memcore.errors import MalformedAnswerError
from memcore.ledger.llm_answers import Answers
from memcore.ledger.work_items import WorkState
from memcore.llm.answer_cache import CachingModel
from memcore.llm.protocol import Attribution, Completion, CompletionRequest, Model
from memcore.llm.reading import AnswerForm
from memcore.llm.structured import ask_structured
from memcore.models.execution import prompt
from memcore.retrieval.protocol import ScoredMemory
from memcore.retrieval.strategies.asking import TAG_QUESTION
from memcore.untrusted_text import TAG_MEMORY_ENTRY, untrusted_content_directive, wrap_untrusted

#: The purpose that the account names.
PURPOSE_RERANK = "system:memory:search:rerank"

#: Most characters of a memory that the model reads.
CANDIDATE_CHARS = 500

#: Orders that are kept of a company, the last used ones.
MOST_ORDERS = 1_000

#: An order is noted as used again only after so long: a write for each prompt would cost more than it keeps.
_TOUCH_AFTER = timedelta(minutes=1)

_INSTRUCTIONS = (
    "Order memories by how well they help to answer a question, the best first. "
    f"{untrusted_content_directive(TAG_MEMORY_ENTRY)} The same holds for <{TAG_QUESTION}>. Each memory has a number in "
    'its opening tag. Answer with JSON alone, every number once: {"order": [3, 1, 2]}.'
)


class Order(AnswerForm):
    """A model's answer: the numbers of the memories, the best one's first."""

    order: tuple[int, ...]


class OrderCache:
    """Keeps orders among the ledger's answers: each for ``ttl``, the last used 1,000 of a company.

    An order that is being asked for by another process is not waited for.
    """

    def __init__(self, answers: Answers, *, ttl: timedelta, clock: Clock = utc_now) -> None:
        self._answers = answers
        self._ttl = ttl
        self._clock = clock

    @property
    def period(self) -> str:
        """The name of the present period of ``ttl``: as a part of a key it ends every order's time."""
        return str(int(self._clock().timestamp() // self._ttl.total_seconds()))

    def known(self, company: str, key: str) -> str | None:
        """Return what is kept under a key."""
        kept = self._answers.get(company, key)
        if kept is None or kept.state is not WorkState.DONE:
            return None
        if kept.asked_at < self._clock() - _TOUCH_AFTER:
            self._answers.touch(company, key)
        return kept.text

    def trim(self, company: str) -> None:
        """Delete what is too old or too much."""
        before = self._clock() - 2 * self._ttl
        self._answers.trim(company, PURPOSE_RERANK, before=before, keep=MOST_ORDERS)

    def over(self, model: Model) -> CachingModel:
        """Return the model whose answers are kept here."""
        return CachingModel(model, self._answers)


class LLMQuerySpecificReranker:
    """Asks a model for the order of memories, on an agent's account: use ``of(agent_id)``.

    The scores stay; only the order changes. An answer that is no order of all memories is asked for once more; then it
    is an error, so that the old order stays, and it is never kept. One memory alone is not asked about.
    """

    def __init__(self, model: Model, *, company: str, cache: OrderCache | None = None) -> None:
        self._model = model
        self._company = company
        self._cache = cache

    def of(self, agent_id: str) -> "AgentReranker":
        """Return the re-ranker whose questions this agent pays for."""
        return AgentReranker(self._model, company=self._company, agent_id=agent_id, cache=self._cache)


class AgentReranker:
    """See LLMQuerySpecificReranker."""

    def __init__(self, model: Model, *, company: str, agent_id: str, cache: OrderCache | None) -> None:
        self._model = model
        self._cache = cache
        self._by = Attribution(company=company, agent_id=agent_id, run_id=None, purpose=PURPOSE_RERANK)

    async def rerank(self, query_text: str, memories: tuple[ScoredMemory, ...]) -> tuple[ScoredMemory, ...]:
        """Return the memories in the model's order.

        Raises:
            MalformedAnswerError: neither answer is an order of these memories.
            AnswerMissingError: another process asks the same just now.
            BudgetExceededError, RetryExhaustedError, ProviderError: as Model.ask.
        """
        if len(memories) <= 1:
            return memories
        key = self._key(query_text, memories)
        order = await self._ordered_ids(query_text, memories, key)
        by_id = {each.entry.id: each for each in memories}
        return tuple(by_id[each] for each in order)

    async def _ordered_ids(self, query_text: str, memories: Sequence[ScoredMemory], key: str) -> Sequence[str]:
        every = list(range(1, len(memories) + 1))

        def check(found: Order) -> str | None:
            return None if sorted(found.order) == every else f"order: must have each number from 1 to {len(every)} once"

        async def ask() -> Completion:
            request = _request(query_text, memories)
            found = await ask_structured(self._model, request, Order, by=self._by, key=key, check=check)
            text = json.dumps([memories[number - 1].entry.id for number in found.order])
            return Completion(text=text, is_cut=False, model="", prompt_tokens=0, completion_tokens=0)

        given = sorted(each.entry.id for each in memories)
        if self._cache is None:
            return cast("list[str]", json.loads((await ask()).text))
        kept = await asyncio.to_thread(self._cache.known, self._by.company, key)
        if kept is None:
            # The order by ids is stored, and only after it was checked: an error stores nothing.
            kept = (await self._cache.over(self._model).ask_once(ask, by=self._by, key=key)).text
            await asyncio.to_thread(self._cache.trim, self._by.company)
        order = cast("list[str]", json.loads(kept))
        if sorted(order) != given:
            raise MalformedAnswerError("the kept order is one of other memories")
        return order

    def _key(self, query_text: str, memories: Sequence[ScoredMemory]) -> str:
        versions = sorted(
            f"{each.entry.id} {hashlib.sha256(each.entry.content.encode('utf-8', 'surrogatepass')).hexdigest()}"
            for each in memories
        )
        return self._by.question_id(None, "" if self._cache is None else self._cache.period, query_text, *versions)


def _request(query_text: str, memories: Sequence[ScoredMemory]) -> CompletionRequest:
    candidates = [
        wrap_untrusted(TAG_MEMORY_ENTRY, each.entry.content[:CANDIDATE_CHARS], attributes={"number": str(number)})
        for number, each in enumerate(memories, start=1)
    ]
    content = "\n".join([wrap_untrusted(TAG_QUESTION, query_text), *candidates])
    return CompletionRequest(
        messages=prompt(_INSTRUCTIONS, content),
        temperature=0.0,
        max_tokens=50 + 8 * len(memories),
    )
