"""The contracts of a language model: request, completion, provider, model, token estimates and log events."""

from dataclasses import dataclass
from typing import Protocol

from pydantic import Field

from memcore import ids
from memcore.models.base import Frozen, NotBlankStr
from memcore.models.execution import ChatMessage

#: The purpose, and the account, of questions that only check a model: they are no agent's, and no budget refuses them.
CHECK_PURPOSE = "system:models:check"

#: The purpose of questions for search notes, one for each memory.
NOTES_PURPOSE = "system:memory:notes"


class CompletionRequest(Frozen):
    """A question to a model, or to the provider's default: system text and fenced data.

    The answer has at most ``max_tokens``, and must be JSON of the schema, if there is one. A question that is ``whole``
    is refused where the model's context is too small for it; of another one, the longest fenced texts are cut.
    """

    messages: tuple[ChatMessage, ...] = Field(min_length=1)
    model: NotBlankStr | None = None
    temperature: float = Field(default=0.3, ge=0.0, le=2.0)
    max_tokens: int = Field(ge=1)
    json_schema: dict[str, object] | None = None
    whole: bool = False


class Completion(Frozen):
    """A model's answer, which may be blank, with the tokens read and written by the provider's count.

    It is cut where the model stopped at ``max_tokens`` in the middle of what it had to say. The cost is in the currency
    of the price list.
    """

    text: str
    is_cut: bool
    model: str
    prompt_tokens: int = Field(ge=0)
    completion_tokens: int = Field(ge=0)
    cost: float = Field(default=0.0, ge=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """The payer of a call, the run in which it is made, and its purpose, as ``system:memory:consolidate:semantic``."""

    company: str
    agent_id: str
    run_id: str | None
    purpose: str

    @property
    def logged(self) -> dict[str, str | None]:
        """Return the fields of a log event."""
        return {"agent_id": self.agent_id, "run_id": self.run_id, "purpose": self.purpose}

    def question_id(self, model: str | None, *about: str) -> str:
        """Return the id of a question to a model; ``about`` is all that its answer depends on, in order."""
        return ids.question_id(
            company=self.company, agent_id=self.agent_id, purpose=self.purpose, model=model or "", about=about
        )


class CompletionProvider(Protocol):
    """Sends one request to one server: no retry, no budget."""

    async def complete(self, request: CompletionRequest, *, idempotency_key: str) -> Completion:
        """Return the answer.

        A provider that knows the key already returns the answer of then, without a second bill.

        Raises:
            ProviderError: the server refuses, and will again (a wrong key, a wrong model, a request it forbids).
            ProviderUnavailableError: passing trouble (429, 5xx, time-out, no connection, an unreadable answer).
        """
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


class Model(Protocol):
    """Asks a provider with retries, a budget and an account of every token."""

    async def ask(self, request: CompletionRequest, *, by: Attribution, key: str) -> Completion:
        """Return the answer, after as many attempts as the policy allows; the same question always has the same key.

        Raises:
            BudgetExceededError: the agent's day has less left than this call may use; nothing was asked.
            RetryExhaustedError: passing trouble in every attempt.
            ProviderError: the server refuses, and will again.
        """
        ...


#: Bytes of a token, on the safe side for most languages: English has more to a token, CJK about three.
BYTES_PER_TOKEN = 4


def estimated_tokens(text: str) -> int:
    """Return a quarter of the text's UTF-8 bytes, rounded up."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)


def estimated_prompt(request: CompletionRequest) -> int:
    """Return the estimated tokens of the request's messages, each rounded up."""
    return sum(estimated_tokens(message.content) for message in request.messages)
