"""Every shared knowledge store that must keep the contract, empty for each test."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from qdrant_client import QdrantClient
from support.ledger_records import copied_urls
from support.memories import StoppedClock
from support.publications import COMPANY, MakeBackend, Sharing, emptied
from support.thorough import also_thorough

from memcore.backends.composite import CompositeBackend
from memcore.backends.inmemory import InMemoryBackend
from memcore.backends.mem0.config import Mem0Config

#: Names the Qdrant server to test against; the collection that is made there is dropped again.
QDRANT_URL = "MEMTEND_TEST_QDRANT_URL"

# Their logs differ and nothing else, which integration/ledger/test_shared_log.py tries on both databases.
MEM0 = ["mem0", *also_thorough(pytest.param("mem0-with-postgresql", marks=pytest.mark.service))]


@pytest.fixture(scope="session")
def made_place(shared_place: Mem0Config, tmp_path_factory: pytest.TempPathFactory, ledger_template: Path) -> Mem0Config:
    """A collection of a store server, and a log on SQLite."""
    ledger_url = copied_urls(ledger_template, tmp_path_factory.mktemp("ledger")).ledger
    collection = Mem0Config.collection_of("shared_contract")
    return shared_place.model_copy(update={"ledger_url": ledger_url, "collection": collection})


@pytest.fixture(scope="session")
def qdrant_place(made_place: Mem0Config) -> Iterator[Mem0Config]:
    """A collection of the Qdrant server that the environment names."""
    if not (url := os.environ.get(QDRANT_URL)):
        pytest.skip(f"needs a Qdrant server, named by {QDRANT_URL}")
    place = made_place.model_copy(update={"url": url, "api_key": None})
    yield place
    client = QdrantClient(url)
    client.delete_collection(place.collection)
    client.close()


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


def named_place(request: pytest.FixtureRequest, name: str) -> Mem0Config:
    if name == "mem0-on-a-qdrant-server":
        found: Mem0Config = request.getfixturevalue("qdrant_place")
        return found
    found = request.getfixturevalue("made_place")
    if name == "mem0-with-postgresql":
        return found.model_copy(update={"ledger_url": request.getfixturevalue("postgres_url")})
    return found


@pytest.fixture(params=MEM0)
def place(request: pytest.FixtureRequest) -> Mem0Config:
    return named_place(request, request.param)


@pytest.fixture
async def make_backend(place: Mem0Config, clock: StoppedClock) -> MakeBackend:
    return await emptied(place, clock)


@pytest.fixture(
    params=["inmemory", "composite", *MEM0, pytest.param("mem0-on-a-qdrant-server", marks=pytest.mark.service)]
)
async def backend(request: pytest.FixtureRequest, clock: StoppedClock) -> AsyncIterator[Sharing]:
    made: Sharing = InMemoryBackend(company=COMPANY, clock=clock)
    if request.param == "composite":
        children = {"other": InMemoryBackend(company=COMPANY, clock=clock), "inmemory": made}
        made = CompositeBackend(children, routes={"office": "other"}, default="inmemory", company=COMPANY, clock=clock)
    elif request.param != "inmemory":
        made = (await emptied(named_place(request, request.param), clock))()
    await made.connect()
    yield made
    await made.disconnect()
