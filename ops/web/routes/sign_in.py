"""Sign in with a key, sign out, and choose the look."""

import asyncio
from http import HTTPStatus
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from memcore.ledger.organization.audit import done_by
from ops.http.access import CONSOLE
from ops.http.context import Serving
from ops.web.forms import Form
from ops.web.pages import THEME_COOKIE, THEMES, page
from ops.web.protection import SIGN_IN
from ops.web.sessions import COOKIE, Sessions, set_cookie

router = APIRouter()

#: Where people come in.
_HOME = f"{CONSOLE}/activity"

#: How long the look is kept, in seconds (a year).
_THEME_SECONDS = 31_536_000


@router.get("/sign-in")
async def show(
    request: Request, serving: Serving, target: Annotated[str, Query(alias="next", max_length=4_096)] = _HOME
) -> Response:
    """Ask for a key; where the server asks for none, go on."""
    if not serving.options.requires_key:
        return RedirectResponse(_HOME, HTTPStatus.SEE_OTHER)
    return page(request, "sign_in", target=inside(target), is_wrong=False)


@router.post("/sign-in")
async def sign_in(request: Request, serving: Serving, form: Form) -> Response:
    """Begin a session with a key; the audit has it."""
    target = inside(form.optional("next") or _HOME)
    sessions: Sessions = request.app.state.sessions
    key = await asyncio.to_thread(serving.ledger.api_keys.of_token, form.optional("key") or "")
    session = None if key is None else await asyncio.to_thread(sessions.begin, key.key_id)
    if key is None or session is None:
        return page(request, "sign_in", status=HTTPStatus.FORBIDDEN, target=target, is_wrong=True)
    await asyncio.to_thread(serving.ledger.audit.note, key.company, done_by(key.name, "console.sign_in", key.key_id))
    answer = RedirectResponse(target, HTTPStatus.SEE_OTHER)
    set_cookie(answer, session, is_secure=request.url.scheme == "https")
    return answer


@router.post("/sign-out")
async def sign_out(_form: Form) -> Response:
    """End the session in this browser."""
    answer = RedirectResponse(SIGN_IN, HTTPStatus.SEE_OTHER)
    answer.delete_cookie(COOKIE, path=CONSOLE, httponly=True, samesite="strict")
    return answer


@router.post("/theme")
async def choose_theme(form: Form) -> Response:
    """Choose the look: that of the system, light, or dark."""
    answer = RedirectResponse(inside(form.optional("back") or _HOME), HTTPStatus.SEE_OTHER)
    theme = form.text("theme")
    if theme in THEMES:
        answer.set_cookie(THEME_COOKIE, theme, max_age=_THEME_SECONDS, path=CONSOLE, httponly=True, samesite="strict")
    return answer


def inside(target: str) -> str:
    """Return an address if it is one of the console's, else its first page: a form leads to no other site."""
    try:
        split = urlsplit(target)
    except ValueError:
        return _HOME
    is_inside = not split.scheme and not split.netloc and split.path.startswith(f"{CONSOLE}/") and "\\" not in target
    is_plain = target.isprintable() and ".." not in split.path.split("/")
    return target if is_inside and is_plain else _HOME
