"""What a process of serve measures: requests by their route, searches that were answered, embedded questions."""

from collections.abc import Callable
from importlib import import_module

import httpx
import numpy as np
import pytest
from fastapi import FastAPI, HTTPException
from support.hashing_embedder import HashingEmbedder

from ops.http.app import ROUTERS
from ops.metrics.exposition import Samples
from ops.metrics.families import FAMILIES
from ops.metrics.latency import SEARCH_ROUTES, ServeTimes, TimedEmbedder, TimeRequests


def ticking(step: float) -> Callable[[], float]:
    now = [0.0]

    def seconds() -> float:
        now[0] += step
        return now[0]

    return seconds


def shown(times: ServeTimes) -> str:
    samples = Samples()
    times.add_to(samples)
    return samples.text(FAMILIES)


async def test_requests_are_counted_by_route_and_answered_searches_timed() -> None:
    times, app = ServeTimes(), FastAPI()

    @app.post("/v1/agents/{agent_id}/search")
    async def search(agent_id: str) -> str:
        if agent_id == "nobody":
            raise HTTPException(404)
        return agent_id

    @app.get("/boom")
    async def boom() -> None:
        raise RuntimeError

    app.add_middleware(TimeRequests, times=times, seconds=ticking(0.02))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        for agent in ("ada", "bob", "nobody"):
            await client.post(f"/v1/agents/{agent}/search")
        for path in ("/boom", "/secret-text-of-a-path", "/another"):
            await client.get(path)
    assert times.requests == {
        ("/v1/agents/{agent_id}/search", "2xx"): 2,
        ("/v1/agents/{agent_id}/search", "4xx"): 1,
        ("/boom", "5xx"): 1,
        ("none", "4xx"): 2,
    }
    text = shown(times)
    assert "memtend_search_seconds_count 2" in text
    assert 'memtend_search_seconds_bucket{le="0.01"} 0' in text
    assert 'memtend_search_seconds_bucket{le="0.025"} 2' in text
    assert "secret" not in text
    assert "bob" not in text


def test_a_timed_embedder_makes_the_same_vectors_and_times_questions() -> None:
    inner, times = HashingEmbedder(), ServeTimes()
    timed = TimedEmbedder(inner, times, seconds=ticking(0.003))
    assert (timed.name, timed.kind, timed.dims) == (inner.name, inner.kind, inner.dims)
    assert np.array_equal(timed.embed_query("a question"), inner.embed_query("a question"))
    assert np.array_equal(timed.embed_documents(["a", "b"]), inner.embed_documents(["a", "b"]))
    assert "memtend_embed_seconds_count 1" in shown(times)
    assert "memtend_embed_seconds_sum 0.003" in shown(times)


@pytest.mark.parametrize("route", sorted(SEARCH_ROUTES))
def test_every_route_that_is_timed_is_served(route: str) -> None:

    paths = {each.path for name in ROUTERS for each in import_module(f"ops.http.routes.{name}").router.routes}
    assert route in paths
