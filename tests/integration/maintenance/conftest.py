"""Fixtures of a maintenance run: each has its own store and ledger."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.fake_summarizer import FakeSummarizer
from support.ledger_records import copied_urls
from support.maintenance_fixture import SHARED_MEMORY, MaintenanceFixture, MakeMaintenanceFixture

from memcore.config.maintenance import ConsolidationConfig


@pytest.fixture
def ledger_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: these tests commit some ten thousand times, and a disk waits each time."""
    if not SHARED_MEMORY.is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY) as folder:
        yield Path(folder)


@pytest.fixture
def make_maintenance_fixture(ledger_folder: Path, ledger_template: Path) -> Iterator[MakeMaintenanceFixture]:
    worlds: list[MaintenanceFixture] = []

    def make(policy: ConsolidationConfig | None = None) -> MaintenanceFixture:
        world = MaintenanceFixture(copied_urls(ledger_template, ledger_folder / f"world-{len(worlds)}"), policy)
        worlds.append(world)
        return world

    yield make
    for world in worlds:
        world.ledger.close()


@pytest.fixture
def world(make_maintenance_fixture: MakeMaintenanceFixture) -> MaintenanceFixture:
    return make_maintenance_fixture()


@pytest.fixture
def fake_summarizer() -> FakeSummarizer:
    return FakeSummarizer()
