"""What went wrong at a language model's server, in our words: which trouble passes, and which does not."""

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus

import orjson
from httpx import ConnectError, ConnectTimeout, InvalidURL, PoolTimeout, TransportError, UnsupportedProtocol

from memcore.bounded_http import Answer, AnswerError
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


def trouble_of(error: AnswerError | TransportError | InvalidURL, *, server: str) -> ProviderError:
    """Return our error for a request that got no answer, or one that breaks a limit.

    Args:
        error: what was raised.
        server: the address without passwords.
    """
    if isinstance(error, InvalidURL):
        return ProviderError(f"MEMTEND_LLM_URL: {server} is no URL")
    if isinstance(error, AnswerError):
        return ProviderUnavailableError(f"the language model's server at {server}: {error}", tokens=None)
    tokens = (0, 0) if isinstance(error, _UNSENT) else None
    problem = type(error).__name__
    return ProviderUnavailableError(f"the language model's server at {server} is away ({problem})", tokens=tokens)


def refusal_of(answer: Answer, *, server: str, now: datetime) -> ProviderError:
    """Return our error for a status that says no.

    Its sentence holds the status and a type, and never the server's words: servers quote the prompt that they refuse.

    Args:
        answer: what the server said.
        server: the address without passwords.
        now: for a Retry-After that is a date.
    """
    kind, code = _kind_and_code(answer.content)
    said = f"the language model's server at {server} answers {answer.status}" + (f" ({kind})" if kind else "")
    if _UNPAID in {code, kind}:
        return ProviderError(f"{said}: its account has no money left")
    if answer.status in _PASSING or answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return ProviderUnavailableError(said, retry_after=asked_wait(answer.headers.get("Retry-After"), now=now))
    return ProviderError(f"{said}: check MEMTEND_LLM_URL, MEMTEND_LLM_API_KEY and the model's name, or see its log")


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


def _kind_and_code(content: bytes) -> tuple[str | None, str | None]:
    try:
        body = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None, None
    told = body.get("error", body) if isinstance(body, dict) else None
    if not isinstance(told, dict):
        return None, None
    kind, code = told.get("type"), told.get("code")
    is_type = isinstance(kind, str) and _TYPE.fullmatch(kind)
    return kind if is_type else None, code if isinstance(code, str) else None
