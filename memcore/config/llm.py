"""Policy keys of language models: requests, prices and budgets."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, JsonValue, PlainSerializer, SecretStr, SerializationInfo

from memcore.models.base import Frozen, NotBlankStr, ReadOnlyMap, ReadOnlyMapping

#: Longest time limit of one request, in seconds: a job may take 50 minutes, and asks several times.
MAX_TIMEOUT_SECONDS = 600.0

#: Longest patience, in hours (four weeks): an agent's next run waits as long.
MAX_PATIENCE_HOURS = 672.0

#: Most requests for one question: the pauses between them double, and a job has a time limit.
MAX_ATTEMPTS = 10


#: Least context that may be set, in tokens: the shortest of our questions need as many.
LEAST_CONTEXT_TOKENS = 1_024

#: Largest context that may be set, in tokens; ten times that of the largest models.
MOST_CONTEXT_TOKENS = 10_000_000

#: Context and time limit of one request, in tokens and seconds, of a model that this machine's processors serve: of a
#: long question they read some fifty tokens a second, and write ten.
LOCAL_CONTEXT_TOKENS, LOCAL_TIMEOUT_SECONDS = 8_192, 300.0

#: Fields of a request's body that are written for each question, in any API.
OWN_FIELDS = frozenset(
    {
        "format", "input", "instructions", "max_completion_tokens", "max_output_tokens", "max_tokens", "messages",
        "model", "response_format", "store", "stream", "system", "temperature", "text", "tool_choice", "tools",
    }
)  # fmt: skip

#: The same of ``options``, Ollama's object in it.
OWN_OPTIONS = frozenset({"num_ctx", "num_predict", "temperature"})

#: Headers that HTTP or each question sets.
OWN_HEADERS = frozenset(
    {
        "accept-encoding", "connection", "content-length", "content-type", "host", "idempotency-key",
        "transfer-encoding",
    }
)  # fmt: skip

#: Says in the context of a serialization that secrets are written in clear: the policy is read again, and not shown.
WITH_SECRETS = "with_secrets"

_STARS = "**********"
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_HEADER_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,8190}[\x21-\x7e])?")


class Api(StrEnum):
    """Which API a server of language models speaks; ``auto`` follows from its address."""

    AUTO = "auto"
    CHAT = "chat"
    RESPONSES = "responses"
    ANTHROPIC = "anthropic"
    OLLAMA = "ollama"


def _no_own_field(body: Mapping[str, Any]) -> Mapping[str, Any]:
    own = sorted(OWN_FIELDS & body.keys())
    options = body.get("options")
    if isinstance(options, Mapping):
        own += [f"options.{name}" for name in sorted(OWN_OPTIONS & options.keys())]
    if own:
        raise ValueError(f"should not name {own[0]}: each question sets it")
    return body


def _headers(headers: Mapping[str, SecretStr]) -> Mapping[str, SecretStr]:
    for name, value in headers.items():
        # Neither is shown: a value in the place of a name may be the secret.
        if not _HEADER_NAME.fullmatch(name) or name.lower() in OWN_HEADERS:
            raise ValueError("should name headers that HTTP and each question do not set themselves")
        if not _HEADER_VALUE.fullmatch(value.get_secret_value()):
            raise ValueError("should have values of printable ASCII")
    return ReadOnlyMap({name.lower(): value for name, value in headers.items()})


def _secrets(headers: Mapping[str, SecretStr], info: SerializationInfo) -> dict[str, str]:
    is_clear = bool(info.context and info.context.get(WITH_SECRETS))
    return {name: value.get_secret_value() if is_clear else str(value) for name, value in headers.items()}


#: Headers whose values are secrets: written as stars, but for a policy that is read again.
SecretHeaders = Annotated[
    Mapping[str, SecretStr], AfterValidator(_headers), PlainSerializer(_secrets, return_type=dict[str, str])
]


def without_header_values(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a policy as a file has it, with stars for the values of ``memory.llm.extra_headers``, to be shown."""
    memory = document.get("memory")
    llm = memory.get("llm") if isinstance(memory, Mapping) else None
    headers = llm.get("extra_headers") if isinstance(llm, Mapping) else None
    if not isinstance(memory, Mapping) or not isinstance(llm, Mapping) or headers is None:
        return dict(document)
    stars = dict.fromkeys(headers, _STARS) if isinstance(headers, Mapping) else _STARS
    return {**document, "memory": {**memory, "llm": {**llm, "extra_headers": stars}}}


class ModelPrice(Frozen):
    """State the price of a model, in a currency of your choice.

    Attributes:
        prompt_per_million: the price of a million tokens that the model reads.
        completion_per_million: the price of a million tokens that the model writes.
    """

    prompt_per_million: float = Field(ge=0.0)
    completion_per_million: float = Field(ge=0.0)

    def of(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Return what so many tokens cost."""
        return (prompt_tokens * self.prompt_per_million + completion_tokens * self.completion_per_million) / 1_000_000


#: The price of a model that is not listed.
FREE = ModelPrice(prompt_per_million=0.0, completion_per_million=0.0)


class LLMConfig(Frozen):
    """Choose the model, and how its server is asked; its address and key are settings.

    Attributes:
        model: the model for every step that names no model of its own.
        api: what the server speaks: ``chat`` (OpenAI's chat completions), ``responses``, ``anthropic`` or ``ollama``;
            ``auto`` takes ``anthropic`` for hosts of anthropic.com, ``ollama`` for a path that ends with ``/api``, and
            else ``chat``, or ``responses`` where the server says that a model exists only there.
        context_tokens: the size of the model's context; longer texts are cut to it. None takes what the server says
            when it refuses a longer one; Ollama is asked for 8,192.
        extra_body: fields that every request has beside its own, such as ``reasoning_effort``.
        extra_headers: headers that every request has; their values are not shown.
        timeout_seconds: the time limit of one request.
        attempts: the requests for one question, the first one included.
        patience_hours: how long a maintenance run asks a model that is away again and again, counted from the first
            failure, before it makes its summaries without one; 0 does not wait.
        prices: ``prompt_per_million`` and ``completion_per_million`` for each model; a model that is not listed costs
            nothing.
    """

    model: NotBlankStr | None = None
    api: Api = Api.AUTO
    context_tokens: int | None = Field(default=None, ge=LEAST_CONTEXT_TOKENS, le=MOST_CONTEXT_TOKENS)
    extra_body: Annotated[ReadOnlyMapping[NotBlankStr, JsonValue], AfterValidator(_no_own_field)] = ReadOnlyMap({})
    extra_headers: SecretHeaders = ReadOnlyMap({})
    timeout_seconds: float = Field(default=60.0, ge=1.0, le=MAX_TIMEOUT_SECONDS)
    attempts: int = Field(default=4, ge=1, le=MAX_ATTEMPTS)
    patience_hours: float = Field(default=24.0, ge=0.0, le=MAX_PATIENCE_HOURS)
    prices: ReadOnlyMapping[NotBlankStr, ModelPrice] = ReadOnlyMap({})

    def of_local(self, model: str | None) -> Self:
        """Return these settings with those of a model that this machine serves, for what nobody has set."""
        own = {"model": model, "context_tokens": LOCAL_CONTEXT_TOKENS, "timeout_seconds": LOCAL_TIMEOUT_SECONDS}
        unset = {name: value for name, value in own.items() if name not in self.model_fields_set}
        return self if model is None else self.model_copy(update=unset)


class BudgetsConfig(Frozen):
    """Cap the LLM steps of one agent per UTC day; a step above the cap waits for the next day.

    Attributes:
        tokens_per_agent_per_day: input and output tokens together; 0 lets every step wait, None sets no cap.
        cost_per_agent_per_day: in the currency of the price list; 0 allows only models that cost nothing, None sets no
            cap.
    """

    # One synthesis reads at most 20,000 characters, about 5,000 tokens, and writes 500: some 36 groups a day.
    tokens_per_agent_per_day: int | None = Field(default=200_000, ge=0)
    cost_per_agent_per_day: float | None = Field(default=None, ge=0.0)
