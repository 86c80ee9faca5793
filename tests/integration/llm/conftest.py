"""A stub language model in a process of its own, and its clients."""

from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta

import pytest
from support.ledger_records import StoppedClock
from support.stub_llm_process import StubLLM, stub_llm

from memcore.config.urls import LedgerUrls
from memcore.ledger.ledger import Ledger
from memcore.llm.provider import ServerProvider


@pytest.fixture(scope="session")
def stub_process() -> Iterator[StubLLM]:
    with stub_llm() as running:
        yield running


@pytest.fixture
def stub(stub_process: StubLLM) -> StubLLM:
    """A stub that remembers nothing."""
    stub_process.forget()
    return stub_process


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture
def ledger(sqlite_ledger: LedgerUrls, clock: StoppedClock) -> Iterator[Ledger]:
    opened = Ledger.open(sqlite_ledger, clock=clock)
    yield opened
    opened.close()


@pytest.fixture
async def provider_at(clock: StoppedClock) -> AsyncIterator[Callable[..., ServerProvider]]:
    """Build providers that are closed at the end."""
    opened: list[ServerProvider] = []

    def build(url: str, *, seconds: float = 60.0, **given: object) -> ServerProvider:
        options = {"model": "stub-small", **given}
        made = ServerProvider(url, timeout=timedelta(seconds=seconds), clock=clock, **options)  # type: ignore[arg-type]  # the tests give key and model
        opened.append(made)
        return made

    yield build
    for each in opened:
        await each.close()
