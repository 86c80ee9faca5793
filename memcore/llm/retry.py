"""Retries of questions to a language model, the only ones."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

from memcore.errors import ProviderError, ProviderUnavailableError, RetryExhaustedError
from memcore.llm.protocol import Completion, CompletionProvider, CompletionRequest
from memcore.telemetry.events import Event

#: Longest pause before the second request; it doubles with each further one.
FIRST_PAUSE = timedelta(seconds=1)

#: Longest pause that is waited here, asked for or not: beyond it the caller gives up, for a queue waits better than a
#: job. Servers that count requests by the minute ask for at most this.
LONGEST_PAUSE = timedelta(seconds=60)

_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Tries:
    """Counts of the attempts at one question, and of the tokens of failed ones, as far as the server says.

    It is unclear when one ended without an answer: it may have used tokens that nobody counted.
    """

    count: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    is_unclear: bool = False

    def failed(self, error: ProviderError) -> None:
        """Count what a failed attempt used."""
        if error.tokens is None:
            self.is_unclear = True
        else:
            self.prompt_tokens += error.tokens[0]
            self.completion_tokens += error.tokens[1]


class Retrying:
    """Asks a provider until it answers, with exponential backoff and full jitter.

    Full jitter as in Brooker, "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015): many callers that were
    refused together do not come back together. ``sleep`` and ``chance``, a number from 0 to 1, are for tests.
    """

    def __init__(
        self,
        provider: CompletionProvider,
        *,
        attempts: int,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,  # noqa: S311  # no secret
    ) -> None:
        self._provider = provider
        self._attempts = attempts
        self._sleep = sleep
        self._chance = chance

    async def complete(self, request: CompletionRequest, *, idempotency_key: str, tries: Tries) -> Completion:
        """Return the answer; every attempt carries the same key, and ``tries`` counts it.

        Raises:
            RetryExhaustedError: passing trouble in every attempt, or a longer wait is asked for than LONGEST_PAUSE;
                the last trouble is its cause.
            ProviderError: the server refuses, and will again.
        """
        while True:
            tries.count += 1
            try:
                return await self._provider.complete(request, idempotency_key=idempotency_key)
            except ProviderUnavailableError as error:
                tries.failed(error)
                pause = self._pause(tries.count, error.retry_after)
                if tries.count >= self._attempts or pause is None:
                    raise RetryExhaustedError(
                        f"{error} ({tries.count} attempts)", tokens=error.tokens, status=error.status, kind=error.kind
                    ) from error
                _log.info(Event.LLM_CALL_RETRIED, extra={"attempt": tries.count, "pause_seconds": round(pause, 3)})
            except ProviderError as error:
                tries.failed(error)
                raise
            await self._sleep(pause)

    async def close(self) -> None:
        """Close the provider's connections."""
        await self._provider.close()

    def _pause(self, attempt: int, asked: float | None) -> float | None:
        longest: float = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (attempt - 1)).total_seconds()
        if asked is None:
            return longest * self._chance()
        if asked > LONGEST_PAUSE.total_seconds():
            return None
        # Not sooner than asked, and not all together either.
        return asked + FIRST_PAUSE.total_seconds() * self._chance()
