"""The provider for OpenAI's API: OpenAI, vLLM, Ollama, LM Studio, and every other server that speaks it."""

import re
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Annotated, Any, TypeVar

import orjson
from httpx import (
    AsyncClient,
    ConnectError,
    ConnectTimeout,
    InvalidURL,
    PoolTimeout,
    TransportError,
    UnsupportedProtocol,
)
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from memcore.bounded_http import AnswerError, HttpResponse, ask, open_client
from memcore.clock import Clock, utc_now
from memcore.config.urls import masked
from memcore.errors import ProviderError, ProviderUnavailableError
from memcore.llm.protocol import Completion, CompletionRequest, estimated_prompt, estimated_tokens

Form = TypeVar("Form", bound=BaseModel)


class OpenAICompatibleProvider:
    """Asks one server; used from one event loop, on which its connections are opened with the first question.

    The key is in no error and no log, and no redirect is followed with it. ``timeout`` is that of one request, from its
    first byte to the answer's last; ``model`` is asked where a request names none.
    """

    def __init__(
        self, url: str, *, key: SecretStr | None = None, model: str | None, timeout: timedelta, clock: Clock = utc_now
    ) -> None:
        self._url = url
        self._key = key
        self._model = model
        self._timeout = timeout
        self._clock = clock
        self._client: AsyncClient | None = None

    async def complete(self, request: CompletionRequest, *, idempotency_key: str) -> Completion:
        """Return the server's answer; raises what CompletionProvider.complete says, without a word of the prompt."""
        model = request.model or self._model
        if model is None:
            raise ProviderError("no language model is named: set memory.llm.model")
        response = await self._asked("POST", "/chat/completions", body=_body(request, model), key=idempotency_key)
        return _read_answer(response, request, model=model)

    async def models(self) -> tuple[str, ...]:
        """Return the names of the models that the server offers, a free question; raises as complete does."""
        return _read_models(await self._asked("GET", "/models"))

    async def close(self) -> None:
        """Close the connections; a later question opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _asked(
        self, method: str, path: str, *, body: dict[str, Any] | None = None, key: str | None = None
    ) -> bytes:
        server, trouble = masked(self._url), None
        try:
            answer = await ask(
                self._opened(),
                method,
                f"{self._url}{path}",
                content=None if body is None else orjson.dumps(body),
                headers=None if key is None else {"Idempotency-Key": key},
                max_bytes=MAX_ANSWER_BYTES,
                within=self._timeout,
            )
            if answer.status < HTTPStatus.MULTIPLE_CHOICES:
                return answer.content
            trouble = _refusal_of(answer, server=server, now=self._clock())
        except (AnswerError, TransportError, InvalidURL) as error:
            trouble = _classify_error(error, server=server)
        # Out here it carries no context: what httpx says may name the address with its password.
        raise trouble

    def _opened(self) -> AsyncClient:
        if self._client is None:
            key = None if self._key is None else self._key.get_secret_value()
            self._client = open_client(self._url, key=key)
        return self._client


def _body(request: CompletionRequest, model: str) -> dict[str, Any]:
    messages = [{"role": message.role.value, "content": message.content} for message in request.messages]
    body: dict[str, Any] = {
        "model": model,
        "messages": messages,
        "temperature": request.temperature,
        "max_tokens": request.max_tokens,
        "stream": False,
    }
    if request.json_schema is not None:
        schema = {"name": "answer", "schema": request.json_schema}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return body


#: Answers that another try may change, beside all from 500 on.
_PASSING = frozenset(
    {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
)

#: The type of OpenAI's 429 for an account without money: it stays until a person pays.
_UNPAID = "insufficient_quota"

#: An error's type as servers write it; anything else may quote the prompt, and is not repeated.
_TYPE = re.compile(r"[a-z][a-z_]{0,39}")

#: Failures before anything was sent, and so before anything could be billed.
_UNSENT = (ConnectError, ConnectTimeout, PoolTimeout, UnsupportedProtocol)


def _classify_error(error: AnswerError | TransportError | InvalidURL, *, server: str) -> ProviderError:
    """Return our error for a request that got no answer, or one that breaks a limit; ``server`` has no password."""
    if isinstance(error, InvalidURL):
        return ProviderError(f"MEMTEND_LLM_URL: {server} is no URL")
    if isinstance(error, AnswerError):
        return ProviderUnavailableError(f"the language model's server at {server}: {error}", tokens=None)
    tokens = (0, 0) if isinstance(error, _UNSENT) else None
    problem = type(error).__name__
    return ProviderUnavailableError(f"the language model's server at {server} is away ({problem})", tokens=tokens)


def _refusal_of(answer: HttpResponse, *, server: str, now: datetime) -> ProviderError:
    """Return our error for a status that refuses.

    Its sentence holds the status and a type, and never the server's words: servers quote the prompt that they refuse.
    """
    kind, code = _kind_and_code(answer.content)
    said = f"the language model's server at {server} answers {answer.status}" + (f" ({kind})" if kind else "")
    if _UNPAID in {code, kind}:
        return ProviderError(f"{said}: its account has no money left")
    if answer.status in _PASSING or answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return ProviderUnavailableError(said, retry_after=answer.asked_pause(now=now))
    return ProviderError(f"{said}: check MEMTEND_LLM_URL, MEMTEND_LLM_API_KEY and the model's name, or see its log")


def _kind_and_code(content: bytes) -> tuple[str | None, str | None]:
    try:
        body = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None, None
    details = body.get("error", body) if isinstance(body, dict) else None
    if not isinstance(details, dict):
        return None, None
    kind, code = details.get("type"), details.get("code")
    is_type = isinstance(kind, str) and _TYPE.fullmatch(kind)
    return kind if is_type else None, code if isinstance(code, str) else None


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


def _read_answer(content: bytes, request: CompletionRequest, *, model: str) -> Completion:
    """Return the completion in the body of a server's answer; tokens are estimated where the server does not count.

    Raises:
        ProviderUnavailableError: nobody can read it, or it has no choice; with the tokens that it reports.
        ProviderError: the server's filter took the answer away, and will again.
    """
    counted, answer = _parsed(_Usages, content), _parsed(_Answer, content)
    used = None if counted is None else (counted.usage.prompt_tokens, counted.usage.completion_tokens)
    if answer is None:
        raise ProviderUnavailableError("the language model's server answers what nobody can read", tokens=used)
    choice = answer.choices[0]
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


def _read_models(content: bytes) -> tuple[str, ...]:
    """Return the names of the models that the server lists; ProviderUnavailableError when nobody can read the list."""
    listed = _parsed(_Models, content)
    if listed is None:
        raise ProviderUnavailableError("the language model's server lists its models as nobody can read")
    return tuple(model.id for model in listed.data)


def _parsed(form: type[Form], content: bytes) -> Form | None:
    try:
        return form.model_validate_json(content)
    except ValidationError:
        return None
