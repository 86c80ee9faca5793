"""Organisation memory over a real store and each ledger, a company for each test."""

import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from support.hashing_embedder import HashingEmbedder
from support.ledger_records import StoppedClock, copied_urls
from support.store_servers import StoreAddress
from support.thorough import also_thorough

from memcore.backends.mem0.backend import Mem0Backend
from memcore.backends.mem0.config import Mem0Config
from memcore.config.organization import OrgMemoryConfig
from memcore.config.urls import LedgerUrls
from memcore.embedding.bm25 import Bm25Encoder
from memcore.embedding.protocol import Embedder
from memcore.ledger.ledger import Ledger
from memcore.org.service import LedgerOrgMemory

#: Makes a backend over the same data, as another process would.
MakeBackend = Callable[[], Mem0Backend]


@pytest.fixture
def company() -> str:
    """A company that no other test has, for all share the servers."""
    return f"org-{uuid.uuid4().hex}"


@pytest.fixture(scope="package")
def sqlite_urls(tmp_path_factory: pytest.TempPathFactory, ledger_template: Path) -> LedgerUrls:
    return copied_urls(ledger_template, tmp_path_factory.mktemp("ledger"))


# The repositories' own tests run on both.
@pytest.fixture(params=["sqlite", *also_thorough(pytest.param("postgresql", marks=pytest.mark.service))])
def urls(request: pytest.FixtureRequest) -> LedgerUrls:
    if request.param == "sqlite":
        found: LedgerUrls = request.getfixturevalue("sqlite_urls")
        return found
    url: str = request.getfixturevalue("postgres_url")
    return LedgerUrls(ledger=url, journal=url)


@pytest.fixture
def ledger(urls: LedgerUrls, clock: StoppedClock) -> Iterator[Ledger]:
    opened = Ledger.open(urls, clock=clock)
    yield opened
    opened.close()


@pytest.fixture
def place(shared_store: StoreAddress, shared_place: Mem0Config, urls: LedgerUrls, company: str) -> Iterator[Mem0Config]:
    collection = Mem0Config.collection_of(company)
    yield shared_place.model_copy(update={"ledger_url": urls.ledger, "collection": collection})
    shared_store.drop(collection)


@pytest.fixture
def embedder() -> Embedder:
    """Each module may have its own."""
    return HashingEmbedder()


@pytest.fixture
def make_backend(place: Mem0Config, company: str, embedder: Embedder, clock: StoppedClock) -> MakeBackend:
    return lambda: Mem0Backend(place, company=company, embedder=embedder, encoder=Bm25Encoder(), clock=clock)


@pytest.fixture
async def backend(make_backend: MakeBackend) -> AsyncIterator[Mem0Backend]:
    made = make_backend()
    await made.connect()
    yield made
    await made.disconnect()


@pytest.fixture
async def memory(ledger: Ledger, backend: Mem0Backend, company: str) -> LedgerOrgMemory:
    """Organisation memory that finds by meaning and shows what it writes at once."""
    made = LedgerOrgMemory(ledger.org, OrgMemoryConfig(), company=company, backend=backend)
    await made.connect()
    return made
