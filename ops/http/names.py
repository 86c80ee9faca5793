"""Names in a path: a slash that a client wrote as ``%2F`` belongs to a name, such as an agent's id, not to the path."""

import re
from urllib.parse import unquote

from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from ops.http.access import is_of_console

_ESCAPED = re.compile("%2F", re.IGNORECASE)

#: Stands for it in a path until a route is found; no text of a client decodes to it.
_SLASH = "\udcaf"


class KeepSlashes:
    """Middleware: routes take the escaped slashes of a path for a part of its names; see ``restore_slashes``.

    The console has no such names in its paths.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        parts = _ESCAPED.split((scope.get("raw_path") or b"").partition(b"?")[0].decode("latin-1"))
        if len(parts) > 1 and not is_of_console(scope["path"]):
            # In place: the middleware before this one reads there which route it was.
            scope["path"] = _SLASH.join(map(unquote, parts))
        await self._app(scope, receive, send)


async def restore_slashes(request: Request) -> None:
    """Give the path of a request, and the names in it, their slashes back: before anything reads them."""
    names, scope = request.path_params, request.scope
    names |= {name: value.replace(_SLASH, "/") for name, value in names.items()}
    scope["path"] = scope["path"].replace(_SLASH, "/")
