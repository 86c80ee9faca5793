"""Approvals over a real ledger and a real store, empty for each test."""

import asyncio
import warnings
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from qdrant_client import QdrantClient
from qdrant_client.models import Filter, FilterSelector
from support.hashing_embedder import HashingEmbedder
from support.ledger_records import StoppedClock
from support.skill_publication import SkillWorld, Store

from memcore.backends.inmemory import InMemoryBackend
from memcore.backends.mem0.backend import Mem0Backend
from memcore.backends.mem0.config import Mem0Config
from memcore.config.urls import LedgerUrls
from memcore.embedding.bm25 import Bm25Encoder
from memcore.ledger.ledger import Ledger

COMPANY = "acme"


@pytest.fixture
async def backend(
    shared_place: Mem0Config, sqlite_ledger: LedgerUrls, clock: StoppedClock
) -> AsyncIterator[Mem0Backend]:
    collection = Mem0Config.collection_of("approvals")
    place = shared_place.model_copy(update={"ledger_url": sqlite_ledger.ledger, "collection": collection})
    made = Mem0Backend(place, company=COMPANY, embedder=HashingEmbedder(), encoder=Bm25Encoder(), clock=clock)
    await made.connect()
    key = None if place.api_key is None else place.api_key.get_secret_value()
    with warnings.catch_warnings():
        # the key travels over loopback
        warnings.filterwarnings("ignore", message="Api key is used with an insecure connection")
        client = QdrantClient(place.url, api_key=key, check_compatibility=False, timeout=600)
    # The ledger is a new one for each test, and so must the store be.
    client.delete(place.collection, points_selector=FilterSelector(filter=Filter()), wait=True)
    client.close()
    yield made
    await made.disconnect()


@pytest.fixture(params=["inmemory", "mem0"])
def world(request: pytest.FixtureRequest, ledger: Ledger, clock: StoppedClock, tmp_path: Path) -> SkillWorld:
    """Skills over each store of shared knowledge."""
    if request.param == "inmemory":
        store: Store = InMemoryBackend(company=COMPANY, clock=clock)
        asyncio.run(store.connect())
    else:
        store = request.getfixturevalue("backend")
    return SkillWorld(store, ledger, tmp_path / "skills", clock)
