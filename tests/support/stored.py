"""Reads an installation without memtend: points of the store, rows of the history, jobs on the broker."""

import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from qdrant_client import QdrantClient
from redis import Redis
from sqlalchemy import create_engine, text

from memcore.backends.factory import mem0_config_of
from memcore.backends.mem0.points import Key
from memcore.config.settings import Settings
from memcore.jobs import Queue
from memcore.models.memory import CANARY_OWNER
from support.valkey_servers import queue_length
from workers.groups import GROUPS


@contextmanager
def store_client(settings: Settings) -> Iterator[QdrantClient]:
    key = settings.qdrant_api_key.get_secret_value() if settings.qdrant_api_key else None
    with warnings.catch_warnings():
        # the key travels over loopback
        warnings.filterwarnings("ignore", message="Api key is used with an insecure connection")
        # without the version check, a thread that may outlive the server
        client = QdrantClient(url=settings.qdrant_url, api_key=key, check_compatibility=False)
    try:
        yield client
    finally:
        client.close()


def memory_ids(settings: Settings, collection: str | None = None) -> Counter[str]:
    """Return every memory's id in a collection, the one before any reindex unless it is named, whosever they are."""
    return Counter(payloads(settings, collection).keys())


def payloads(settings: Settings, collection: str | None = None) -> dict[str, dict[str, Any]]:
    """Return what the store has of every memory, by id, as ``memory_ids`` does.

    Copies of archived memories are left out, and the canary: they are nobody's memories.
    """
    found: dict[str, dict[str, Any]] = {}
    collection = collection or mem0_config_of(settings).collection
    with store_client(settings) as client:
        offset = None
        while True:
            points, offset = client.scroll(
                collection, limit=1_000, offset=offset, with_payload=True, with_vectors=False
            )
            for point in points:
                payload = point.payload or {}
                if Key.ARCHIVED_UNDER not in payload and payload.get(Key.AGENT_ID) != CANARY_OWNER:
                    found[str(point.id)] = payload
            if offset is None:
                return found


def history_events(settings: Settings) -> Counter[tuple[str, str]]:
    """Count the rows of the history by memory id and event."""
    engine = create_engine(settings.history_url)
    try:
        with engine.connect() as connection:
            rows = connection.execute(text("SELECT memory_id, event FROM history"))
            return Counter((row.memory_id, row.event) for row in rows)
    finally:
        engine.dispose()


def jobs_waiting(settings: Settings, *queues: Queue) -> int:
    """Return how many jobs lie on these queues, or on all."""
    with Redis.from_url(settings.broker_url) as broker:
        return sum(queue_length(broker, str(queue)) for queue in queues or Queue)


def jobs_in_hand(settings: Settings, *groups: str) -> int:
    """Return how many jobs workers have taken and not acknowledged."""
    with Redis.from_url(settings.broker_url) as broker:
        return sum(int(broker.hlen(f"unacked.{name}")) for name in groups or GROUPS)
