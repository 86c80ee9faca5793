"""Every call that reads, over HTTP, and what of a world it shows."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx
import pytest

import ops.http.context
from memcore.records import Where
from ops.http.context import CompanyService, ServeOptions
from support.erasure_world import ErasureWorld
from support.frozen_parts import AGENT, Call, reading_calls
from support.hashing_embedder import HashingEmbedder
from support.http_api import HttpApi, http_api
from support.ledger_records import COMPANY


@dataclass(frozen=True, kw_only=True)
class Readers:
    """Every call that reads, and the service that Python's calls go through."""

    api: HttpApi
    client: httpx.AsyncClient
    calls: dict[str, Call]

    async def showing(self, secrets: list[str]) -> set[str]:
        """Return the calls whose answers hold any of the texts."""
        found: set[str] = set()
        for name, (method, path, body) in self.calls.items():
            answer = await self.client.request(method, path, json=body)
            assert answer.status_code not in {500, 503}, (name, answer.text)
            if any(secret in answer.text for secret in secrets):
                found.add(name)
        return found

    async def service(self) -> CompanyService:
        return await self.api.context.service(COMPANY)


@asynccontextmanager
async def reading(world: ErasureWorld, patch: pytest.MonkeyPatch) -> AsyncIterator[Readers]:
    """Serve the world with its own embedder; the calls name a memory of AGENT, and ask for its text."""
    patch.setattr(ops.http.context, "create_configured_embedder", lambda *_: HashingEmbedder())
    options = ServeOptions(requires_key=False, rate_per_second=1e6, burst=1_000_000)
    async with http_api(world.settings, options) as api, api.client() as client:
        kept = (await world.backend.scan(Where(agent_id=AGENT), limit=1)).records[0].entry
        yield Readers(api=api, client=client, calls=reading_calls(api, kept.id, question=kept.content))
