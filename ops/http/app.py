"""The ASGI app of ``serve``: its routes, its errors, and what stands before them."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.metadata import version
from typing import Any

import orjson
from fastapi import Depends, FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.openapi.utils import get_openapi
from starlette.responses import Response

from ops.http.access import OPEN_PATHS, Authenticate
from ops.http.context import ServeContext
from ops.http.limits import LimitBody, LimitWaits, checked_address
from ops.http.names import KeepSlashes, restore_slashes
from ops.http.problems import MEDIA_TYPE, CatchDefects, Problem, install_problems
from ops.http.router import app as router
from ops.http.traces import TraceRequests
from ops.mcp.mounting import mount
from ops.metrics.latency import TimeRequests
from ops.web import app as console

#: The modules of ``ops.http.routes`` that are served; each has a ``router``, and ``ERRORS`` where its errors have
#: another form.
ROUTERS = (
    "health",
    "memories",
    "conversations",
    "operations",
    "engines",
    "agents",
    "runs",
    "approvals",
    "usage",
    "erasures",
    "services",
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
        dependencies=[Depends(restore_slashes), Depends(checked_address)],
        # One path, one resource: a redirect would lose the body of a POST in many clients.
        redirect_slashes=False,
        # Below: each of the framework's own would make the document in the event loop, which takes most of a second.
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        separate_input_output_schemas=False,
    )
    app.state.serving = context
    install_problems(app)
    for name in ROUTERS:
        module = import_module(f"ops.http.routes.{name}")
        app.include_router(module.router, responses=getattr(module, "ERRORS", _PROBLEMS))
    mount(app, context)
    router.mount(app, context)
    console.mount(app, context)
    # The last one added is the first to see a request.
    app.add_middleware(KeepSlashes)
    app.add_middleware(TimeRequests, times=context.times)
    app.add_middleware(LimitBody, limit=context.options.max_body_bytes)
    app.add_middleware(Authenticate, caller_of=context.callers.of, requires_key=context.options.requires_key)
    app.add_middleware(LimitWaits)
    app.add_middleware(CatchDefects)
    app.add_middleware(TraceRequests)
    _add_document(app)
    app.openapi = lambda: _document(app)  # type: ignore[method-assign]  # FastAPI's own way to change the document
    return app


def _add_document(app: FastAPI) -> None:
    """Serve the OpenAPI document, made in a thread with the first request for it, and a page that shows it."""
    making = threading.Lock()

    def made() -> bytes:
        with making:
            return orjson.dumps(app.openapi())

    @app.get("/openapi.json", include_in_schema=False)
    async def document() -> Response:
        return Response(await asyncio.to_thread(made), media_type="application/json")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return get_swagger_ui_html(openapi_url="/openapi.json", title="memtend")


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
