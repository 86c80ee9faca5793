"""The provider for OpenAI's API: OpenAI, vLLM, Ollama, LM Studio, and every other server that speaks it."""

from datetime import timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import orjson
from pydantic import SecretStr

from memcore.clock import Clock, utc_now
from memcore.config.urls import masked
from memcore.errors import ProviderError
from memcore.llm.protocol import Completion, CompletionRequest
from memcore.llm.structured import MAX_ANSWER_BYTES, read_answer, read_models

if TYPE_CHECKING:
    from httpx import AsyncClient


class OpenAICompatibleProvider:
    """Asks one server; used from one event loop, on which its connections are opened with the first question.

    Args:
        url: the base, such as ``https://api.openai.com/v1``.
        key: sent as a bearer token; it is in no error and no log, and no redirect is followed with it.
        model: the default, where a request names no model.
        timeout: how long one request may take, from its first byte to the answer's last.
        clock: the time, for a Retry-After that is a date.
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
        return read_answer(response, request, model=model)

    async def models(self) -> tuple[str, ...]:
        """Return the names of the models that the server offers, a free question; raises as complete does."""
        return read_models(await self._asked("GET", "/models"))

    async def close(self) -> None:
        """Close the connections; a later question opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _asked(
        self, method: str, path: str, *, body: dict[str, Any] | None = None, key: str | None = None
    ) -> bytes:
        # Half of a second to import, and only processes that ask a model need it.
        from httpx import InvalidURL, TransportError  # noqa: PLC0415  # see above

        from memcore.bounded_http import AnswerError, ask  # noqa: PLC0415  # see above
        from memcore.llm.retry import classify_error, refusal_of  # noqa: PLC0415  # see above

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
            trouble = refusal_of(answer, server=server, now=self._clock())
        except (AnswerError, TransportError, InvalidURL) as error:
            trouble = classify_error(error, server=server)
        # Out here it carries no context: what httpx says may name the address with its password.
        raise trouble

    def _opened(self) -> "AsyncClient":
        if self._client is None:
            from memcore.bounded_http import open_client  # noqa: PLC0415  # as above

            self._client = open_client(key=None if self._key is None else self._key.get_secret_value())
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
