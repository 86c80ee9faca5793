"""One request over HTTP whose answer is bounded: in bytes while it is read, and in time as a whole.

A time limit of httpx holds for one read, so that a byte a second outlasts any; and it reads and unpacks a body whole.
Here the clock runs from the first byte sent to the last one read. What is too long is not read on. Nothing is unpacked:
a compressed answer is not asked for, and refused.
"""

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import cache
from http import HTTPStatus

import httpx

#: How long to wait for a connection; a server that is there answers within milliseconds.
CONNECT_TIMEOUT = timedelta(seconds=10)

#: Longest part of a refusal that is read, in bytes: what kind it is stands at its beginning.
MAX_REFUSAL_BYTES = 65_536


class AnswerError(Exception):
    """The answer breaks a limit; the text names the limit, and nothing of the answer."""


class AnswerTooSlowError(AnswerError):
    """The whole answer was not there in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """What a server answered; the content is empty where it was not to be read."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    def asked_pause(self, *, now: datetime) -> float | None:
        """Return the seconds that a Retry-After asks for, given as seconds or as a date; None when it says nothing."""
        value = self.headers.get("Retry-After")
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


def trusted_for(url: str) -> ssl.SSLContext | bool:
    """Return what httpx takes as ``verify`` for this server.

    To read the web's authorities takes 40 ms of processor time, and a URL without TLS has no use for them. Its clients
    trust nobody then; they do not trust everybody.
    """
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if url.lower().startswith("http://") else True


@cache
def _authorities() -> ssl.SSLContext:
    """Return the web's authorities, and those that the environment names; read once, as a direct client lives shortly.

    httpx asks the environment for them only where it asks it for proxies too.
    """
    return httpx.create_ssl_context()


def open_client(url: str, *, key: str | None = None, is_direct: bool = False) -> httpx.AsyncClient:
    """Return a client for ``ask`` and one server, to be used from one event loop.

    The key is its bearer token, never redirected. A direct client uses no proxy of the environment: it connects to the
    address that it is given, and to no other.
    """
    headers = {"Accept": "application/json", "Accept-Encoding": "identity", "Content-Type": "application/json"}
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    timeout = httpx.Timeout(None, connect=CONNECT_TIMEOUT.total_seconds())
    trusted = trusted_for(url)
    if is_direct and trusted is True:
        trusted = _authorities()
    return httpx.AsyncClient(headers=headers, timeout=timeout, verify=trusted, trust_env=not is_direct)


async def ask(
    client: httpx.AsyncClient,
    method: str,
    url: str,
    *,
    content: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    max_bytes: int | None,
    within: timedelta,
    server_name: str | None = None,
) -> HttpResponse:
    """Send JSON with a client of ``open_client``, and return the answer, whatever its status.

    Connecting, sending and reading may take so long together. At most ``max_bytes`` of the body are read, None reads
    none of it, and of a refusal only the beginning is read. Where the URL has an address in the place of the server's
    name, ``server_name`` is the name that its certificate must have.

    Raises:
        AnswerError: it breaks one of both limits, or is compressed.
        httpx.TransportError, httpx.InvalidURL: as httpx raises them.
    """
    extensions = {} if server_name is None else {"sni_hostname": server_name}
    try:
        async with (
            asyncio.timeout(within.total_seconds()),
            client.stream(method, url, content=content, headers=headers, extensions=extensions) as response,
        ):
            body = b"" if max_bytes is None else await _read(response, max_bytes)
            return HttpResponse(status=response.status_code, headers=response.headers, content=body)
    except TimeoutError:
        raise AnswerTooSlowError(f"no whole answer within {within.total_seconds():g} s") from None


async def _read(response: httpx.Response, max_bytes: int) -> bytes:
    is_refusal = response.status_code >= HTTPStatus.MULTIPLE_CHOICES
    coding = response.headers.get("Content-Encoding", "identity")
    if coding.lower() != "identity":
        if is_refusal:
            return b""
        known = coding if coding.isalpha() and coding.isascii() else "unknown"
        raise AnswerError(f"its answer is coded as {known}, which was not asked for")
    most = MAX_REFUSAL_BYTES if is_refusal else max_bytes
    announced = response.headers.get("Content-Length", "0")
    body = bytearray()
    if not announced.isdecimal() or int(announced) <= most:
        async for part in response.aiter_raw():
            body += part
            if len(body) > most:
                break
        else:
            return bytes(body)
    if is_refusal:
        return bytes(body[:most])
    raise AnswerError(f"its answer has more than {max_bytes} bytes")
