"""Looks into an open mem0 backend: replaces parts of its active collection, and reads its history."""

from dataclasses import replace
from typing import Any

from sqlalchemy import select

from memcore.backends.mem0.backend import Mem0Backend
from memcore.backends.mem0.collection import ActiveCollection
from memcore.backends.mem0.writer import History
from memcore.ledger.tables import history


def active_collection_of(backend: Mem0Backend) -> ActiveCollection:
    """Return the active collection of the backend."""
    assert backend._opened is not None
    return backend._opened.serving.last()


def switch_collection(backend: Mem0Backend, **things: Any) -> None:
    """Replace these parts of it."""
    assert backend._opened is not None
    serving = backend._opened.serving
    serving._seen = replace(serving._seen, active_collection=replace(serving.last(), **things))


def history_rows(opened: History, memory_id: str) -> list[dict[str, Any]]:
    """Return a memory's rows of the history, oldest first, in mem0's columns."""
    statement = (
        select(history).where(history.c.memory_id == memory_id).order_by(history.c.created_at, history.c.updated_at)
    )
    with opened._database.read() as connection:
        return [dict(row) for row in connection.execute(statement).mappings()]
