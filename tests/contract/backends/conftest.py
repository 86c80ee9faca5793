"""Every backend that must keep the contract, on a real store where it needs one."""

import os
from collections.abc import AsyncIterator, Iterator

import pytest
from embedders import HashingEmbedder
from ledgers import postgres_database
from memories import StoppedClock
from pydantic import SecretStr
from servers import store_server

from memcore.backends.composite.backend import CompositeBackend
from memcore.backends.factory import WorkerBackend
from memcore.backends.inmemory import InMemoryBackend
from memcore.backends.mem0.backend import Mem0Backend
from memcore.backends.mem0.place import Mem0Place
from memcore.embedding.bm25 import Bm25Encoder
from memcore.ledger.migrate import migrate_history

#: Names the Qdrant server to test against; its collection memtend_contract is ours.
QDRANT_URL = "MEMTEND_TEST_QDRANT_URL"


@pytest.fixture(scope="session")
def history_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = f"sqlite:///{tmp_path_factory.mktemp('history') / 'history.db'}"
    migrate_history(url)
    return url


@pytest.fixture(scope="session")
def own_store(tmp_path_factory: pytest.TempPathFactory, history_url: str) -> Iterator[Mem0Place]:
    with store_server(tmp_path_factory.mktemp("store")) as address:
        yield Mem0Place(
            url=address.url,
            api_key=SecretStr(address.api_key),
            history_url=history_url,
            collection=Mem0Place.collection_of("contract"),
        )


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
        pytest.param("mem0-with-postgresql", marks=pytest.mark.service),
        pytest.param("mem0-on-a-qdrant-server", marks=pytest.mark.service),
    ]
)
async def backend(request: pytest.FixtureRequest, clock: StoppedClock) -> AsyncIterator[WorkerBackend]:
    made = _made(request, clock)
    await made.connect()
    yield made
    await made.disconnect()


def _made(request: pytest.FixtureRequest, clock: StoppedClock) -> WorkerBackend:
    if request.param == "inmemory":
        return InMemoryBackend(company="contract", clock=clock)
    if request.param == "composite":
        return CompositeBackend(
            {
                "inmemory": InMemoryBackend(company="contract", clock=clock),
                "mem0": _mem0(request.getfixturevalue("own_store"), clock),
            },
            routes=dict.fromkeys(("n", "n1", "deploys", "room 1", "left", "work"), "mem0"),
            default="inmemory",
            company="contract",
            clock=clock,
        )
    if request.param == "mem0":
        place: Mem0Place = request.getfixturevalue("own_store")
    elif request.param == "mem0-with-postgresql":
        place = request.getfixturevalue("own_store").model_copy(
            update={
                "history_url": request.getfixturevalue("postgres_history_url"),
                "collection": Mem0Place.collection_of("contract_with_postgresql"),
            }
        )
    elif url := os.environ.get(QDRANT_URL):
        place = Mem0Place(
            url=url,
            history_url=request.getfixturevalue("history_url"),
            collection=Mem0Place.collection_of("contract"),
        )
    else:
        pytest.skip(f"needs a Qdrant server, named by {QDRANT_URL}")
    return _mem0(place, clock)


def _mem0(place: Mem0Place, clock: StoppedClock) -> Mem0Backend:
    return Mem0Backend(place, company="contract", embedder=HashingEmbedder(), encoder=Bm25Encoder(), clock=clock)
