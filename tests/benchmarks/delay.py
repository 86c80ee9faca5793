"""The delay of single stores beside a load: the time until the store server finds each, and by how much it grows."""

import math
import time
from collections.abc import Sequence

from benchmarks.figure import Figure, Target
from qdrant_client import QdrantClient

from memcore.client.client import MemoryClient
from memcore.models.memory import MemoryStoreRequest

#: Seconds between two looks for one memory, and those after which it counts as lost.
POLL_INTERVAL_SECONDS = 0.005
_LIMIT_SECONDS = 120.0

#: Seconds by which the 95th percentile may be later beside a load than without.
_LATER_BY_AT_MOST = 1.0


def milliseconds_until_found(
    client: MemoryClient, qdrant: QdrantClient, collection: str, agent_id: str, request: MemoryStoreRequest
) -> float:
    """Store one memory, and return the milliseconds from the client's call until it was found; raises TimeoutError."""
    begun = time.perf_counter()
    (memory_id,) = client.store(agent_id, request, track=False).memory_ids
    while not _is_found(qdrant, collection, memory_id):
        if time.perf_counter() - begun > _LIMIT_SECONDS:
            msg = f"a store in {collection} was not found after {_LIMIT_SECONDS:g} s"
            raise TimeoutError(msg)
        time.sleep(POLL_INTERVAL_SECONDS)
    return (time.perf_counter() - begun) * 1e3


def _is_found(qdrant: QdrantClient, collection: str, memory_id: str) -> bool:
    return qdrant.collection_exists(collection) and bool(qdrant.retrieve(collection, [memory_id], with_payload=False))


def delay_figure(group: str, name: str, samples: Sequence[float], note: str = "") -> Figure:
    """Return the row of a group's single stores, with their 95th percentile."""
    said = f"p95 {_p95(samples):.0f} ms; {note}".rstrip("; ")
    return Figure(group=group, name=name, unit="ms", samples=samples, note=said)


def delay_target(label: str, alone: Sequence[float], beside: Sequence[float]) -> Target:
    """Hold the difference of the two 95th percentiles against what it may be."""
    later = (_p95(beside) - _p95(alone)) / 1e3
    return Target(name=f"{label}: p95 later by, s", values=[later], wanted=_LATER_BY_AT_MOST, at_most=True)


def _p95(samples: Sequence[float]) -> float:
    return sorted(samples)[math.ceil(len(samples) * 0.95) - 1]
