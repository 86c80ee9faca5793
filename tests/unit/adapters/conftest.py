"""A memory for the adapters, at a clock that tests move."""

import pytest
from support.fake_memory import FakeClock, FakeMemory


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def memory(clock: FakeClock) -> FakeMemory:
    return FakeMemory(clock)
