"""The writer of a collection: insert-only writes, marks, and removals that also remove the history's text."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from qdrant_client import QdrantClient
from qdrant_client.models import FilterSelector, UpdateMode

from memcore.backends.mem0.filters import of_where, owned, with_ids, without
from memcore.backends.mem0.history import History
from memcore.backends.mem0.points import to_records, to_upsert
from memcore.backends.mem0.schema import IndexedText, Key, iso, metadata_payload
from memcore.backends.protocol import MAX_PAGE
from memcore.embedding.bm25 import Bm25Encoder
from memcore.embedding.protocol import Embedder
from memcore.ids import memory_ids, require_agent_id, require_memory_id
from memcore.models.memory import MemoryEntry, MemoryMetadata
from memcore.records import MemoryRecord, Vectors, Where


class Writer:
    """Writes one collection with a sync client; when a method returns, readers see the change.

    Args:
        client: the store.
        collection: its name.
        history: mem0's, of all collections of the company.
        embedder: makes the dense vectors.
        encoder: makes the sparse vectors.
        text: what is embedded.
        space: the space of the collection's vectors; a record with vectors of another one is embedded anew.
        takes_unlabelled_vectors: whether vectors without a space are taken as they are: right in the first collection
            of an installation, for there was no other when they were made.
    """

    def __init__(
        self,
        client: QdrantClient,
        collection: str,
        *,
        history: History,
        embedder: Embedder,
        encoder: Bm25Encoder,
        text: IndexedText,
        space: str,
        takes_unlabelled_vectors: bool = True,
    ) -> None:
        self._client = client
        self._collection = collection
        self._history = history
        self._embedder = embedder
        self._encoder = encoder
        self._text = text
        self._space = space
        self._takes_unlabelled_vectors = takes_unlabelled_vectors

    def store(self, records: Sequence[MemoryRecord]) -> None:
        """Embed records without vectors, write the new ones, and record them in the history."""
        for record in records:
            require_agent_id(record.entry.agent_id)
            require_memory_id(record.entry.id)
        # Reversed, so that of two records with one id the first is kept, as if they had come one after the other.
        unique = list({record.entry.id: record for record in reversed(records)}.values())[::-1]
        for at in range(0, len(unique), MAX_PAGE):
            chunk = self.embedded(unique[at : at + MAX_PAGE])
            body: Any = to_upsert(chunk, dims=self._embedder.dims, mode=UpdateMode.INSERT_ONLY)
            # The client's own REST call: it sends bytes as they are, and models through pydantic.
            self._client.http.points_api.upsert_points(self._collection, wait=True, point_insert_operations=body)
            # After the write: a crash between the two leaves a memory without its ADD row, and the redelivery adds it.
            again = self._history.added([record.entry for record in chunk])
            if again:
                # Stored anew, or removed by a run between the two writes: then its text would stay in the history.
                self._history.taken_back(set(again) - set(self._staying(again)))

    def set_metadata(self, agent_id: str, ids: Sequence[str], metadata: MemoryMetadata, *, now: datetime) -> int:
        """Replace source, confidence and tags and stamp the time; return how many."""
        narrowed = owned(agent_id, with_ids(memory_ids(ids)))
        changed = self._client.count(self._collection, count_filter=narrowed, exact=True).count
        self._set(
            {**metadata_payload(metadata), Key.UPDATED_AT.value: iso(now), Key.UPDATED_TS.value: now.timestamp()},
            FilterSelector(filter=narrowed),
        )
        return changed

    def claim(self, where: Where, token: str) -> int:
        """Mark what matches with the token and return how many of the agent's memories carry it now."""
        self._set({Key.CLAIM.value: token}, FilterSelector(filter=of_where(where)))
        marked = of_where(Where(agent_id=where.agent_id, token=token))
        return self._client.count(self._collection, count_filter=marked, exact=True).count

    def unclaim(self, agent_id: str) -> None:
        """Take every mark off this agent's memories."""
        narrowed = owned(agent_id, but_not=[without(Key.CLAIM)])
        self._client.delete_payload(
            self._collection, keys=[Key.CLAIM.value], points=FilterSelector(filter=narrowed), wait=True
        )

    def remove(self, where: Where) -> int:
        """Delete what matches, page by page, and return how many are gone."""
        removed, offset = 0, None
        while True:
            rows, offset = self._client.scroll(
                self._collection,
                scroll_filter=of_where(where),
                limit=MAX_PAGE,
                offset=offset,
                with_payload=False,
                with_vectors=False,
            )
            removed += self._remove(where, [str(row.id) for row in rows]) if rows else 0
            if offset is None:
                return removed

    def _remove(self, where: Where, ids: list[str]) -> int:
        # The history first: a crash in between is repaired by deleting again, while a text left in the history of a
        # deleted memory would never be found.
        self._history.deleted(ids)
        # By the whole condition, not by id alone: a memory that lost its mark since must stay.
        self._client.delete(
            self._collection, points_selector=FilterSelector(filter=of_where(where, with_ids(ids))), wait=True
        )
        staying = self._staying(ids)
        if staying:
            self._history.kept(list(staying.values()))
        # A store that wrote its row between our two steps found the memory still there.
        self._history.taken_back(set(ids) - set(staying))
        return len(ids) - len(staying)

    def _staying(self, ids: Sequence[str]) -> dict[str, MemoryEntry]:
        rows = self._client.retrieve(self._collection, ids=ids, with_payload=True)
        return {record.entry.id: record.entry for record in to_records(rows)}

    def embedded(self, records: Sequence[MemoryRecord]) -> list[MemoryRecord]:
        """Return the records with vectors, made for those that have none, or have those of another embedder."""
        bare = [record for record in records if record.vectors is None or not self._is_ours(record.vectors)]
        if not bare:
            return list(records)
        texts = [self._text.of(record.entry) for record in bare]
        dense, sparse = self._embedder.embed_documents(texts), self._encoder.encode_documents(texts)
        made = {
            record.entry.id: Vectors(dense=dense[row], sparse=sparse[row] or None, space=self._space)
            for row, record in enumerate(bare)
        }
        return [
            replace(record, vectors=made[record.entry.id]) if record.entry.id in made else record for record in records
        ]

    def _is_ours(self, vectors: Vectors) -> bool:
        return self._takes_unlabelled_vectors if vectors.space is None else vectors.space == self._space

    def _set(self, payload: dict[str, Any], points: FilterSelector) -> None:
        self._client.set_payload(self._collection, payload=payload, points=points, wait=True)
