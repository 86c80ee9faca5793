"""A store server, and worlds on collections of their own."""

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr
from support.ledger_records import copied_urls
from support.reindex_fixture import ReindexWorld
from support.store_servers import StoreAddress

from memcore.backends.mem0.backend import Mem0Backend
from memcore.backends.mem0.config import Mem0Config

#: Each world has a company, and so collections, of its own.
NUMBERS = itertools.count()

MakeMaintenanceFixture = Callable[[Path], ReindexWorld]


@pytest.fixture(scope="session")
def address(shared_store: StoreAddress) -> StoreAddress:
    return shared_store


@pytest.fixture
def make_maintenance_fixture(
    address: StoreAddress, ledger_template: Path, history_template: Path
) -> Iterator[MakeMaintenanceFixture]:
    collections: list[str] = []

    def make(folder: Path) -> ReindexWorld:
        company = f"reindex-{next(NUMBERS)}"
        history = folder / "history.db"
        history.write_bytes(history_template.read_bytes())
        collections.append(Mem0Config.collection_of(company))
        place = Mem0Config(
            url=address.url,
            api_key=SecretStr(address.api_key),
            history_url=f"sqlite:///{history}",
            collection=collections[-1],
        )
        return ReindexWorld(place, copied_urls(ledger_template, folder / "ledger"), company=company)

    yield make
    for each in collections:
        address.drop(each)


@pytest.fixture
async def world(make_maintenance_fixture: MakeMaintenanceFixture, tmp_path: Path) -> AsyncIterator[ReindexWorld]:
    made = make_maintenance_fixture(tmp_path)
    yield made
    await made.close()


@pytest.fixture
async def backend(world: ReindexWorld) -> AsyncIterator[Mem0Backend]:
    """An agent's process."""
    made = world.backend()
    await made.connect()
    yield made
    await made.disconnect()
