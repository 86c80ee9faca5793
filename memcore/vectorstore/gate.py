"""The gate before every call: who may pass, and when they came."""

import hmac
import time

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from memcore.vectorstore.answers import ARRIVED, refusal
from memcore.vectorstore.refusal import UnauthorizedError

#: Paths that tell no more than that a server is there and which API it speaks (the same as Qdrant's).
_OPEN_PATHS = frozenset({"/", "/healthz", "/livez", "/readyz"})


class Gate:
    """Middleware that checks the API key in constant time.

    Args:
        app: what lies behind the gate.
        api_key: the key expected in the header ``api-key`` or as a bearer token; None lets everybody pass.
    """

    def __init__(self, app: ASGIApp, *, api_key: str | None) -> None:
        self._app = app
        self._api_key = None if api_key is None else api_key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer 401."""
        if scope["type"] == "http":
            scope[ARRIVED] = time.perf_counter()
            if self._api_key is not None and scope["path"] not in _OPEN_PATHS and not self._knows(Request(scope)):
                message = "Must provide an API key or an Authorization bearer token that this store server knows"
                answer = refusal(Request(scope), UnauthorizedError.status, message)
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _knows(self, request: Request) -> bool:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        given = request.headers.get("api-key") or (token if scheme.lower() == "bearer" else "")
        return hmac.compare_digest(given.encode(), self._api_key or b"")
