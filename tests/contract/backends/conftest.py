"""Every backend that must keep the contract, on a real store where it needs one."""

import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr
from support.hashing_embedder import HashingEmbedder
from support.ledger_records import copied_urls, postgres_database
from support.memories import StoppedClock
from support.thorough import also_thorough

from memcore.backends.composite import CompositeBackend
from memcore.backends.factory import WorkerBackend
from memcore.backends.inmemory import InMemoryBackend
from memcore.backends.mem0.backend import Mem0Backend
from memcore.backends.mem0.config import Mem0Config
from memcore.embedding.bm25 import Bm25Encoder
from memcore.ledger.migrate import migrate_history

#: Names the Qdrant server to test against; its collections memtend_contract and memtend_contract-of-others are ours.
QDRANT_URL = "MEMTEND_TEST_QDRANT_URL"

#: Its key, if it asks for one.
QDRANT_API_KEY = "MEMTEND_TEST_QDRANT_API_KEY"

#: Makes a disconnected backend of a company.
Build = Callable[[str], WorkerBackend]


@pytest.fixture(scope="session")
def own_store(shared_place: Mem0Config, tmp_path_factory: pytest.TempPathFactory, ledger_template: Path) -> Mem0Config:
    ledger_url = copied_urls(ledger_template, tmp_path_factory.mktemp("ledger")).ledger
    collection = Mem0Config.collection_of("contract")
    return shared_place.model_copy(update={"ledger_url": ledger_url, "collection": collection})


@pytest.fixture(scope="session")
def postgres_history_url(postgres: str) -> Iterator[str]:
    with postgres_database(postgres) as url:
        migrate_history(url)
        yield url


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture(
    params=[
        "inmemory",
        "composite",
        "mem0",
        # Its history differs and nothing else, which integration/backends/test_history.py tries on both databases.
        *also_thorough(pytest.param("mem0-with-postgresql", marks=pytest.mark.service)),
        pytest.param("mem0-on-a-qdrant-server", marks=pytest.mark.service),
    ]
)
def build(request: pytest.FixtureRequest, clock: StoppedClock) -> Build:
    """Build a backend of a company; those of one test share the servers."""
    if request.param == "inmemory":
        return lambda company: InMemoryBackend(company=company, clock=clock)
    if request.param == "composite":
        return lambda company: _composite(request.getfixturevalue("own_store"), company, clock)
    if request.param == "mem0":
        place: Mem0Config = request.getfixturevalue("own_store")
    elif request.param == "mem0-with-postgresql":
        place = request.getfixturevalue("own_store").model_copy(
            update={"history_url": request.getfixturevalue("postgres_history_url")}
        )
    elif url := os.environ.get(QDRANT_URL):
        key = os.environ.get(QDRANT_API_KEY)
        place = request.getfixturevalue("own_store").model_copy(
            update={"url": url, "api_key": None if key is None else SecretStr(key)}
        )
    else:
        pytest.skip(f"needs a Qdrant server, named by {QDRANT_URL}")
    return lambda company: _mem0(place, company, clock)


@pytest.fixture
async def backend(build: Build) -> AsyncIterator[WorkerBackend]:
    made = build("contract")
    await made.connect()
    yield made
    await made.disconnect()


@pytest.fixture
async def other_company(build: Build) -> AsyncIterator[WorkerBackend]:
    """The same kind of backend, on the same servers, of another company."""
    made = build("contract-of-others")
    await made.connect()
    yield made
    await made.disconnect()


def _composite(place: Mem0Config, company: str, clock: StoppedClock) -> CompositeBackend:
    return CompositeBackend(
        {"inmemory": InMemoryBackend(company=company, clock=clock), "mem0": _mem0(place, company, clock)},
        routes=dict.fromkeys(("n", "n1", "deploys", "room 1", "left", "work"), "mem0"),
        default="inmemory",
        company=company,
        clock=clock,
    )


def _mem0(place: Mem0Config, company: str, clock: StoppedClock) -> Mem0Backend:
    place = place.model_copy(update={"collection": Mem0Config.collection_of(company)})
    return Mem0Backend(place, company=company, embedder=HashingEmbedder(), encoder=Bm25Encoder(), clock=clock)
