"""MCP's endpoints in serve: opened by the first request, once, and again after a failure."""

import asyncio
from importlib import import_module
from typing import Any

import pytest

from memcore.errors import MemoryConnectionError
from ops.mcp import mounting
from ops.mcp.mounting import LateEndpoints


@pytest.fixture
def late() -> LateEndpoints:
    nowhere: Any = None
    return LateEndpoints(nowhere)


async def test_requests_that_come_together_share_the_endpoints(late: LateEndpoints) -> None:
    async with late.running():
        first, second = await asyncio.gather(late.opened(), late.opened())
        assert first is second is await late.opened()
    async with late.running():
        assert await late.opened() is not first


async def test_no_request_is_served_outside(late: LateEndpoints) -> None:
    with pytest.raises(MemoryConnectionError, match="not started"):
        await late.opened()
    async with late.running():
        pass
    with pytest.raises(MemoryConnectionError, match="not started"):
        await late.opened()


async def test_a_failed_import_is_told_and_tried_again(late: LateEndpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    failures = [ImportError("no room")]

    def imported(name: str) -> Any:
        if failures:
            raise failures.pop()
        return import_module(name)

    monkeypatch.setattr(mounting, "import_module", imported)
    async with late.running():
        with pytest.raises(ImportError, match="no room"):
            await late.opened()
        assert await late.opened()


async def test_a_caller_that_goes_away_takes_no_answer_with_it(late: LateEndpoints) -> None:
    async with late.running():
        gone = asyncio.create_task(late.opened())
        await asyncio.sleep(0)
        gone.cancel()
        assert await late.opened()
