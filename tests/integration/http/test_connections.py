"""Requests that do not end: a real `serve` and a real store server close them, and answer others meanwhile."""

import asyncio
import resource
from collections.abc import Generator
from pathlib import Path

import httpx
import pytest
from support.running_stack import StackAddress
from support.serve_process import ServeProcess, serve_process
from support.store_servers import store_server

from memcore.vectorstore.bounded_server import BODY_SECONDS, HEADER_SECONDS, MAX_HEADER_BYTES, most_connections

#: Seconds until the last is closed, on a busy machine.
PATIENCE = 10 * (HEADER_SECONDS + BODY_SECONDS)

HALF_HEADER = b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
HALF_BODY = b"POST /v1/agents/a/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{"


@pytest.fixture(scope="module")
def serve(stack: StackAddress) -> Generator[ServeProcess]:
    with serve_process(stack.home) as running:
        yield running


@pytest.fixture(scope="module", autouse=True)
def many_files() -> Generator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard != resource.RLIM_INFINITY else 65_536, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def _status(port: int, sent: bytes) -> int:
    """Send a part of a request, and return with which status the connection is closed; 0 for none."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(sent)
        answer = await asyncio.wait_for(reader.read(), PATIENCE)
    except ConnectionError:
        answer = b""
    finally:
        writer.close()
    return int(answer.split()[1]) if answer else 0


@pytest.mark.slow(because="half a body has 30 seconds")
def test_half_requests_are_closed_and_others_answered(serve: ServeProcess) -> None:
    async def sent() -> list[int]:
        halves = [HALF_HEADER] * 1_500 + [HALF_BODY] * 300 + [b""] * 20
        waiting = [asyncio.create_task(_status(serve.port, each)) for each in halves]
        ended = await asyncio.gather(*waiting)
        async with httpx.AsyncClient(base_url=serve.url, timeout=60) as client:
            assert (await client.get("/health")).status_code == 200
        return ended

    statuses = asyncio.run(sent())
    assert set(statuses) <= {408, 401, 503, 0}
    assert statuses.count(408) > min(1_000, most_connections() // 2)


def test_headers_without_end_are_refused(serve: ServeProcess) -> None:
    assert asyncio.run(_status(serve.port, HALF_HEADER + b"a" * 4 * MAX_HEADER_BYTES)) in {431, 0}


def test_the_store_server_closes_half_requests(tmp_path: Path) -> None:
    with store_server(tmp_path / "store") as store:
        port = int(store.url.rpartition(":")[2])
        assert asyncio.run(_status(port, HALF_HEADER)) == 408
        assert store.client().get_collections().collections == []
