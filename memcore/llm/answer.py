"""A server's answer in OpenAI's form, read strictly."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from memcore.errors import ProviderError, ProviderUnavailableError
from memcore.llm.completion import Completion, CompletionRequest
from memcore.llm.tokens import estimated_prompt, estimated_tokens

#: Largest answer that is read, in bytes; the longest that models write is some 500 KB.
MAX_ANSWER_BYTES = 4_194_304

Count = Annotated[int, Field(ge=0, le=1_000_000_000)]


class _Read(BaseModel):
    # Servers send fields of their own beside those that are read; an error must not quote the answer.
    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


class _Message(_Read):
    content: str | None = None


class _Choice(_Read):
    message: _Message
    finish_reason: str | None = None


class _Usage(_Read):
    prompt_tokens: Count
    completion_tokens: Count


class _Usages(_Read):
    usage: _Usage


class _Answer(_Read):
    choices: list[_Choice] = Field(min_length=1)


class _Model(_Read):
    id: str


class _Models(_Read):
    data: list[_Model]


def read_answer(content: bytes, request: CompletionRequest, *, model: str) -> Completion:
    """Return the completion that the bytes hold.

    Args:
        content: the body of the server's answer.
        request: what was asked; its tokens are estimated where the server does not count.
        model: who was asked.

    Raises:
        ProviderUnavailableError: nobody can read it, or it has no choice; with the tokens that it reports.
        ProviderError: the server's filter took the answer away, and will again.
    """
    used = _reported(content)
    choice = _first_choice(content)
    if choice is None:
        raise ProviderUnavailableError("the language model's server answers what nobody can read", tokens=used)
    if choice.finish_reason == "content_filter":
        raise ProviderError("the language model's server filters the answer away", tokens=used)
    text = choice.message.content or ""
    prompt_tokens, completion_tokens = used or (estimated_prompt(request), estimated_tokens(text))
    return Completion(
        text=text,
        is_cut=choice.finish_reason == "length",
        model=model,
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
    )


def read_models(content: bytes) -> tuple[str, ...]:
    """Return the names of the models that the server lists; ProviderUnavailableError when nobody can read the list."""
    try:
        return tuple(model.id for model in _Models.model_validate_json(content).data)
    except ValidationError:
        trouble = ProviderUnavailableError("the language model's server lists its models as nobody can read")
    raise trouble


def _reported(content: bytes) -> tuple[int, int] | None:
    try:
        usage = _Usages.model_validate_json(content).usage
    except ValidationError:
        return None
    return usage.prompt_tokens, usage.completion_tokens


def _first_choice(content: bytes) -> _Choice | None:
    try:
        return _Answer.model_validate_json(content).choices[0]
    except ValidationError:
        return None
