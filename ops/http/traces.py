"""Traces of requests: each request is a span, in the caller's trace where it sends a ``traceparent``."""

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memcore.telemetry import tracing
from memcore.telemetry.tracing import Attribute

#: Paths that machines ask all the time: a span of each would only be noise.
_UNTRACED = frozenset({"/health", "/ready", "/metrics"})

#: The first status that says that the server failed.
_FAILED = 500


class TraceRequests:
    """Middleware: times a request as a span whose name is its method and route; no path, query or body is told."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http" or not tracing.is_on() or scope["path"] in _UNTRACED:
            await self._app(scope, receive, send)
            return
        method = scope["method"]
        with (
            tracing.continued(Headers(scope=scope).get(tracing.HEADER)),
            tracing.trace(method, {Attribute.HTTP_METHOD: method}, kind="server") as step,
        ):

            async def sending(message: Message) -> None:
                if message["type"] == "http.response.start":
                    status = message["status"]
                    step.set({Attribute.HTTP_STATUS: status})
                    if status >= _FAILED:
                        step.fail(str(status))
                await send(message)

            try:
                await self._app(scope, receive, sending)
            finally:
                # Set by the router; mounted apps have none.
                route = getattr(scope.get("route"), "path", None)
                if route is not None:
                    step.rename(f"{method} {route}")
                    step.set({Attribute.HTTP_ROUTE: route})
