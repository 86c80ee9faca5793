"""A question to a language model, and its answer."""

from pydantic import Field

from memcore.chat_message import ChatMessage
from memcore.frozen import Frozen, NotBlankStr


class CompletionRequest(Frozen):
    """What is asked.

    Attributes:
        messages: system text and fenced data, in order.
        model: whose answer; None takes the provider's default.
        temperature: sampling temperature, 0 to 2.
        max_tokens: longest answer.
        json_schema: the answer must be JSON of this schema; None for plain text.
    """

    messages: tuple[ChatMessage, ...] = Field(min_length=1)
    model: NotBlankStr | None = None
    temperature: float = Field(default=0.3, ge=0.0, le=2.0)
    max_tokens: int = Field(ge=1)
    json_schema: dict[str, object] | None = None


class Completion(Frozen):
    """What was answered.

    Attributes:
        text: as the model wrote it; it may be blank.
        is_cut: the model stopped at ``max_tokens`` in the middle of what it had to say.
        model: who answered.
        prompt_tokens: read, by the provider's count.
        completion_tokens: written, by the provider's count.
        cost: in the currency of the price list.
    """

    text: str
    is_cut: bool
    model: str
    prompt_tokens: int = Field(ge=0)
    completion_tokens: int = Field(ge=0)
    cost: float = Field(default=0.0, ge=0.0)
