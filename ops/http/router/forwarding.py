"""What the router sends on and gives back: the same bytes and headers, but for those of one connection."""

from collections.abc import Iterable, Iterator
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import NamedTuple

import httpx

from memcore.bounded_http import CONNECT_TIMEOUT, trusted_for
from memcore.errors import ProviderUnavailableError

#: Begins the names of headers that are for the router alone.
OWN = "x-memtend-"

#: Of one connection alone (RFC 9110, 7.6.1), or made anew by whoever sends.
_OF_A_CONNECTION = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer"}
    | {"transfer-encoding", "upgrade"}
)
_SENT_ANEW = _OF_A_CONNECTION | {"host", "content-length", "accept-encoding", "expect"}
_GIVEN_ANEW = _OF_A_CONNECTION | {"date", "server"}

#: How long a model may say nothing, in seconds: the longest that its own clients wait.
SILENT_SECONDS = 600.0

_TIMEOUT = httpx.Timeout(SILENT_SECONDS, connect=CONNECT_TIMEOUT.total_seconds())

#: Headers as they are on the wire.
Headers = list[tuple[bytes, bytes]]


class Upstream(NamedTuple):
    """A server of language models, by its name in the policy."""

    name: str
    url: str


def passed_on(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the headers of a request that the upstream gets; the answer is asked for uncompressed, to be read."""
    return [*_without(headers, _SENT_ANEW), (b"accept-encoding", b"identity")]


def given_back(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the headers of an answer that the caller gets."""
    return list(_without(headers, _GIVEN_ANEW))


def _without(headers: Iterable[tuple[bytes, bytes]], left_out: frozenset[str]) -> Iterator[tuple[bytes, bytes]]:
    headers = list(headers)
    # What the header Connection names is of the connection, too.
    named = {
        name.strip().lower()
        for key, value in headers
        if key.lower() == b"connection"
        for name in value.decode("latin-1").split(",")
    }
    for key, value in headers:
        name = key.decode("latin-1").lower()
        if name not in left_out and name not in named and not name.startswith(OWN):
            yield key, value


class Upstreams:
    """The clients of the servers that the policies name, each opened with its first request; close them."""

    def __init__(self) -> None:
        self._clients: dict[str, httpx.AsyncClient] = {}

    async def send(
        self, upstream: Upstream, method: str, path: str, *, query: bytes, headers: Headers, body: bytes
    ) -> httpx.Response:
        """Send a request on, and return the answer, of which nothing is read yet; close it.

        No redirect is followed: it would carry the caller's key to another server.

        Raises:
            ProviderUnavailableError: the server does not answer.
        """
        # Made by hand: a client would add headers of its own, and the cookies of other callers.
        request = httpx.Request(
            method,
            httpx.URL(f"{upstream.url}/{path}", query=query or None),
            headers=headers,
            content=body or None,
            extensions={"timeout": _TIMEOUT.as_dict()},
        )
        try:
            return await self._client(upstream.url).send(request, stream=True, follow_redirects=False)
        except httpx.HTTPError as error:
            kind = type(error).__name__
            raise ProviderUnavailableError(f"the upstream {upstream.name} does not answer: {kind}") from None

    def _client(self, url: str) -> httpx.AsyncClient:
        found = self._clients.get(url)
        if found is None:
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=100)
            jar = CookieJar(DefaultCookiePolicy(allowed_domains=()))
            found = self._clients[url] = httpx.AsyncClient(verify=trusted_for(url), limits=limits, cookies=jar)
        return found

    async def close(self) -> None:
        """Close the connections."""
        for client in self._clients.values():
            await client.aclose()
        self._clients.clear()
