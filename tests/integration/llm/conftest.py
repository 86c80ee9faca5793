"""A stub language model in a process of its own, and its clients."""

from collections.abc import AsyncIterator, Callable
from datetime import timedelta

import pytest
from support.ledger_records import StoppedClock

from memcore.llm.provider import ServerProvider


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
