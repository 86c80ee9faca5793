"""Answers that are read: asked for as JSON of a form or as a text, taken for untrusted, corrected once."""

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from pydantic import BaseModel

from memcore import ids
from memcore.errors import MalformedAnswerError
from memcore.llm.protocol import Attribution, CompletionRequest, Model
from memcore.llm.reading import UnreadAnswerError, free_text, read_form
from memcore.models.execution import ChatMessage, MessageRole
from memcore.telemetry.events import Event
from memcore.untrusted_text import untrusted_content_directive, wrap_untrusted

Form = TypeVar("Form", bound=BaseModel)
Value = TypeVar("Value")

#: As much of its own answer as the model is shown, in characters.
_SHOWN_CHARS = 4_000

#: Largest limits of a form that a server is told: of larger ones llama.cpp makes a grammar that takes a second for each
#: token that it writes.
LARGEST_LIMITS: Mapping[str, int] = {"maxLength": 64, "maxItems": 12}

_TAG_ANSWER = "earlier-answer"
_TAG_PROBLEMS = "problems"

_WAS_CUT = "the answer was cut at its longest length: be shorter"

#: What a second question asks for.
_JSON_AGAIN = "Answer the question above anew: JSON of the schema, whole, and nothing else."
_TEXT_AGAIN = "Answer the question above anew: in the form that it asks for, and nothing else."

_log = logging.getLogger(__name__)


def without_large_limits(schema: Any) -> Any:
    """Return a JSON schema without limits above LARGEST_LIMITS; an answer beyond them is refused anyway."""
    if isinstance(schema, Mapping):
        given = cast("Mapping[str, Any]", schema).items()
        return {
            name: without_large_limits(value)
            for name, value in given
            if not (isinstance(value, int) and value > LARGEST_LIMITS.get(name, value))
        }
    if isinstance(schema, list):
        return [without_large_limits(each) for each in cast("Sequence[Any]", schema)]
    return schema


async def ask_structured(
    model: Model,
    request: CompletionRequest,
    form: type[Form],
    *,
    by: Attribution,
    key: str,
    check: Callable[[Form], str | None] | None = None,
) -> Form:
    """Return the model's answer as a value of the form; an answer of another form is asked for once more.

    It is read as memcore.llm.reading says; ``check`` says in a sentence what else is wrong with a value. Whatever the
    form does not know is refused, so let it forbid unknown fields.

    Both questions are paid once: the second one's key is made of ``key`` and of the first answer.

    Raises:
        MalformedAnswerError: neither answer has the form.
        BudgetExceededError, RetryExhaustedError, ProviderError: as Model.ask says, for either question.
    """
    request = request.model_copy(update={"json_schema": without_large_limits(form.model_json_schema())})

    def read(text: str) -> Form:
        return read_form(text, form, check=check)

    return await _ask(model, request, read, by=by, key=key, wanted=form.__name__, again=_JSON_AGAIN)


async def ask_text(
    model: Model, request: CompletionRequest, read: Callable[[str], Value], *, by: Attribution, key: str
) -> Value:
    """Return what ``read`` makes of the model's text, which is free of reasoning, fences and announcements.

    Where it raises UnreadAnswerError, the text is asked for once more. Raises as ``ask_structured``.
    """

    def read_text(text: str) -> Value:
        return read(free_text(text))

    return await _ask(model, request, read_text, by=by, key=key, wanted="text of use", again=_TEXT_AGAIN)


async def _ask(
    model: Model,
    request: CompletionRequest,
    read: Callable[[str], Value],
    *,
    by: Attribution,
    key: str,
    wanted: str,
    again: str,
) -> Value:
    completion = await model.ask(request, by=by, key=key)
    try:
        return read(completion.text)
    except UnreadAnswerError as error:
        problems = [_WAS_CUT, *error.problems] if completion.is_cut else error.problems
    _log.info(Event.LLM_ANSWER_REPAIRED, extra={**by.logged, "problems": len(problems)})
    digest = hashlib.sha256(completion.text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    repairing = _repair_request(request, completion.text, problems, again)
    completion = await model.ask(repairing, by=by, key=f"{key}{ids.ASKED_AGAIN}{digest}")
    try:
        return read(completion.text)
    except UnreadAnswerError as error:
        _log.warning(
            Event.LLM_ANSWER_UNREAD, extra={**by.logged, "problems": len(error.problems), "cut": completion.is_cut}
        )
        # Neither the answer's words nor the names of its keys: they may be those of a memory.
        sentence = f"the language model answers twice with no {wanted} ({len(error.problems)} problems)"
    raise MalformedAnswerError(sentence)


def _repair_request(request: CompletionRequest, answer: str, problems: Sequence[str], again: str) -> CompletionRequest:
    content = (
        f"Your earlier answer has not the form that was asked for. {untrusted_content_directive(_TAG_ANSWER)} The same "
        f"holds for <{_TAG_PROBLEMS}>, which says what is wrong with it.\n"
        f"{wrap_untrusted(_TAG_ANSWER, answer[:_SHOWN_CHARS])}\n"
        f"{wrap_untrusted(_TAG_PROBLEMS, chr(10).join(problems))}\n"
        f"{again}"
    )
    repairing = ChatMessage(role=MessageRole.USER, content=content)
    return request.model_copy(update={"messages": (*request.messages, repairing)})
