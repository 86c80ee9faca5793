"""A mem0 backend with something else on its active collection than it was opened with."""

from dataclasses import replace
from typing import Any

from memcore.backends.mem0.active_collection import ActiveCollection
from memcore.backends.mem0.backend import Mem0Backend


def active_collection_of(backend: Mem0Backend) -> ActiveCollection:
    """What it reads and writes now."""
    assert backend._opened is not None
    return backend._opened.collection_cache.last().active_collection


def switch_collection(backend: Mem0Backend, **things: Any) -> None:
    """Let it read and write with these things instead."""
    assert backend._opened is not None
    collection_cache = backend._opened.collection_cache
    collection_cache._seen = replace(
        collection_cache.last(), active_collection=replace(collection_cache.last().active_collection, **things)
    )
