"""A mem0 backend with something else on its shelf than it was opened with."""

from dataclasses import replace
from typing import Any

from memcore.backends.mem0.active_collection import Shelf
from memcore.backends.mem0.backend import Mem0Backend


def shelf_of(backend: Mem0Backend) -> Shelf:
    """What it reads and writes now."""
    assert backend._opened is not None
    return backend._opened.shelves.last().shelf


def put_on_shelf(backend: Mem0Backend, **things: Any) -> None:
    """Let it read and write with these things instead."""
    assert backend._opened is not None
    shelves = backend._opened.shelves
    shelves._seen = replace(shelves.last(), shelf=replace(shelves.last().shelf, **things))
