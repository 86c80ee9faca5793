"""Has a language model write questions for passages; templates write what it does not.

Limits bound the asking: each owner's budget, half an hour in all, and eight questions in a row without a result. The
ledger keeps the answers until the run is complete, so that a worker that dies pays for none twice.
"""

import asyncio
import builtins
import logging
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

from memcore import errors
from memcore.clock import Clock
from memcore.experience import clipped
from memcore.finetune.documents import Owned, Passage
from memcore.finetune.generate import MAX_QUESTION_CHARS
from memcore.ledger.agents import check_kill_switch
from memcore.ledger.ledger import Ledger
from memcore.llm.answer_cache import CachingModel
from memcore.llm.grounding import Grounds, Kind
from memcore.llm.protocol import Attribution, CompletionRequest, Model
from memcore.llm.structured import ask_structured
from memcore.models.base import Frozen
from memcore.models.execution import prompt
from memcore.telemetry.events import Event
from memcore.untrusted_text import untrusted_content_directive, wrap_untrusted

#: Raise it with any change of the instructions: the same passage is then another question.
VERSION = "finetune-questions-v1"

#: The fence around the passage, and how many of its characters the model reads: its beginning and its end.
TAG_PASSAGE = "passage"
PASSAGE_CHARS = 4_000

#: Most questions of one answer, as a plan allows, and its longest length in tokens: the JSON, and each question.
MAX_QUESTIONS = 8
_TOKENS = 128
_TOKENS_OF_QUESTION = 128

#: Control characters, surrogates, and line breaks: no person types them into a search.
_REFUSED = frozenset({"Cc", "Cs", "Zl", "Zp"})

_INSTRUCTIONS = f"""\
You are shown a passage of a team's notes. Write what people would ask who need what it says and have not seen it.
Answer with JSON of one key and nothing else:
"questions": {{count}} different questions, each one line of at most {MAX_QUESTION_CHARS} characters.
Ask in other words than those of the passage where people would; keep the names and numbers that tell it from others.
Ask nothing that the passage does not answer. Write in the language of the passage.
{untrusted_content_directive(TAG_PASSAGE)}"""


def _plain(value: str) -> str:
    if any(unicodedata.category(each) in _REFUSED for each in value):
        raise ValueError("must be one line without control characters")
    return value


_Question = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_QUESTION_CHARS),
    AfterValidator(_plain),
]


class WrittenQuestions(Frozen):
    """A model's answer: 1 to 8 questions of at most 200 characters each."""

    questions: tuple[_Question, ...] = Field(min_length=1, max_length=MAX_QUESTIONS)


def request_for(passage: Passage, *, count: int, model: str | None) -> CompletionRequest:
    """Return the request: the instructions, then the passage as data behind a fence."""
    shown = wrap_untrusted(TAG_PASSAGE, clipped(passage.text, PASSAGE_CHARS))
    return CompletionRequest(
        messages=prompt(_INSTRUCTIONS.format(count=count), shown),
        model=model,
        max_tokens=_TOKENS + count * _TOKENS_OF_QUESTION,
    )


#: The purpose that the account names.
PURPOSE = "system:memory:finetune_questions"

#: Longest time for all questions; failures in a row after which no more are asked; questions at a time.
LONGEST = timedelta(minutes=30)
FAILED_ATTEMPT = 8
AT_ONCE = 4

#: Seconds between two renewals while the model thinks.
_BEAT = 1.0

_log = logging.getLogger(__name__)


class QuestionOutcome(StrEnum):
    """What became of a passage that was chosen."""

    WRITTEN = "written"
    #: Two answers, and neither has the form; or all its questions ask about what the passage does not say.
    MALFORMED = "malformed"
    #: Its owner's budget of the day is spent.
    BUDGET = "budget"
    #: The server did not answer, or refused.
    AWAY = "away"
    #: A person has paused its owner's maintenance.
    PAUSED = "paused"
    #: Another worker asks this question now.
    BUSY = "busy"
    #: Nobody asked: there is no model, the time was over, or too many questions in a row had brought nothing.
    UNASKED = "unasked"


#: Outcomes in a row after which asking on is in vain.
_UNUSABLE = frozenset({QuestionOutcome.MALFORMED, QuestionOutcome.AWAY})

#: The outcome of each error, the first that fits; None where the model is not to blame, and the run waits.
_ERROR_OUTCOMES: tuple[tuple[type[Exception], QuestionOutcome | None], ...] = (
    (errors.MaintenancePausedError, QuestionOutcome.PAUSED),
    (errors.AnswerMissingError, QuestionOutcome.BUSY),
    (errors.BudgetExceededError, QuestionOutcome.BUDGET),
    (errors.MalformedAnswerError, QuestionOutcome.MALFORMED),
    (errors.ProviderError, QuestionOutcome.AWAY),
    (errors.MemoryError, None),
    (builtins.MemoryError, None),
    (RecursionError, None),
    # Whatever a provider raises must cost a question, not a run.
    (Exception, QuestionOutcome.AWAY),
)


class QuestionWriter:
    """Asks a model, if one is connected, for ``count`` questions to each of the passages of one run.

    It calls ``alive`` at least every second; what that raises ends the asking. Without a ``model_name`` the provider's
    default answers.
    """

    def __init__(
        self,
        model: Model | None,
        ledger: Ledger,
        *,
        company: str,
        run_id: str,
        model_name: str | None,
        count: int,
        alive: Callable[[], None],
        clock: Clock,
    ) -> None:
        self._model = None if model is None else CachingModel(model, ledger.answers)
        self._ledger = ledger
        self._company = company
        self._run_id = run_id
        self._model_name = model_name
        self._count = count
        self._alive = alive
        self._clock = clock
        self._failed_attempts = 0
        self._spent: set[str] = set()

    async def write(self, chosen: Sequence[Owned]) -> list[Owned]:
        """Return the passages for which questions were written, with them behind their earlier ones.

        Raises what ``alive`` raises, and MemoryError when the ledger is in trouble; the answers that came are kept.
        """
        became: dict[int, Owned | QuestionOutcome] = {}
        if self._model is not None:
            await self._ask_all(chosen, self._model, became)
        found = [each for _, each in sorted(became.items()) if isinstance(each, Owned)]
        ends = Counter(QuestionOutcome.WRITTEN if isinstance(each, Owned) else each for each in became.values())
        ends[QuestionOutcome.UNASKED] = len(chosen) - len(became)
        facts = {"run_id": self._run_id, "chosen": len(chosen), **{end.value: ends[end] for end in QuestionOutcome}}
        _log.info(Event.MEMORY_FINE_TUNE_QUERIES_WRITTEN, extra=facts)
        if len(found) < len(chosen):
            _log.warning(Event.MEMORY_FINE_TUNE_QUERY_LLM_FALLBACK, extra=facts)
        return found

    async def _ask_all(
        self, chosen: Sequence[Owned], model: Model, became: "dict[int, Owned | QuestionOutcome]"
    ) -> None:
        rest, until = iter(enumerate(chosen)), self._clock() + LONGEST

        async def ask_each() -> None:
            for place, owned in rest:
                # An answer that is kept comes at once, and many of them take their time.
                self._alive()
                if self._failed_attempts >= FAILED_ATTEMPT or self._clock() >= until:
                    return
                became[place] = found = await self._asked(owned, model)
                is_written = isinstance(found, Owned)
                self._failed_attempts = 0 if is_written else self._failed_attempts + (found in _UNUSABLE)

        running = {asyncio.create_task(ask_each()) for _ in range(AT_ONCE)}
        try:
            while running and self._clock() < until:
                done, running = await asyncio.wait(running, timeout=_BEAT)
                self._alive()
                for asker in done:
                    asker.result()
        finally:
            for asker in running:
                asker.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _asked(self, owned: Owned, model: Model) -> Owned | QuestionOutcome:
        """Return the passage with its questions, or why there are none."""
        if owned.agent_id in self._spent:
            return QuestionOutcome.BUDGET
        try:
            # Runs have a switch of their own in the policy; a run is asked for by a person.
            check_kill_switch(self._ledger.agents, self._company, owned.agent_id)
            written = await self._written(owned, model)
        except Exception as error:
            end = next(end for kind, end in _ERROR_OUTCOMES if isinstance(error, kind))
            if end is None:
                raise
            if end is QuestionOutcome.BUDGET:
                self._spent.add(owned.agent_id)
            return end
        passage = owned.passage.model_copy(update={"questions": (*owned.passage.questions, *written)})
        return Owned(agent_id=owned.agent_id, passage=passage)

    async def _written(self, owned: Owned, model: Model) -> tuple[str, ...]:
        count = self._count - len(owned.passage.questions)
        by = Attribution(company=self._company, agent_id=owned.agent_id, run_id=self._run_id, purpose=PURPOSE)
        key = by.question_id(self._model_name, owned.passage.text, str(count), VERSION)
        request = request_for(owned.passage, count=count, model=self._model_name)
        answer = await ask_structured(model, request, WrittenQuestions, by=by, key=key)
        grounds = Grounds([owned.passage.text], instructions=_INSTRUCTIONS)
        found = [(question, grounds.fault(question, kind=Kind.QUESTION)) for question in answer.questions]
        faults = dict.fromkeys(fault for _, fault in found if fault is not None)
        for fault in faults:
            _log.warning(Event.LLM_ANSWER_UNGROUNDED, extra={**by.logged, "reason": fault.value})
        kept = tuple(question for question, fault in found if fault is None)
        if not kept:
            raise errors.MalformedAnswerError(f"not kept: {next(iter(faults)).value}")
        return kept[:count]
