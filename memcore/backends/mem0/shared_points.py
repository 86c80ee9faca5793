"""Shared knowledge in the store: what the lines of its log become there."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from qdrant_client import QdrantClient
from qdrant_client.models import Condition, Direction, Filter, FilterSelector, UpdateMode

from memcore.backends.mem0.paging import Pager
from memcore.backends.mem0.payload import Key, encode_shared
from memcore.backends.mem0.points import to_records, to_upsert
from memcore.backends.mem0.where import of_shared, shared, with_ids
from memcore.backends.mem0.writer import Writer
from memcore.backends.owner import Excluded
from memcore.backends.record import MemoryRecord, Vectors
from memcore.ledger.shared_entry import SharedEntry
from memcore.models import MemoryEntry, MemoryQuery


class SharedPoints:
    """Carry the log's lines out, each as often as one likes, and read what a version shows."""

    def __init__(self, client: QdrantClient, collection: str, *, writer: Writer, dims: int) -> None:
        self._client = client
        self._collection = collection
        self._writer = writer
        self._dims = dims

    def vectors_of(self, record: MemoryRecord) -> Vectors | None:
        """Return the vectors under which a record would be found."""
        return self._writer.embedded([record])[0].vectors

    def carry_out(self, lines: Sequence[SharedEntry], known: Mapping[int, Vectors | None]) -> None:
        """Write the points of publications, and the end of those that are retracted.

        Nothing that is there already is written anew: a slow process may carry out a line long after others have gone
        on, and must not bring back what they ended.

        Args:
            lines: consecutive lines of the log; all before them are in the store.
            known: vectors that were made before, by version.
        """
        for line in lines:
            if line.record is not None:
                self._publish(replace(line.record, vectors=known.get(line.version)), line.version)
        for line in lines:
            if line.record is None:
                self._client.set_payload(
                    self._collection,
                    payload={Key.SHARED_UNTIL.value: line.version},
                    points=FilterSelector(filter=shared(with_ids([line.memory_id]))),
                    wait=True,
                )

    def newest(
        self, query: MemoryQuery, *, version: int, exclude_agent: Excluded, now: datetime
    ) -> tuple[MemoryEntry, ...]:
        """Return what matches a query without a text, newest first."""

        def narrowed(*conditions: Condition) -> Filter:
            return of_shared(query, *conditions, version=version, exclude_agent=exclude_agent, now=now)

        pager = Pager(client=self._client, collection=self._collection, narrowed=narrowed, direction=Direction.DESC)
        rows, _ = pager.page(None, query.limit)
        return tuple(record.entry for record in to_records(rows))

    def _publish(self, record: MemoryRecord, version: int) -> None:
        body: Any = to_upsert(
            self._writer.embedded([record]),
            dims=self._dims,
            mode=UpdateMode.INSERT_ONLY,
            payload_of=partial(encode_shared, version=version),
        )
        self._client.http.points_api.upsert_points(self._collection, wait=True, point_insert_operations=body)
