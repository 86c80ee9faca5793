import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from support.learning_fixture import LearningFixture
from support.ledger_records import copied_urls
from support.maintenance_fixture import SHARED_MEMORY
from support.wiki_fixture import WikiFixture


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: these tests commit some thousand times."""
    place = SHARED_MEMORY if SHARED_MEMORY.is_dir() else tmp_path
    with tempfile.TemporaryDirectory(dir=place) as made:
        yield Path(made)


@pytest.fixture
async def school(ledger_template: Path, folder: Path) -> AsyncIterator[LearningFixture]:
    library = WikiFixture(copied_urls(ledger_template, folder / "ledger"), folder / "home")
    await library.backend.connect()
    yield LearningFixture(library)
    library.ledger.close()
