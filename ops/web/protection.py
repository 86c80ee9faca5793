"""What stands before every page of the console: who asks, from where, with which token; and the headers of answers."""

import asyncio
import hmac
from collections.abc import MutableMapping
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from fastapi import Request
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memcore.errors import MemoryError, MemoryInputError  # noqa: A004  # the reference fixes the name
from memcore.models.origin import ENGINE, Channel, writing_as
from ops.http.access import CONSOLE, is_same_origin, require_loopback
from ops.http.context import ServeContext
from ops.http.problems import CatchDefects, MemoryForbiddenError, MemoryUnauthorizedError, problem_of
from ops.web.forms import FORM, parsed
from ops.web.pages import error_page
from ops.web.sessions import COOKIE, NOBODYS_COOKIE, SESSION, Session, Sessions, cookie_of, set_cookie

#: Pages that need no session.
SIGN_IN = f"{CONSOLE}/sign-in"
_STATIC = f"{CONSOLE}/static/"

_FORM_TYPE = "application/x-www-form-urlencoded"
_SAFE = frozenset({"GET", "HEAD"})

#: Headers of every answer. Nothing inline is run or shown, so that a text that came through unescaped would do nothing.
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "object-src 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # With no-referrer, browsers would send the origin of a form as null.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Protect:
    """Middleware: refuses what is not signed in, comes from another site, or carries no token of its session."""

    def __init__(self, app: ASGIApp, *, context: ServeContext, sessions: Sessions) -> None:
        self._app = app
        self._context = context
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                _add_headers(MutableHeaders(scope=message), scope)
            await send(message)

        answer: ASGIApp
        writer = ENGINE
        try:
            await self._admit(scope, receive)
            scope["query_string"] = _filled(scope["query_string"])
            answer = self._app
            if "caller" in scope:
                # A person who runs the installation writes here, as far as the key may claim it.
                writer = scope["caller"].writer.model_copy(update={"usual": Channel.OPERATOR})
        except MemoryUnauthorizedError:
            answer = _to_sign_in(scope)
        except MemoryError as error:
            answer = error_page(Request(scope), problem_of(error))
        with writing_as(writer):
            await CatchDefects(answer, page=_page_of)(scope, receive, sending)

    async def _admit(self, scope: Scope, receive: Receive) -> None:
        headers = Headers(scope=scope)
        if not self._context.options.requires_key:
            require_loopback(headers.get("host", ""))
        if scope["path"].startswith(_STATIC):
            return
        if scope["method"] not in _SAFE:
            _require_same_origin(headers)
        scope[SESSION] = await self._session(scope, headers)
        if scope["method"] not in _SAFE:
            if headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM_TYPE:
                raise MemoryInputError("content-type", f"must be {_FORM_TYPE}")
            form = parsed(await Request(scope, receive).body())
            if not hmac.compare_digest(scope[SESSION].csrf.encode(), form.fields.get("csrf", "").encode()):
                raise MemoryForbiddenError("the form is not one of this session's: load the page again")
            scope[FORM] = form

    async def _session(self, scope: MutableMapping[str, Any], headers: Headers) -> Session:
        is_open = scope["path"] == SIGN_IN
        if is_open or not self._context.options.requires_key:
            if not is_open:
                scope["caller"] = await self._context.callers.of_session(None, self._sessions.key_of)
            return self._sessions.nobodys(cookie_of(headers, NOBODYS_COOKIE))
        cookie = cookie_of(headers, COOKIE)
        if cookie is None or self._sessions.has_ended(cookie):
            raise MemoryUnauthorizedError("sign in with a key; see `memtend keys create`")
        scope["caller"] = await self._context.callers.of_session(cookie, self._sessions.key_of)
        session = await asyncio.to_thread(self._sessions.session_of, cookie)
        if session is None:
            raise MemoryUnauthorizedError("the key is not valid, or was revoked")
        return session


def _require_same_origin(headers: Headers) -> None:
    # Browsers send it with each form.
    if not is_same_origin(headers):
        raise MemoryForbiddenError("the form was sent from another site; a proxy must pass the header Host on")


def _filled(query: bytes) -> bytes:
    # A browser sends each field of a form, also those that nobody filled in.
    return b"&".join(pair for pair in query.split(b"&") if pair.partition(b"=")[2])


def _to_sign_in(scope: Scope) -> Response:
    query = scope["query_string"].decode("latin-1")
    here = scope["path"] + (f"?{query}" if query else "")
    target = f"?next={quote(here, safe='')}" if scope["method"] in _SAFE else ""
    return RedirectResponse(SIGN_IN + target, HTTPStatus.SEE_OTHER)


def _page_of(error: Exception, scope: Scope) -> ASGIApp:
    return error_page(Request(scope), problem_of(error))


def _add_headers(headers: MutableHeaders, scope: Scope) -> None:
    for name, value in HEADERS.items():
        headers[name] = value
    headers.setdefault("Cache-Control", "no-store")
    session: Session | None = scope.get(SESSION)
    if session is not None and session.is_new and "set-cookie" not in headers:
        carrier = Response()
        set_cookie(carrier, session, is_secure=scope["scheme"] == "https")
        headers.append("Set-Cookie", carrier.headers["set-cookie"])
