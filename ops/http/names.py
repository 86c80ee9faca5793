"""Names in a path: a slash that a client wrote as ``%2F`` belongs to a name, such as an agent's id, not to the path."""

import re
from typing import Any
from urllib.parse import unquote

from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send

_ESCAPED = re.compile("%2F", re.IGNORECASE)

#: Stands for it in a path until a route is found; no text of a client decodes to it.
_SLASH = "\udcaf"


class KeepSlashes:
    """Middleware: routes take the escaped slashes of a path for a part of its names; see ``restored``."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        parts = _ESCAPED.split(scope.get("raw_path", b"").partition(b"?")[0].decode("latin-1"))
        if len(parts) > 1:
            scope = {**scope, "path": _SLASH.join(map(unquote, parts))}
        await self._app(scope, receive, send)


def restored(path_params: dict[str, Any]) -> None:
    """Give the names of a request their slashes back, in place."""
    for name, value in path_params.items():
        path_params[name] = value.replace(_SLASH, "/")


async def restored_names(request: Request) -> None:
    """As a dependency, give the names of a request their slashes back."""
    restored(request.path_params)


def escaped(path: str) -> str:
    """Return a request's path as a client may write it, as far as slashes go."""
    return path.replace(_SLASH, "%2F")
