"""A migrated ledger on each database that answers, and a service over it."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from support.job_contexts import RecordingDispatcher
from support.ledger_records import COMPANY, StoppedClock
from support.memory_services import memory_service

from memcore.backends.inmemory import InMemoryBackend
from memcore.config.urls import LedgerUrls
from memcore.ledger.ledger import Ledger
from memcore.service import MemoryService


@pytest.fixture
def ledger(urls: LedgerUrls, clock: StoppedClock) -> Iterator[Ledger]:
    opened = Ledger.open(urls, clock=clock)
    yield opened
    opened.close()


@pytest.fixture
def dispatcher() -> RecordingDispatcher:
    return RecordingDispatcher()


@pytest.fixture
async def backend(clock: StoppedClock) -> AsyncIterator[InMemoryBackend]:
    made = InMemoryBackend(company=COMPANY, clock=clock)
    await made.connect()
    yield made
    await made.disconnect()


@pytest.fixture
def service(
    ledger: Ledger, dispatcher: RecordingDispatcher, clock: StoppedClock, tmp_path: Path, backend: InMemoryBackend
) -> MemoryService:
    return memory_service(ledger, dispatcher, clock, tmp_path, backend=backend)
