"""The app of the console, mounted by ``serve`` under ``/console``: its routes, its files, its errors."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from importlib import import_module
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response
from starlette.staticfiles import StaticFiles

from memcore.errors import MemoryError  # noqa: A004  # the reference fixes the name
from memcore.telemetry.events import Event
from ops.http.access import CONSOLE
from ops.http.context import ServeContext
from ops.http.problems import Problem, log_failure, problem_of, problem_of_validation
from ops.web.pages import error_page
from ops.web.protection import Protect
from ops.web.sessions import Sessions

#: The modules of ``ops.web.routes``; each has a ``router``.
ROUTERS = (
    "sign_in", "activity", "fleet", "whatif", "runs", "lab", "memories", "edits", "approvals", "skills", "distrusts",
    "queues", "cost", "embedder", "audit",
)  # fmt: skip


def mount(app: FastAPI, context: ServeContext) -> FastAPI:
    """Add the console to the app of ``serve``, and return its own app."""
    console = create_console(context)

    @app.get(CONSOLE, include_in_schema=False)
    async def home() -> Response:
        return RedirectResponse(f"{CONSOLE}/activity", HTTPStatus.SEE_OTHER)

    app.mount(CONSOLE, console)
    return console


def create_console(context: ServeContext) -> FastAPI:
    """Return the app of the console over an installation."""
    console = FastAPI(redirect_slashes=False, openapi_url=None, docs_url=None, redoc_url=None)
    console.state.serving = context
    console.state.sessions = Sessions(context.settings, context.ledger.api_keys, clock=context.clock)
    for name in ROUTERS:
        console.include_router(import_module(f"ops.web.routes.{name}").router)
    console.mount("/static", _Files(directory=Path(__file__).parent / "static"))
    for kind, answer in _ANSWERS.items():
        console.add_exception_handler(kind, answer)
    console.add_middleware(Protect, context=context, sessions=console.state.sessions)
    return console


class _Files(StaticFiles):
    """The stylesheet and the script, which browsers ask for again when they have changed."""

    async def get_response(self, path: str, scope: "dict[str, object]") -> Response:  # type: ignore[override]
        found = await super().get_response(path, scope)
        found.headers["Cache-Control"] = "no-cache"
        return found


async def _known(request: Request, error: Exception) -> Response:
    problem = problem_of(error)
    if problem.status >= HTTPStatus.INTERNAL_SERVER_ERROR and problem.status != HTTPStatus.NOT_IMPLEMENTED:
        log_failure(error, request.scope, event=Event.MEMORY_HTTP_UNAVAILABLE)
    return error_page(request, problem)


async def _not_valid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101  # registered for it alone
    return error_page(request, problem_of_validation(error.errors()))


async def _of_framework(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101  # registered for it alone
    is_missing = error.status_code == HTTPStatus.NOT_FOUND
    detail = "the console has no such page" if is_missing else "the page has no such action"
    return error_page(request, Problem.of(error.status_code, detail, code="not_found" if is_missing else "invalid"))


_ANSWERS: dict[type[Exception], Callable[[Request, Exception], Awaitable[Response]]] = {
    MemoryError: _known,
    TimeoutError: _known,
    RequestValidationError: _not_valid,
    HTTPException: _of_framework,
}
