"""Answers from a model, asked once and kept before anyone uses them."""

import builtins
import logging
from datetime import timedelta

from memcore.chat_message import ChatMessage, MessageRole
from memcore.errors import AnswerMissingError, MemoryError, ProviderError  # noqa: A004  # the reference's name
from memcore.ledger.answers import Answers as AnswersTable
from memcore.ledger.run import Run
from memcore.llm.attribution import Attribution
from memcore.llm.completion import CompletionRequest
from memcore.llm.held_question import QUESTION_LEASE, QUESTION_RENEWAL, held
from memcore.llm.protocol import Model
from memcore.maintenance.events import MaintenanceEvent
from memcore.maintenance.kept_answers import question_id, reply
from memcore.maintenance.question import Question, Reply

#: Words that a second, shorter answer may have, for each token of the limit.
_WORDS_PER_TOKEN = 0.4

_log = logging.getLogger(__name__)


class LiveAnswers:
    """Ask a model for one run.

    Args:
        table: where answers are kept.
        run: for whom.
        model: who answers.
        renewal: time between two signs of life.
    """

    def __init__(self, table: AnswersTable, run: Run, model: Model, *, renewal: timedelta = QUESTION_RENEWAL) -> None:
        self._table = table
        self._run = run
        self._model = model
        self._renewal = renewal

    async def ask(self, question: Question) -> Reply:
        """Return the answer that is kept, or ask and keep it.

        A model that fails in passing, for good or in an unknown way leaves a reply without text, for the op to do
        without. One that refuses (a wrong key, a wrong model) raises, and nothing is kept.

        Raises:
            AnswerMissingError: another worker asks it now.
            ProviderError, BudgetExceededError: the question can be asked again later.
        """
        run, key = self._run, question_id(question, self._run)
        known = self._table.take(
            key,
            company=run.company,
            agent_id=run.agent_id,
            run_id=run.run_id,
            purpose=question.purpose,
            lease=QUESTION_LEASE,
        )
        if known is None:
            raise AnswerMissingError(f"{question.purpose}: another worker asks the model this question now")
        if known.token is None:
            return reply(known)
        async with held(self._table, key, known.token, renewal=self._renewal):
            found = await self._asked(question, key, known.token)
        if found.text is not None:
            is_kept = self._table.answered(key, known.token, found.text)
        else:
            is_kept = self._table.unusable(key, known.token, found.reason)
            _log.warning(
                MaintenanceEvent.MODEL_UNUSABLE,
                extra={"agent_id": run.agent_id, "purpose": question.purpose, "reason": found.reason},
            )
        if not is_kept:
            raise AnswerMissingError(f"{question.purpose}: another worker has taken the question over")
        return found

    async def _asked(self, question: Question, key: str, token: str) -> Reply:
        try:
            return await self._answer(question, key)
        except ProviderError as error:
            if error.is_retryable:
                return Reply(reason=str(error))
            self._table.let_go(key, token)
            _log.error(  # a traceback would say nothing that the sentence does not
                MaintenanceEvent.MODEL_REFUSED,
                extra={"agent_id": self._run.agent_id, "purpose": question.purpose, "reason": str(error)},
            )
            raise
        except (builtins.MemoryError, RecursionError, MemoryError):
            # This process or the ledger is in trouble, or the budget is spent: the model is not to blame.
            self._table.let_go(key, token)
            raise
        except Exception as error:  # noqa: BLE001  # whatever a provider raises must cost a summary, not a memory
            return Reply(reason=f"unexpected {type(error).__name__}")

    async def _answer(self, question: Question, key: str) -> Reply:
        request = await question.request()
        by = Attribution(
            company=self._run.company,
            agent_id=self._run.agent_id,
            run_id=self._run.run_id,
            purpose=question.purpose,
        )
        completion = await self._model.ask(request, by=by, key=key)
        if completion.is_cut or len(completion.text) > question.max_chars:
            completion = await self._model.ask(_shorter(request, question.max_tokens), by=by, key=f"{key}:shorter")
        if completion.is_cut or len(completion.text) > question.max_chars:
            return Reply(reason="the answer is longer than allowed, and so is the second one")
        # PostgreSQL, and the columns of stock mem0, take no NUL.
        text = completion.text.replace("\0", "").strip()
        return Reply(text=text) if text else Reply(reason="the answer is blank")


def _shorter(request: CompletionRequest, max_tokens: int) -> CompletionRequest:
    ask = f"Your last answer was too long. Answer again, in at most {int(max_tokens * _WORDS_PER_TOKEN)} words."
    message = ChatMessage(role=MessageRole.USER, content=ask)
    return request.model_copy(update={"messages": (*request.messages, message)})
