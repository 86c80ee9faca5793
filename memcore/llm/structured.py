"""Answers in a form: asked for as JSON, validated as untrusted input, corrected once."""

import hashlib
import logging
import re
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from memcore.errors import MalformedAnswerError
from memcore.llm.protocol import Attribution, Completion, CompletionRequest, Model
from memcore.models.execution import ChatMessage, MessageRole
from memcore.telemetry.events import Event
from memcore.untrusted_text import untrusted_content_directive, wrap_untrusted

Form = TypeVar("Form", bound=BaseModel)

#: Longest answer that is parsed, in bytes; forms hold some sentences.
MAX_JSON_BYTES = 262_144

#: Most problems of an answer that the model is shown, and the longest each may be, in characters.
_REPORTED_PROBLEMS = 8
_REPORTED_CHARS = 200

#: As much of its own answer as the model is shown, in characters.
_SHOWN_CHARS = 4_000

_TAG_ANSWER = "earlier-answer"
_TAG_PROBLEMS = "problems"

_CODE = re.compile(r"```(?:json|JSON)?[ \t]*\n(.*?)```", re.DOTALL)

_log = logging.getLogger(__name__)


async def ask_structured(
    model: Model, request: CompletionRequest, form: type[Form], *, by: Attribution, key: str
) -> Form:
    """Return the model's answer as a value of the form; an answer of another form is asked for once more.

    A code fence around the JSON is taken off. Whatever the form does not know is refused, so let it forbid unknown
    fields.

    Both questions are paid once: the second one's key is made of ``key`` and of the first answer.

    Raises:
        MalformedAnswerError: neither answer has the form.
        BudgetExceededError, RetryExhaustedError, ProviderError: as Model.ask says, for either question.
    """
    request = request.model_copy(update={"json_schema": form.model_json_schema()})
    completion = await model.ask(request, by=by, key=key)
    read = _read(completion, form)
    if not isinstance(read, list):
        return read
    _log.info(Event.LLM_ANSWER_REPAIRED, extra={**by.logged, "problems": len(read)})
    digest = hashlib.sha256(completion.text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    completion = await model.ask(_repair_request(request, completion.text, read), by=by, key=f"{key}/mended/{digest}")
    read = _read(completion, form)
    if isinstance(read, list):
        # Neither the answer's words nor the names of its keys: they may be those of a memory.
        raise MalformedAnswerError(f"the language model answers twice with no {form.__name__} ({len(read)} problems)")
    return read


def _read(completion: Completion, form: type[Form]) -> "Form | list[str]":
    """Return the value, or what is wrong with the answer."""
    text = completion.text.strip()
    if len(text.encode("utf-8", "surrogatepass")) > MAX_JSON_BYTES:
        return [f"the answer has more than {MAX_JSON_BYTES} bytes"]
    problems: list[str] = []
    for candidate in (text, *_CODE.findall(text)[:1]):
        try:
            return form.model_validate_json(candidate)
        except ValidationError as error:
            problems = _problems(error)
    return ["the answer was cut at its longest length: be shorter", *problems] if completion.is_cut else problems


def _problems(error: ValidationError) -> list[str]:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    sentences = (
        ".".join(map(str, each["loc"])) + ": " + each["msg"].removeprefix("Value error, ")
        for each in found[:_REPORTED_PROBLEMS]
    )
    return [sentence.removeprefix(": ")[:_REPORTED_CHARS] for sentence in sentences]


def _repair_request(request: CompletionRequest, answer: str, problems: list[str]) -> CompletionRequest:
    content = (
        f"Your earlier answer has not the form that was asked for. {untrusted_content_directive(_TAG_ANSWER)} The same "
        f"holds for <{_TAG_PROBLEMS}>, which says what is wrong with it.\n"
        f"{wrap_untrusted(_TAG_ANSWER, answer[:_SHOWN_CHARS])}\n"
        f"{wrap_untrusted(_TAG_PROBLEMS, chr(10).join(problems))}\n"
        "Answer the question above anew: JSON of the schema, whole, and nothing else."
    )
    repairing = ChatMessage(role=MessageRole.USER, content=content)
    return request.model_copy(update={"messages": (*request.messages, repairing)})
