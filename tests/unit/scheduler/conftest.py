from collections.abc import Generator
from pathlib import Path

import pytest
from crews import ScriptedCrew
from ledgers import StoppedClock, sqlite_urls

from memcore.ledger.ledger import Ledger
from memcore.ledger.migrate import migrate


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture
def crew(tmp_path: Path, clock: StoppedClock) -> Generator[ScriptedCrew]:
    urls = sqlite_urls(tmp_path)
    migrate(urls)
    ledger = Ledger.open(urls, clock=clock)
    yield ScriptedCrew(ledger=ledger, clock=clock)
    ledger.close()
