"""A browser without script for the console: it keeps cookies, and sends the token of the page with each form."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Self

import httpx
from fastapi import FastAPI

from memcore.config.settings import Settings
from memcore.config.urls import LedgerUrls

#: The address that the tests' requests name.
ORIGIN = "http://api"

#: Pages that a company without agents has, too.
PAGES = (
    "activity",
    "activity/tests",
    "fleet",
    "runs",
    "memories",
    "approvals",
    "skills",
    "distrusts",
    "queues",
    "cost",
    "embedder",
    "audit",
)

_TOKEN = re.compile(r'name="csrf" value="([^"]+)"')


def console_settings(ledger: LedgerUrls, home: Path, *, broker: str = "one") -> Settings:
    """Return settings of an installation of which only the ledger is there."""
    return Settings(
        broker_url=f"redis://:{broker}@127.0.0.1:1/0",
        database_url=ledger.ledger,
        journal_url=ledger.journal,
        qdrant_url="http://127.0.0.1:2",
        home=home,
        company="acme",
    )


class ConsoleClient:
    """Visits pages and sends forms, as a browser with this address does."""

    def __init__(self, app: FastAPI, *, origin: str = ORIGIN) -> None:
        self._origin = origin
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        self.http = httpx.AsyncClient(transport=transport, base_url=origin, timeout=600)
        self.page = ""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.http.aclose()

    async def get(self, path: str, status: int = HTTPStatus.OK) -> str:
        """Load a page of the console, and return its text."""
        answer = await self.http.get(f"/console/{path}")
        assert answer.status_code == status, (path, answer.status_code, answer.headers.get("location"))
        self.page = answer.text if answer.headers.get("content-type", "").startswith("text/html") else self.page
        return answer.text

    async def send(self, path: str, **fields: str) -> httpx.Response:
        """Send a form with the token of the page that was loaded last, and return the answer, a redirect mostly."""
        found = _TOKEN.search(self.page)
        token = {"csrf": "" if found is None else found[1]}
        return await self.raw(path, {**token, **fields})

    async def decide(self, path: str, **fields: str) -> httpx.Response:
        """Send a form with a reason, and require that it was carried out."""
        answer = await self.send(path, confirm="yes", reason="the test says so", **fields)
        assert answer.status_code == HTTPStatus.SEE_OTHER, answer.text
        return answer

    async def raw(self, path: str, fields: dict[str, str], *, origin: str | None = None) -> httpx.Response:
        """Send a form as it is given."""
        return await self.http.post(f"/console/{path}", data=fields, headers={"Origin": origin or self._origin})

    async def sign_in(self, token: str, target: str = "/console/fleet") -> httpx.Response:
        """Sign in with a key."""
        await self.get("sign-in")
        return await self.send("sign-in", key=token, next=target)


@asynccontextmanager
async def signed_in(app: FastAPI, token: str) -> AsyncIterator[ConsoleClient]:
    """Return a browser in which a person has signed in with a key."""
    async with ConsoleClient(app) as client:
        answer = await client.sign_in(token)
        assert answer.status_code == HTTPStatus.SEE_OTHER, answer.text
        yield client
