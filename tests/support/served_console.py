"""The console in the test's own process, over a store of its own and a ledger; no worker is there."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from uuid import uuid4

import pytest

import ops.http.context
from memcore.backends.factory import WorkerBackend
from memcore.backends.mem0.backend import plans
from memcore.backends.mem0.config import Mem0Config
from memcore.backends.mem0.hiding import HidingBackend
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.config.urls import LedgerUrls
from memcore.embedding.bm25 import Bm25Encoder
from support.console import console_settings
from support.hashing_embedder import HashingEmbedder
from support.http_api import HttpApi, http_api
from support.memories import NOW
from support.store_servers import StoreAddress

#: Serves a console under a policy, in YAML.
Serve = Callable[..., AbstractAsyncContextManager[tuple[HttpApi, WorkerBackend]]]


@asynccontextmanager
async def served_console(
    urls: LedgerUrls,
    place: Mem0Config,
    store: StoreAddress,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    policy: Policy,
) -> AsyncIterator[tuple[HttpApi, WorkerBackend]]:
    """Serve the company acme under a policy, and return its backend, too; its collections go at the end."""
    prefix = f"console-{uuid4().hex}-"

    def made(settings: Settings, policy: Policy, _times: object) -> HidingBackend:
        company = settings.company
        own = place.model_copy(update={"ledger_url": urls.ledger, "collection": f"{prefix}{company}"})
        plan_of, embedder = plans(policy.memory), HashingEmbedder()
        return HidingBackend(
            own, company=company, embedder=embedder, encoder=Bm25Encoder(), plan_of=plan_of, clock=lambda: NOW
        )

    monkeypatch.setattr(ops.http.context, "_timed_backend", made)
    try:
        async with http_api(console_settings(urls, home)) as opened:
            opened.context.policies.policy = policy
            yield opened, await (await opened.context.service("acme")).resources.backend()
    finally:
        store.drop(prefix)
