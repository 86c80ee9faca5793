"""One running stack for all command line tests of a worker process, apart by their agents; and one without servers."""

from collections.abc import Generator
from pathlib import Path

import pytest
from support.running_stack import StackAddress, running_stack

from memcore.config.urls import LedgerUrls


@pytest.fixture(scope="package")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Generator[StackAddress]:
    # A name that URLs, configuration files and shells read otherwise: every command must work there too.
    with running_stack(tmp_path_factory.mktemp("cli") / "50% %41 #1?x='ü\"") as address:
        yield address


@pytest.fixture
def environ(sqlite_ledger: LedgerUrls, tmp_path: Path) -> dict[str, str]:
    """An installation of which only the ledger is there."""
    return {
        "MEMTEND_BROKER_URL": "redis://127.0.0.1:1/0",
        "MEMTEND_DATABASE_URL": sqlite_ledger.ledger,
        "MEMTEND_JOURNAL_URL": sqlite_ledger.journal,
        "MEMTEND_QDRANT_URL": "http://127.0.0.1:1",
        "MEMTEND_HOME": str(tmp_path),
    }
