"""What the rest of memtend needs of a language model."""

from typing import Protocol

from memcore.llm.attribution import Attribution
from memcore.llm.completion import Completion, CompletionRequest


class CompletionProvider(Protocol):
    """One request to one server: no retry, no budget."""

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
    """A provider with retries, a budget and an account of every token: what jobs ask."""

    async def ask(self, request: CompletionRequest, *, by: Attribution, key: str) -> Completion:
        """Return the answer, after as many attempts as the policy allows.

        Args:
            request: what is asked.
            by: for whom.
            key: the same for the same question however often it is asked; sent to the provider.

        Raises:
            BudgetExceededError: the agent has nothing left today; nothing was asked.
            RetryExhaustedError: passing trouble in every attempt.
            ProviderError: the server refuses, and will again.
        """
        ...
