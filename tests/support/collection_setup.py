"""Replaces parts of the active collection of an open mem0 backend."""

from dataclasses import replace
from typing import Any

from memcore.backends.mem0.backend import Mem0Backend
from memcore.backends.mem0.collection import ActiveCollection


def active_collection_of(backend: Mem0Backend) -> ActiveCollection:
    """Return the active collection of the backend."""
    assert backend._opened is not None
    return backend._opened.serving.last()


def switch_collection(backend: Mem0Backend, **things: Any) -> None:
    """Replace these parts of it."""
    assert backend._opened is not None
    serving = backend._opened.serving
    serving._seen = replace(serving._seen, active_collection=replace(serving.last(), **things))
