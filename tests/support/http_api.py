"""The HTTP http_api in the test's own process: an app over a stack, and clients with keys of their own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from fastapi import FastAPI

from memcore.config.settings import Settings
from memcore.ledger.access.keys import Verb
from ops.http.app import create_app
from ops.http.context import ServeContext, ServeOptions
from support.memories import new_agent

#: So many that no test waits for its rate.
MANY = ServeOptions(rate_per_second=1e6, burst=1_000_000)

#: Every verb.
ALL = tuple(Verb)


@dataclass(frozen=True, kw_only=True)
class HttpApi:
    """An app that serves a stack."""

    app: FastAPI
    context: ServeContext

    def key(
        self,
        *,
        company: str | None = None,
        agents: list[str] | None = None,
        verbs: tuple[Verb, ...] = ALL,
        channel: str | None = None,
        min_authority: str | None = None,
    ) -> str:
        """Make a key, and return its token."""
        keys = self.context.ledger.api_keys
        return keys.create(
            company or self.context.settings.company,
            name=new_agent("test"),
            verbs=verbs,
            agents=agents,
            channel=channel,
            min_authority=min_authority,
        ).token

    def client(self, token: str | None = None) -> httpx.AsyncClient:
        """Return a client with a key, or without one; close it."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers, timeout=600)


@asynccontextmanager
async def http_api(settings: Settings, options: ServeOptions = MANY) -> AsyncIterator[HttpApi]:
    """Serve a stack in this process for as long as the context is open."""
    context = ServeContext.open(settings, options)
    app = create_app(context)
    async with app.router.lifespan_context(app):
        yield HttpApi(app=app, context=context)


@asynccontextmanager
async def http_client(settings: Settings, **key: Any) -> AsyncIterator[tuple[HttpApi, httpx.AsyncClient]]:
    """Serve a stack in this process, with a client that has a key."""
    async with http_api(settings) as opened, opened.client(opened.key(**key)) as client:
        yield opened, client
