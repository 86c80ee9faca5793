"""A model whose answers are stored before they are used: no answer is paid for twice."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

from memcore.errors import (
    AnswerMissingError,
    MemoryError,  # noqa: A004  # the reference fixes the name
)
from memcore.ledger.llm_answers import Answers
from memcore.llm.protocol import Attribution, Completion, CompletionRequest, Model, ModelEvent

#: How long a question belongs to its asker after the last renewal.
QUESTION_LEASE = timedelta(seconds=45)

#: How often the lease is renewed while the model thinks.
QUESTION_RENEWAL = timedelta(seconds=10)

_log = logging.getLogger(__name__)


@asynccontextmanager
async def question_lease(
    table: Answers, question_id: str, token: str, *, renewal: timedelta = QUESTION_RENEWAL
) -> AsyncIterator[None]:
    """Renew the lease of a question for as long as the block runs."""
    beat = asyncio.create_task(_renew_until_end(table, question_id, token, renewal.total_seconds()))
    try:
        yield
    finally:
        beat.cancel()
        with suppress(asyncio.CancelledError):
            await beat


async def _renew_until_end(table: Answers, question_id: str, token: str, seconds: float) -> None:
    while True:
        await asyncio.sleep(seconds)
        try:
            if not table.renew(question_id, token, lease=QUESTION_LEASE):
                return
        except MemoryError as error:
            # The lease outlasts a busy database.
            _log.warning(ModelEvent.LEASE_UNCERTAIN, extra={"error_type": type(error).__name__})


class CachingModel:
    """Asks a model, and keeps its answer in the ledger under the question's key (see memcore.llm.protocol.Model)."""

    def __init__(self, model: Model, table: Answers) -> None:
        self._model = model
        self._table = table

    async def ask(self, request: CompletionRequest, *, by: Attribution, key: str) -> Completion:
        """Return the stored answer, or ask and store it; failures are not stored.

        Raises AnswerMissingError while another worker asks this question, and what Model.ask raises.
        """
        known = self._table.claim(
            key,
            company=by.company,
            agent_id=by.agent_id,
            run_id=by.run_id,
            purpose=by.purpose,
            lease=QUESTION_LEASE,
        )
        if known is None:
            raise AnswerMissingError(f"{by.purpose}: another worker asks the model this question now")
        if known.token is None:
            return Completion(text=known.text or "", is_cut=False, model="ledger", prompt_tokens=0, completion_tokens=0)
        try:
            async with question_lease(self._table, key, known.token):
                completion = await self._model.ask(request, by=by, key=key)
        except Exception:
            # Without this nobody could ask it until the lease ends, which is what happens if this fails too.
            with suppress(MemoryError):
                self._table.release(key, known.token)
            raise
        # Stored or not, also where another worker took the question since: the answer is paid for and good.
        self._table.answered(key, known.token, completion.text)
        return completion
