"""What this process of ``serve`` measures itself: requests by route, searches, and the embedding of their questions."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ops.metrics import families
from ops.metrics.exposition import Histogram, Samples

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memcore.embedding.protocol import Embedder

#: Upper bounds in seconds: a question to a model in this process takes under a millisecond, a search some.
BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)

#: The routes that search memories.
SEARCH_ROUTES = frozenset(
    {
        "/v1/agents/{agent_id}/search",
        "/v1/agents/{agent_id}/context",
        "/v3/memories/search/",
        "/v2/memories/search/",
        "/search",
    }
)

#: The route of a request that none was found for: a caller chooses paths, and each would be a series of its own.
_NO_ROUTE = "none"


class ServeTimes:
    """The times and counts of one process."""

    def __init__(self) -> None:
        self.embed = Histogram(BOUNDS)
        self.search = Histogram(BOUNDS)
        self.requests: Counter[tuple[str, str]] = Counter()

    def add_to(self, samples: Samples) -> None:
        """Show them in a scrape."""
        samples.show(families.EMBED, self.embed)
        samples.show(families.SEARCH, self.search)
        for (route, status), count in self.requests.items():
            samples.set(families.REQUESTS, count, route=route, status=status)


class TimedEmbedder:
    """An embedder whose questions are timed; see memcore.embedding.protocol.Embedder."""

    def __init__(
        self, inner: "Embedder", times: ServeTimes, *, seconds: Callable[[], float] = time.perf_counter
    ) -> None:
        self._inner = inner
        self._times = times
        self._seconds = seconds
        self.name, self.kind, self.dims = inner.name, inner.kind, inner.dims

    def embed_documents(self, texts: Sequence[str], /) -> "NDArray[np.float32]":
        """Embed memories; untimed, for serve embeds them alone where it changes one."""
        return self._inner.embed_documents(texts)

    def embed_query(self, text: str, /) -> "NDArray[np.float32]":
        """Embed a question."""
        began = self._seconds()
        vector = self._inner.embed_query(text)
        self._times.embed.observe(self._seconds() - began)
        return vector


class TimeRequests:
    """Middleware: counts requests by route and status, and times those that search."""

    def __init__(self, app: ASGIApp, *, times: ServeTimes, seconds: Callable[[], float] = time.perf_counter) -> None:
        self._app = app
        self._times = times
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = self._seconds(), "5xx"

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = f"{message['status'] // 100}xx"
            await send(message)

        try:
            await self._app(scope, receive, sending)
        finally:
            # Set by the router; mounted apps have none.
            route = getattr(scope.get("route"), "path", _NO_ROUTE)
            self._times.requests[route, status] += 1
            if route in SEARCH_ROUTES and status == "2xx":
                self._times.search.observe(self._seconds() - began)
