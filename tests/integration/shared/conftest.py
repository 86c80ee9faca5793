"""The shared knowledge of a company on a store server, empty for each test, with its log on either database."""

from pathlib import Path

import pytest
from support.ledger_records import copied_urls
from support.memories import StoppedClock
from support.publications import MakeBackend, emptied
from support.thorough import also_thorough

from memcore.backends.mem0.config import Mem0Config


@pytest.fixture(scope="session")
def made_place(shared_place: Mem0Config, tmp_path_factory: pytest.TempPathFactory, ledger_template: Path) -> Mem0Config:
    ledger_url = copied_urls(ledger_template, tmp_path_factory.mktemp("ledger")).ledger
    collection = Mem0Config.collection_of("shared_crashes")
    return shared_place.model_copy(update={"ledger_url": ledger_url, "collection": collection})


# Processes over the log on PostgreSQL are integration/ledger/test_shared_log.py's.
@pytest.fixture(params=["sqlite", *also_thorough(pytest.param("postgresql", marks=pytest.mark.service))])
def place(request: pytest.FixtureRequest, made_place: Mem0Config) -> Mem0Config:
    if request.param == "postgresql":
        return made_place.model_copy(update={"ledger_url": request.getfixturevalue("postgres_url")})
    return made_place


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture
async def make_backend(place: Mem0Config, clock: StoppedClock) -> MakeBackend:
    return await emptied(place, clock)
