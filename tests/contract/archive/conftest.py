"""The archival store on each database that answers."""

from collections.abc import Callable, Iterator

import pytest
from support.ledger_records import StoppedClock

from memcore.config.urls import LedgerUrls
from memcore.ledger.ledger import Ledger
from memcore.maintenance.archival_store import ArchivalStore, LedgerArchivalStore

#: Makes the store of a company.
Build = Callable[[str], ArchivalStore]


@pytest.fixture
def build(urls: LedgerUrls) -> Iterator[Build]:
    ledger = Ledger.open(urls, clock=StoppedClock())
    yield lambda company: LedgerArchivalStore(ledger.archive, company=company)
    ledger.close()


@pytest.fixture
def store(build: Build) -> ArchivalStore:
    return build("acme")
