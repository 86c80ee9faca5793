"""Model answers: cached in the ledger, read by runs that never wait for a model, fetched by synthesis jobs."""

import builtins
import logging
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Self

from memcore.backends.factory import WorkerBackend
from memcore.clock import Clock, utc_now
from memcore.company import CompanyContext
from memcore.config.llm import LLMConfig
from memcore.config.maintenance import ConsolidationConfig, LLMConsolidationConfig
from memcore.errors import (
    AnswerMissingError,
    BudgetExceededError,
    MemoryError,  # noqa: A004  # the reference's name
    ProviderError,
    ProviderUnavailableError,
)
from memcore.jobs import Dead, Deferred, Done, Outcome, Skipped
from memcore.ledger.agents import check_kill_switch
from memcore.ledger.attempt import LEASE_RENEWAL, Attempt
from memcore.ledger.ledger import Ledger
from memcore.ledger.llm_answers import Answers as AnswersTable
from memcore.ledger.llm_answers import Synthesis
from memcore.ledger.runs import Run
from memcore.ledger.work_items import OPEN_STATES, WorkItem, WorkState
from memcore.llm.answer_cache import CachingModel, UnusableAnswerError
from memcore.llm.grounding import Fault
from memcore.llm.protocol import Attribution, Completion, CompletionRequest, Model
from memcore.llm.reading import free_text
from memcore.maintenance.consolidation.factory import ConsolidationDeps, StrategyBuilder, build_consolidation_strategy
from memcore.maintenance.consolidation.llm import Question, RecentTrajectories, Reply
from memcore.maintenance.consolidation.step import LEAST_SOURCES, written_from
from memcore.maintenance.probes import asks_model, probe_question
from memcore.models.execution import ChatMessage, MessageRole
from memcore.models.memory import FALLBACK_TAG
from memcore.telemetry.events import Event


class CachedAnswers:
    """Answers one run's questions from the ledger; asks no model.

    Args:
        run: whose failures count; another run's are asked again.
    """

    def __init__(self, table: AnswersTable, run: Run) -> None:
        self._table = table
        self._run = run

    async def ask(self, question: Question) -> Reply:
        """Return what is kept. Raises AnswerMissingError."""
        key = _payer(question, self._run).question_id(question.model, *question.about)
        found = self._table.get(self._run.company, key)
        # An answer of use, or a question that this very run asked in vain.
        if found is None or not (
            found.state is WorkState.DONE or (found.state is WorkState.FAILED and found.run_id == self._run.run_id)
        ):
            raise AnswerMissingError(f"{question.purpose}: the model has to be asked first")
        return Reply(text=found.text, reason=found.reason or "")


class NoAnswers:
    """Counts a plan's questions and answers none."""

    def __init__(self) -> None:
        self.asked = 0

    async def ask(self, question: Question) -> Reply:
        """Count the question and raise AnswerMissingError."""
        self.asked += 1
        raise AnswerMissingError(f"{question.purpose}: a plan asks no model")


def _payer(question: Question, run: Run) -> Attribution:
    return Attribution(company=run.company, agent_id=run.agent_id, run_id=run.run_id, purpose=question.purpose)


#: Words that a second, shorter answer may have, for each token of the limit.
_WORDS_PER_TOKEN = 0.4

_log = logging.getLogger(__name__)


class AnsweringModel:
    """Asks a model the questions of one run, and keeps the answers in the ledger.

    Args:
        is_patient: whether a question is asked again later when the model is away; otherwise it has no answer.
    """

    def __init__(
        self,
        table: AnswersTable,
        run: Run,
        model: Model,
        *,
        is_patient: bool,
        renewal: timedelta = LEASE_RENEWAL,
    ) -> None:
        self._cache = CachingModel(model, table, renewal=renewal)
        self._run = run
        self._model = model
        self._is_patient = is_patient

    async def ask(self, question: Question) -> Reply:
        """Return the answer that is kept, or ask and keep it.

        A model whose answer is of no use gives a reply without text; the op does without it. A server that is away
        raises while the run is patient, and one that refuses (a wrong key, a wrong model) always does; nothing is kept.
        """
        by = _payer(question, self._run)
        key = by.question_id(question.model, *question.about)
        try:
            completion = await self._cache.ask_once(partial(self._asked, question, by, key), by=by, key=key)
        except UnusableAnswerError as error:
            return Reply(reason=str(error))
        return Reply(text=completion.text)

    async def _asked(self, question: Question, by: Attribution, key: str) -> Completion:
        about = {"agent_id": by.agent_id, "purpose": by.purpose}
        try:
            return await self._answer(question, by, key)
        except ProviderError as error:
            reason = str(error)
            if not error.is_retryable:
                # A traceback would say nothing that the sentence does not.
                _log.error(Event.CONSOLIDATION_LLM_ERROR, extra={**about, "reason": reason})
                raise
            if self._is_patient:
                _log.warning(Event.CONSOLIDATION_LLM_AWAY, extra={**about, "reason": reason})
                raise
        except (builtins.MemoryError, RecursionError, MemoryError):
            # This process or the ledger is in trouble, or the budget is spent: the model is not to blame.
            raise
        except UnusableAnswerError as error:
            reason = str(error)
        except Exception as error:  # noqa: BLE001  # whatever a provider raises must cost a summary, not a memory
            reason = f"unexpected {type(error).__name__}"
        _log.warning(Event.CONSOLIDATION_LLM_FALLBACK, extra={**about, "reason": reason})
        raise UnusableAnswerError(reason)

    async def _answer(self, question: Question, by: Attribution, key: str) -> Completion:
        request = await question.request()
        answer = _cleaned(await self._model.ask(request, by=by, key=key))
        if _is_too_long(answer, question):
            shorter = _shorter(request, question.max_tokens)
            answer = _cleaned(await self._model.ask(shorter, by=by, key=f"{key}:shorter"))
        if _is_too_long(answer, question):
            raise UnusableAnswerError("the answer is longer than allowed, and so is the second one")
        if not answer.text:
            raise UnusableAnswerError("the answer is blank")
        if (fault := question.fault(answer.text)) is not None:
            answer = _cleaned(await self._model.ask(_grounded(request, fault), by=by, key=f"{key}:grounded"))
            if _is_too_long(answer, question) or (fault := question.fault(answer.text)) is not None:
                raise UnusableAnswerError(f"asked for twice, and not kept: {fault}")
        return answer


def _cleaned(completion: Completion) -> Completion:
    # PostgreSQL, and the columns of stock mem0, take no NUL.
    return completion.model_copy(update={"text": free_text(completion.text.replace("\0", ""))})


def _is_too_long(answer: Completion, question: Question) -> bool:
    # Without its reasoning, which may be as long as it likes where the server does not cut it.
    return answer.is_cut or len(answer.text) > question.max_chars


def _grounded(request: CompletionRequest, fault: Fault) -> CompletionRequest:
    ask = f"Your last answer is not kept: {fault}. Answer again, and write only what stands between the fences."
    message = ChatMessage(role=MessageRole.USER, content=ask)
    return request.model_copy(update={"messages": (*request.messages, message)})


def _shorter(request: CompletionRequest, max_tokens: int) -> CompletionRequest:
    ask = f"Your last answer was too long. Answer again, in at most {int(max_tokens * _WORDS_PER_TOKEN)} words."
    message = ChatMessage(role=MessageRole.USER, content=ask)
    return request.model_copy(update={"messages": (*request.messages, message)})


#: Shortest and longest wait before a model that is away is asked again; in between, as long as it has been away.
LEAST_WAIT, LONGEST_WAIT = timedelta(minutes=1), timedelta(hours=1)


def asked_again(now: datetime, *, since: datetime, patience: timedelta, retry_after: float | None = None) -> datetime:
    """Return when a model that has been away since a time is asked again; the last time when the patience ends.

    So each wait is about twice as long as the one before. ``retry_after`` are the seconds that its server asks for.
    """
    wait = max(LEAST_WAIT, min(now - since, LONGEST_WAIT), timedelta(seconds=retry_after or 0.0))
    return min(now + wait, max(since + patience, now + LEAST_WAIT))


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionOutcome:
    """The outcome of a synthesis job, and the run to dispatch once it waits for no other answer."""

    outcome: Outcome
    maintenance_run: WorkItem | None = None


@dataclass(frozen=True, eq=False)
class SynthesisService:
    """Asks a model the questions of runs. It changes nothing in the store, so it needs no lease of a run."""

    backend: WorkerBackend
    ledger: Ledger
    policy: ConsolidationConfig
    _: KW_ONLY
    company: str
    model: Model | None
    patience: timedelta = timedelta(hours=LLMConfig().patience_hours)
    build_strategy: StrategyBuilder = build_consolidation_strategy
    renewal: timedelta = LEASE_RENEWAL
    clock: Clock = utc_now

    @classmethod
    def of(cls, context: CompanyContext) -> Self:
        """Build the service of a worker's company."""
        return cls(
            context.backend,
            context.ledger,
            context.policy.memory.consolidation,
            company=context.company,
            model=context.model,
            patience=timedelta(hours=context.policy.memory.llm.patience_hours),
            clock=context.clock,
        )

    async def ask(self, run_id: str, place: int) -> QuestionOutcome:
        """Ask the questions of one part; a second call asks none twice.

        Returns:
            Done: all answers are kept; the run can go on with this part.
            Deferred: the part waits, for a model that is away, a budget, another worker's question, or the end of a
                pause.
            Skipped: nothing to ask now; the reason says why, and the sweep dispatches the job again where needed.
            Dead: the run is unknown, or another company's; or the attempts at the part are used up.
        """
        run = self.ledger.runs.get(self.company, run_id)
        if run is None:
            return QuestionOutcome(outcome=Dead(reason=f"run {run_id} is unknown here"))
        part = self.ledger.syntheses.get(self.company, f"{run_id}.{place}")
        # A part that waits is made available when its time has come.
        if part is None or part.state is WorkState.WAITING or run.state not in OPEN_STATES:
            return QuestionOutcome(outcome=Skipped(reason="nobody waits for this part now"))
        if self.model is None:
            return QuestionOutcome(
                outcome=Skipped(reason="no language model is connected to this worker: set MEMTEND_LLM_URL")
            )
        return await self._attempted(run, part.key, self.model)

    async def _attempted(self, run: Run, key: str, model: Model) -> QuestionOutcome:
        syntheses, is_over = self.ledger.syntheses, False
        with Attempt(syntheses, self.company, key, switch=self._check_switch, renewal=self.renewal) as attempt:
            part = attempt.claim()
            now = self.clock()
            is_patient = now - (part.away_since or now) < self.patience
            try:
                await self._ask(run, part, model, is_patient=is_patient)
                is_over = syntheses.finish(part, is_back=is_patient)
                attempt.outcome = Done(facts={"asked": 1})
            except BudgetExceededError as error:
                syntheses.wait_together(part, until=error.until, reason=str(error))
                attempt.outcome, is_over = Deferred(reason=str(error)), True
            except ProviderError as error:
                if error.is_retryable:
                    attempt.outcome = self._wait_for_model(part, error)
                else:
                    syntheses.refuse_together(part, reason=str(error))
                    attempt.outcome = Skipped(reason=str(error))
                is_over = True
        woken = self.ledger.runs.wake(self.company, run.run_id) if is_over else None
        return QuestionOutcome(outcome=attempt.outcome, maintenance_run=woken)

    def _wait_for_model(self, part: Synthesis, error: ProviderError) -> Deferred:
        """Let all parts of the run wait for the model: one that finds it away is enough."""
        now, cause = self.clock(), error.__cause__
        since = part.away_since or now
        last = cause if isinstance(cause, ProviderUnavailableError) else error
        until = asked_again(now, since=since, patience=self.patience, retry_after=getattr(last, "retry_after", None))
        reason = (
            f"no answer from the language model since {since:%Y-%m-%d %H:%M} UTC: {error}; it is asked again until "
            f"{since + self.patience:%Y-%m-%d %H:%M} UTC"
        )
        self.ledger.syntheses.wait_together(part, until=until, reason=reason, away_since=since)
        return Deferred(reason=reason)

    def _check_switch(self, part: Synthesis) -> None:
        check_kill_switch(
            self.ledger.agents, company=self.company, agent_id=part.agent_id, is_enabled=self.policy.enabled
        )

    async def _ask(self, run: Run, part: Synthesis, model: Model, *, is_patient: bool) -> None:
        ids = [*part.source_ids, *([part.kept_id] if part.kept_id else [])]
        found = {record.entry.id: record for record in await self.backend.get_many(part.agent_id, ids)}
        answers = AnsweringModel(self.ledger.answers, run, model, is_patient=is_patient, renewal=self.renewal)
        strategy = self.build_strategy(
            ConsolidationDeps(
                policy=self.policy,
                answers=answers,
                trajectories=RecentTrajectories(self.backend, self.policy.llm or LLMConsolidationConfig()),
            )
        )
        if strategy is None:
            return
        there = tuple(found[each] for each in part.source_ids if each in found)
        sources = written_from(there, strategy, self.ledger.archive, company=self.company)
        if len(sources) < LEAST_SOURCES:
            return
        draft = await strategy.write(sources, kept=found.get(part.kept_id or ""))
        if draft is not None and asks_model(self.policy) and FALLBACK_TAG not in draft.tags:
            # What has no summary of the model's is judged by the words of the memories alone.
            await answers.ask(probe_question(sources, self.policy))
        _log.info(
            Event.CONSOLIDATION_LLM_SYNTHESIZED,
            extra={"agent_id": run.agent_id, "run_id": run.run_id, "place": part.place, "sources": len(sources)},
        )
