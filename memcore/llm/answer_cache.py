"""A model whose answers are stored before they are used: no answer is paid for twice."""

import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta

from memcore.errors import AnswerMissingError, LeaseLostError, MemoryNotFoundError
from memcore.ledger.attempt import LEASE_LENGTH, LEASE_RENEWAL, Lease
from memcore.ledger.llm_answers import Answers
from memcore.ledger.work_items import WorkState
from memcore.llm.protocol import Attribution, Completion, CompletionRequest, Model


class UnusableAnswerError(Exception):
    """The model was asked in vain: the reason is kept in the place of an answer, for as long as the run lasts."""


class CachingModel:
    """Asks a model, and keeps its answer in the ledger under the question's key (see memcore.llm.protocol.Model)."""

    def __init__(self, model: Model, table: Answers, *, renewal: timedelta = LEASE_RENEWAL) -> None:
        self._model = model
        self._table = table
        self._renewal = renewal

    async def ask(self, request: CompletionRequest, *, by: Attribution, key: str) -> Completion:
        """Return the stored answer, or ask and store it; failures are not stored. Raises as ask_once."""
        return await self.ask_once(lambda: self._model.ask(request, by=by, key=key), by=by, key=key)

    async def ask_once(self, ask: Callable[[], Awaitable[Completion]], *, by: Attribution, key: str) -> Completion:
        """Return what is stored under a key, or what ``ask`` returns, which is stored.

        Raises AnswerMissingError while another worker asks, UnusableAnswerError where ``ask`` raises it, now or for
        this run before, and what else ``ask`` raises.
        """
        table, company, since = self._table, by.company, time.monotonic()
        known = table.claim_question(
            company, key, agent_id=by.agent_id, run_id=by.run_id, purpose=by.purpose, lease=LEASE_LENGTH
        )
        if known is None:
            raise AnswerMissingError(f"{by.purpose}: another worker asks the model this question now")
        if known.token is None:
            if known.state is WorkState.FAILED:
                raise UnusableAnswerError(known.reason)
            return Completion(text=known.text or "", is_cut=False, model="ledger", prompt_tokens=0, completion_tokens=0)
        with Lease(table, company, key, known.token, since=since, renewal=self._renewal, releases=True):
            try:
                completion = await ask()
            except UnusableAnswerError as error:
                table.fail(company, key, known.token, str(error))
                raise
        # Stored or not, also where another worker took the question since: the answer is paid for and good.
        with suppress(LeaseLostError, MemoryNotFoundError):
            table.finish(company, key, known.token, completion.text)
        return completion
