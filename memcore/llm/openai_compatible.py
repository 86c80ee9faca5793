"""Language models behind OpenAI's API: OpenAI, vLLM, Ollama, LM Studio, and every other server that speaks it."""

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from pydantic import SecretStr

from memcore.clock import Clock, utc_now
from memcore.config.endpoint import masked
from memcore.errors import ProviderError
from memcore.llm.answer import read_answer, read_models
from memcore.llm.completion import Completion, CompletionRequest

if TYPE_CHECKING:
    from httpx2 import Request
    from openai import AsyncOpenAI
    from openai._types import RequestOptions

#: How long to wait for a connection; a server that is there answers within milliseconds.
CONNECT_TIMEOUT = timedelta(seconds=10)

#: What the SDK wants where the server wants no key; it is never sent.
_NO_KEY = "none"

#: The headers that leave this machine; the SDK's own tell of the platform, and its environment variables add more.
_SENT = frozenset(
    {
        "accept",
        "accept-encoding",
        "authorization",
        "connection",
        "content-length",
        "content-type",
        "host",
        "idempotency-key",
        "transfer-encoding",
        "user-agent",
    }
)


class OpenAICompatibleProvider:
    """Ask one server; used from one event loop, on which its connections are opened with the first question.

    Args:
        url: the base, such as ``https://api.openai.com/v1``.
        key: sent as a bearer token; it is in no error and no log, and no redirect is followed with it.
        model: whose answer, where a request names no model.
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
        self._client: AsyncOpenAI | None = None

    async def complete(self, request: CompletionRequest, *, idempotency_key: str) -> Completion:
        """Return the server's answer; raises what CompletionProvider.complete says, without a word of the prompt."""
        model = request.model or self._model
        if model is None:
            raise ProviderError("no language model is named: set memory.llm.model")
        response = await self._asked("post", "/chat/completions", body=_body(request, model), key=idempotency_key)
        return read_answer(response, request, model=model)

    async def models(self) -> tuple[str, ...]:
        """Return the names of the models that the server offers, a free question; raises as complete does."""
        return read_models(await self._asked("get", "/models"))

    async def close(self) -> None:
        """Close the connections; a later question opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _asked(
        self, method: Literal["get", "post"], path: str, *, body: dict[str, Any] | None = None, key: str | None = None
    ) -> bytes:
        # The SDK takes most of a second to import, and only processes that ask a model need it.
        from httpx2 import InvalidURL, Response  # noqa: PLC0415  # see above
        from openai import APIError  # noqa: PLC0415  # see above

        from memcore.llm.trouble import trouble_of  # noqa: PLC0415  # see above

        options: RequestOptions = {} if key is None else {"headers": {"Idempotency-Key": key}}
        try:
            client = self._opened()
            async with asyncio.timeout(self._timeout.total_seconds()):
                if method == "get":
                    response = await client.get(path, cast_to=Response, options=options)
                else:
                    response = await client.post(path, cast_to=Response, body=body, options=options)
                return response.content
        except (APIError, TimeoutError, InvalidURL) as error:
            trouble = trouble_of(error, server=masked(self._url), now=self._clock())
        # Out here it carries no context: the SDK's error holds the server's words, and servers quote the prompt.
        raise trouble

    def _opened(self) -> "AsyncOpenAI":
        if self._client is None:
            from httpx2 import AsyncClient, Timeout  # noqa: PLC0415  # as above
            from openai import AsyncOpenAI  # noqa: PLC0415  # as above

            timeout = Timeout(self._timeout.total_seconds(), connect=CONNECT_TIMEOUT.total_seconds())
            key = _NO_KEY if self._key is None else self._key.get_secret_value()
            self._client = AsyncOpenAI(
                api_key=key,
                base_url=self._url,
                max_retries=0,
                # Named here, no environment variable of the SDK's takes its place.
                default_headers={"Authorization": f"Bearer {key}"},
                http_client=AsyncClient(timeout=timeout, event_hooks={"request": [_send_only_what_is_needed]}),
            )
        return self._client


async def _send_only_what_is_needed(request: "Request") -> None:
    for name in [name for name in request.headers if name.lower() not in _SENT]:
        del request.headers[name]
    if request.headers.get("Authorization") == f"Bearer {_NO_KEY}":
        del request.headers["Authorization"]


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
