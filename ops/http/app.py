"""The ASGI app of ``serve``: its routes, its errors, and what stands before them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from ops.http.access import OPEN_PATHS, Authenticate
from ops.http.context import ServeContext
from ops.http.limits import LimitBody
from ops.http.problems import MEDIA_TYPE, CatchDefects, Problem, install_problems
from ops.mcp.server import mount
from ops.metrics.latency import TimeRequests

#: The modules of ``ops.http.routes`` that are served; each has a ``router``.
ROUTERS = (
    "health",
    "memories",
    "conversations",
    "operations",
    "agents",
    "archive",
    "runs",
    "approvals",
    "skills",
    "org",
    "usage",
    "dead_letters",
    "metrics",
    "admin",
    "mem0",
)

_REFERENCE = {"$ref": "#/components/schemas/Problem"}

#: What every route may answer.
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"description": description, "content": {MEDIA_TYPE: {"schema": _REFERENCE}}}
    for status, description in (
        ("4XX", "The request cannot be served as it is; the problem says why."),
        ("5XX", "A part of the installation failed, or does not support this."),
    )
}


def create_app(context: ServeContext) -> FastAPI:
    """Return the app of an installation; it closes the context when it stops."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await context.close()

    app = FastAPI(
        title="memtend",
        summary="Long-term memories of AI agents.",
        version=version("memtend"),
        lifespan=lifespan,
        # One path, one resource: a redirect would lose the body of a POST in many clients.
        redirect_slashes=False,
        redoc_url=None,
        separate_input_output_schemas=False,
    )
    app.state.serving = context
    install_problems(app)
    for name in ROUTERS:
        app.include_router(import_module(f"ops.http.routes.{name}").router, responses=_PROBLEMS)
    mount(app, context)
    # The last one added is the first to see a request.
    app.add_middleware(TimeRequests, times=context.times)
    app.add_middleware(LimitBody, limit=context.options.max_body_bytes)
    app.add_middleware(Authenticate, caller_of=context.callers.of)
    app.add_middleware(CatchDefects)
    app.openapi = lambda: _document(app)  # type: ignore[method-assign]  # FastAPI's own way to change the document
    return app


def _document(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document, with the key and the problems that the middleware answers with."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
        parts = document.setdefault("components", {})
        parts.setdefault("schemas", {})["Problem"] = Problem.model_json_schema()
        parts["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer", "description": "mt_..."}}
        for path, methods in document["paths"].items():
            if path not in OPEN_PATHS:
                for operation in methods.values():
                    operation["security"] = [{"key": []}]
        app.openapi_schema = document
    return app.openapi_schema
