"""Memories for the adapters, at a clock that tests move: a fake, and the real one inside the process."""

from collections.abc import Iterator

import pytest
from support.fake_memory import AnyMemory, FakeClock, FakeMemory, LocalMemory

from memcore.config.urls import LedgerUrls
from memcore.ledger.ledger import Ledger


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def fake(clock: FakeClock) -> FakeMemory:
    """Return a memory with tools, whose search ranks by common words."""
    return FakeMemory(clock)


@pytest.fixture
def local(clock: FakeClock, sqlite_ledger: LedgerUrls) -> Iterator[LocalMemory]:
    ledger = Ledger.open(sqlite_ledger, clock=clock)
    with LocalMemory(ledger, clock) as memory:
        yield memory
    ledger.close()


@pytest.fixture(params=["fake", "local"])
def memory(request: pytest.FixtureRequest) -> AnyMemory:
    found: AnyMemory = request.getfixturevalue(request.param)
    return found
