import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.ledger_records import copied_urls
from support.maintenance_fixture import SHARED_MEMORY
from support.wiki_fixture import WikiFixture


@pytest.fixture
async def library(ledger_template: Path, tmp_path: Path) -> AsyncIterator[WikiFixture]:
    """In memory where there is such a folder: these tests wait for the disk some thousand times."""
    place = SHARED_MEMORY if SHARED_MEMORY.is_dir() else tmp_path
    with tempfile.TemporaryDirectory(dir=place) as folder:
        made = WikiFixture(copied_urls(ledger_template, Path(folder) / "ledger"), Path(folder) / "home")
        await made.backend.connect()
        yield made
        made.ledger.close()
