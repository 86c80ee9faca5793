"""What went wrong at a language model's server, in our words: which trouble passes, and which does not."""

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus

from httpx2 import ConnectError, ConnectTimeout, InvalidURL, PoolTimeout, UnsupportedProtocol
from openai import APIError, APIStatusError, APITimeoutError

from memcore.errors import ProviderError, ProviderUnavailableError

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


def trouble_of(error: APIError | TimeoutError | InvalidURL, *, server: str, now: datetime) -> ProviderError:
    """Return our error for the SDK's, or for the time limit of the whole request.

    Its sentence holds a status and a type, and never the server's words: servers quote the prompt that they refuse.

    Args:
        error: what was raised.
        server: the address without passwords.
        now: for a Retry-After that is a date.
    """
    if isinstance(error, APIStatusError):
        return _of_status(error, server=server, now=now)
    if isinstance(error, InvalidURL):
        return ProviderError(f"MEMTEND_LLM_URL: {server} is no URL")
    tokens = (0, 0) if isinstance(error.__cause__, _UNSENT) else None
    if isinstance(error, (APITimeoutError, TimeoutError)):
        return ProviderUnavailableError(f"the language model's server at {server} took too long", tokens=tokens)
    problem = type(error.__cause__ or error).__name__
    return ProviderUnavailableError(f"the language model's server at {server} is away ({problem})", tokens=tokens)


def asked_wait(value: str | None, *, now: datetime) -> float | None:
    """Return the seconds that a Retry-After asks for, given as seconds or as a date; None when it says nothing."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            until = parsedate_to_datetime(value)
        except ValueError:
            return None
        seconds = ((until if until.tzinfo else until.replace(tzinfo=UTC)) - now).total_seconds()
    # "nan" and "inf" are numbers to Python, and no wait.
    return max(0.0, seconds) if abs(seconds) < float("inf") else None


def _of_status(error: APIStatusError, *, server: str, now: datetime) -> ProviderError:
    status = error.status_code
    kind = error.type if isinstance(error.type, str) and _TYPE.fullmatch(error.type) else None
    said = f"the language model's server at {server} answers {status}" + (f" ({kind})" if kind else "")
    if _UNPAID in {error.code, kind}:
        return ProviderError(f"{said}: its account has no money left")
    if status in _PASSING or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return ProviderUnavailableError(
            said, retry_after=asked_wait(error.response.headers.get("Retry-After"), now=now)
        )
    return ProviderError(f"{said}: check MEMTEND_LLM_URL, MEMTEND_LLM_API_KEY and the model's name, or see its log")
