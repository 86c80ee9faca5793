"""What an op asks a model, and what it gets."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from memcore.llm.completion import CompletionRequest

#: Most characters of an answer for each token that it may have: no tokenizer makes longer tokens on average, so a
#: longer answer comes from a server that heeds no limit.
_CHARS_PER_TOKEN = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question; two with the same purpose, model and subject are one, and have one answer.

    Attributes:
        purpose: what for, as ``system:memory:consolidate:semantic``.
        model: whose answer; None takes the provider's default.
        about: all that the answer depends on: ids and digests of texts, never the texts.
        max_tokens: longest answer.
        request: makes the prompt; called only when the model is really asked.
    """

    purpose: str
    model: str | None
    about: tuple[str, ...]
    max_tokens: int
    request: Callable[[], Awaitable[CompletionRequest]]

    @property
    def max_chars(self) -> int:
        """Longest text that counts as an answer."""
        return self.max_tokens * _CHARS_PER_TOKEN


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came of a question.

    Attributes:
        text: the answer, stripped and not blank; None when there is none that can be used.
        reason: why there is none.
    """

    text: str | None = None
    reason: str = ""


class Answers(Protocol):
    """Where an op gets its answers: the ledger at night, a model in the job that asks."""

    async def ask(self, question: Question) -> Reply:
        """Return what came of the question.

        Raises:
            AnswerMissingError: the model has not been asked yet, or is being asked now.
            ProviderError: the model's server refuses, and will again.
            BudgetExceededError: the agent has nothing left today.
        """
        ...
