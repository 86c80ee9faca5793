"""A model whose answers are kept before anybody uses them: what was paid for once is not paid for again."""

from contextlib import suppress

from memcore.errors import AnswerMissingError, MemoryError  # noqa: A004  # the reference fixes the name
from memcore.ledger.answers import Answers
from memcore.llm.attribution import Attribution
from memcore.llm.completion import Completion, CompletionRequest
from memcore.llm.held_question import QUESTION_LEASE, held
from memcore.llm.protocol import Model

#: Who answers a question that was answered before.
_LEDGER = "ledger"


class KeptModel:
    """Ask a model, and keep its answer in the ledger under the question's key (see memcore.llm.protocol.Model).

    Args:
        model: who is asked.
        table: where answers are kept.
    """

    def __init__(self, model: Model, table: Answers) -> None:
        self._model = model
        self._table = table

    async def ask(self, request: CompletionRequest, *, by: Attribution, key: str) -> Completion:
        """Return the answer that is kept, or ask and keep it; failures are not kept.

        Raises:
            AnswerMissingError: another worker asks this question now.
            BudgetExceededError, RetryExhaustedError, ProviderError: as Model.ask.
        """
        known = self._table.take(
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
            return Completion(text=known.text or "", is_cut=False, model=_LEDGER, prompt_tokens=0, completion_tokens=0)
        try:
            async with held(self._table, key, known.token):
                completion = await self._model.ask(request, by=by, key=key)
        except Exception:
            # Without this it would be nobody's to ask until the lease ends, which is what happens if this fails too.
            with suppress(MemoryError):
                self._table.let_go(key, known.token)
            raise
        # Whether it is kept or somebody else has taken the question since, it is paid for and good.
        self._table.answered(key, known.token, completion.text)
        return completion
