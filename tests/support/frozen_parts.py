"""An installation whose store, ledger and broker can be frozen each, and a walk over every call that reads."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

import httpx
from fastapi.routing import APIRoute
from pydantic import SecretStr
from sqlalchemy.engine import URL, make_url

from memcore.config.settings import Settings
from memcore.ledger.migrate import migrate_installation
from ops.http import app as api_app
from ops.http.access import CONSOLE
from ops.http.context import ServeOptions
from ops.web import app as console
from support.freezing_proxy import FreezingProxy, freezing_proxy
from support.http_api import HttpApi, http_api
from support.store_servers import StoreAddress
from support.valkey_servers import valkey_server

AGENT, OK = "ada", 200

#: A call over HTTP: method, path and body.
Call = tuple[str, str, dict[str, object] | None]

#: Routes that stay open until an operation ends.
_STREAMS = "/events"


@dataclass(frozen=True, kw_only=True)
class Answered:
    """What a call answered, and when."""

    call: str
    seconds: float
    status: int
    body: str = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class FrozenParts:
    """The settings, which name the proxies, and the proxies by part."""

    settings: Settings
    proxies: dict[str, FreezingProxy]


@contextmanager
def frozen_parts(path: Path, *, store: StoreAddress, ledger_url: str) -> Iterator[FrozenParts]:
    """Yield an installation over a store server and a PostgreSQL database, with a broker of its own."""
    store_url, ledger = httpx.URL(store.url), make_url(ledger_url)
    with ExitStack() as opened:
        broker = opened.enter_context(valkey_server(path / "broker"))
        proxies = {
            "store": opened.enter_context(freezing_proxy((store_url.host, store_url.port or 0))),
            "ledger": opened.enter_context(freezing_proxy(_server_of(ledger))),
            "broker": opened.enter_context(freezing_proxy(("127.0.0.1", broker.port))),
        }
        database = ledger.set(host="127.0.0.1", port=proxies["ledger"].port, query={})
        settings = Settings(
            broker_url=broker.url.replace(str(broker.port), str(proxies["broker"].port)),
            database_url=database.render_as_string(hide_password=False),
            qdrant_url=f"http://127.0.0.1:{proxies['store'].port}",
            qdrant_api_key=SecretStr(store.api_key),
            company=f"frozen_{uuid.uuid4().hex[:8]}",
            home=path,
        )
        migrate_installation(settings)
        yield FrozenParts(settings=settings, proxies=proxies)


def _server_of(ledger: URL) -> tuple[str, int] | str:
    port, folder = ledger.port or 5432, ledger.query.get("host")
    return f"{folder}/.s.PGSQL.{port}" if folder else (ledger.host or "127.0.0.1", port)


@asynccontextmanager
async def reading_api(parts: FrozenParts) -> AsyncIterator[tuple[HttpApi, httpx.AsyncClient, str]]:
    """Serve the installation without keys, with one memory of AGENT, whose id comes last."""
    async with http_api(parts.settings, ServeOptions(requires_key=False, rate_per_second=1e6, burst=1_000_000)) as api:
        service = await api.context.service(parts.settings.company)
        kept = await service.engine.put(AGENT, "The payment queue pages at 500 messages.")
        async with api.client() as client:
            (await client.post(f"/v1/agents/{AGENT}/search", json={"text": "payment queue"})).raise_for_status()
            yield api, client, kept.id


def reading_calls(api: HttpApi, memory_id: str, *, question: str = "payment queue", **more: str) -> dict[str, Call]:
    """Return every call that reads, by name: method, path and body. The paths are the app's, so that none is missed."""
    job = api.context.operations.issue(api.context.settings.company, AGENT, [str(uuid.uuid4())])
    values = {"agent_id": AGENT, "memory_id": memory_id, "operation_id": job, **more}
    calls: dict[str, Call] = {}
    modules = [("", f"ops.http.routes.{name}") for name in api_app.ROUTERS]
    modules += [(CONSOLE, f"ops.web.routes.{name}") for name in console.ROUTERS]
    for prefix, module in modules:
        for route in import_module(module).router.routes:
            if isinstance(route, APIRoute) and "GET" in (route.methods or ()) and not route.path.endswith(_STREAMS):
                names = {name: values.get(name, str(uuid.uuid4())) for name in route.param_convertors}
                calls[f"GET {prefix}{route.path}"] = ("GET", prefix + route.path_format.format(**names), None)
    place, about = f"/v1/agents/{AGENT}", {"text": question}
    tool = {"name": "search_memory", "arguments": {"query": question}}
    posts: dict[str, dict[str, object]] = {
        f"{place}/search": dict(about),
        f"{place}/context": {**about, "token_budget": 500},
        f"{place}/ask": {"question": question},
        f"{place}/ask/events": {"question": question},
        f"{place}/conversations/load": {**about, "user_id": "bo", "token_budget": 500},
        f"{place}/tools:call": dict(tool),
        "/v1/org/search": {"context": question, "standing": "any"},
        "/v3/memories/search/": {"query": question, "filters": {"agent_id": AGENT}},
        "/v3/memories/": {"filters": {"agent_id": AGENT}},
    }
    return calls | {f"POST {path}": ("POST", path, body) for path, body in posts.items()}


async def until_answered(client: httpx.AsyncClient, *calls: Call) -> None:
    """Wait until a prompt is whole again, and these calls succeed: the pause of every circuit breaker must be over."""
    until, body = time.monotonic() + 60, {"text": "payment queue", "token_budget": 500, "require_all": True}
    for method, path, given in (("POST", f"/v1/agents/{AGENT}/context", body), *calls):
        while (await client.request(method, path, json=given)).status_code != OK:
            assert time.monotonic() < until, f"the part answers, and {path} does not"
            await asyncio.sleep(0.1)


async def ask(client: httpx.AsyncClient, call: str, method: str, path: str, body: object) -> Answered:
    began = time.monotonic()
    answer = await asyncio.wait_for(client.request(method, path, json=body), timeout=120)
    return Answered(call=call, seconds=time.monotonic() - began, status=answer.status_code, body=answer.text)
