"""The writer of a collection and of mem0's history: insert-only writes, marks, removals."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from http import HTTPStatus
from itertools import groupby
from operator import attrgetter
from string import Formatter
from typing import Any, Self

import numpy as np
import orjson
from numpy.typing import NDArray
from qdrant_client import QdrantClient
from qdrant_client.http.exceptions import UnexpectedResponse
from qdrant_client.models import Filter, FilterSelector, UpdateMode
from sqlalchemy import Connection, delete, select, update

from memcore import ids
from memcore.backends.mem0.filters import (
    archived,
    narrower,
    of_copies,
    of_where,
    owned,
    shared,
    with_ids,
    without,
)
from memcore.backends.mem0.points import (
    Key,
    as_json,
    as_vector,
    encode,
    encode_archived,
    encode_shared,
    extra_payload,
    iso,
    metadata_payload,
    to_records,
    to_upsert,
)
from memcore.backends.neighbours import speaker_of
from memcore.backends.protocol import MAX_PAGE
from memcore.clock import Clock, utc_now
from memcore.embedding.bm25 import Bm25Encoder, SparseVector, TermWeighting
from memcore.embedding.protocol import Embedder
from memcore.ledger.collections import EmbedderIdentity, ServedCollection
from memcore.ledger.database import Database, add_new, id_chunks
from memcore.ledger.organization.shared_log import SharedEntry
from memcore.ledger.tables import history
from memcore.models.memory import CANARY_OWNER, MemoryEntry, MemoryMetadata, memory_ids, require_ids
from memcore.records import (
    SEARCH_NOTES_KEY,
    STATED_KEY,
    SUCCESSION_KEY,
    ArchivedCopy,
    MemoryRecord,
    SearchNotes,
    Vectors,
    Where,
)
from memcore.telemetry import tracing
from memcore.telemetry.tracing import Attribute, Attributes

#: mem0's words for what happened.
_ADD = "ADD"
_DELETE = "DELETE"

#: Between an ADD row that was never written and the DELETE after it: the least that keeps them in order.
_MOMENT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class _Turns:
    """The state of one memory by its rows."""

    memory_id: str
    rows: Sequence[Any]

    @property
    def deletes(self) -> int:
        return sum(row.event == _DELETE for row in self.rows)

    @property
    def is_live(self) -> bool:
        adds, deletes = sum(row.event == _ADD for row in self.rows), self.deletes
        # By number for stock mem0's rows, whose ids are random; by id where an earlier ADD was never written. Nearly
        # every memory is new and has no rows: it needs no id here, which is dear.
        return adds > deletes or any(row.id == ids.history_id(self.memory_id, _ADD, deletes) for row in self.rows)

    @property
    def created_at(self) -> str | None:
        return min((row.created_at for row in self.rows if row.created_at), default=None)


class History:
    """mem0's history table, written in batches, each method in one transaction; it never keeps a deleted text.

    Rows are those of mem0ai 2.2.1, so its own SQLiteManager reads the same file. A memory's rows alternate: ADD with
    its text, DELETE without; the ids say which turn it is, so writing a turn twice leaves one row. Deleting takes the
    text out of every earlier row of that memory: that it existed can be explained, what it said is gone. A memory that
    is restored gets a further ADD row with its text.

    Methods raise MemoryConnectionError when the database cannot be reached, MemoryStoreError or MemoryRetrievalError
    when it refuses.
    """

    def __init__(self, url: str, *, clock: Clock = utc_now) -> None:
        self._database = Database(url, name="history")
        self._clock = clock

    def close(self) -> None:
        """Close what is open."""
        self._database.close()

    def added(
        self, entries: Sequence[MemoryEntry], *, held: Callable[[list[str]], Collection[str]] = list
    ) -> tuple[list[str], list[str]]:
        """Write an ADD row for each entry whose last row is not one already.

        Return the ids that follow a DELETE, and those that had their row. Of the first the ones get a row that the
        store holds, as ``held`` says; left out, all. The store must be asked about them again, and ``taken_back`` be
        called for the ones that it does not hold.
        """
        again, known = list[str](), list[str]()
        by_id = {entry.id: entry for entry in entries}
        for chunk in id_chunks(by_id):
            with self._database.write() as connection:
                every = self._turns(connection, chunk)
                turns = {key: turn for key, turn in every.items() if not turn.is_live}
                known += every.keys() - turns.keys()
                anew = [key for key, turn in turns.items() if turn.deletes]
                # Asked while the memory's rows are locked: a removal that comes after the answer finds the new row.
                gone = set(anew).difference(held(anew)) if anew else set[str]()
                _add(connection, [self._add_row(by_id[key], turn) for key, turn in turns.items() if key not in gone])
                again += anew
        return again, known

    def _turns(self, connection: Connection, memory_ids: Sequence[str]) -> dict[str, _Turns]:
        # Nearly every memory is new. On SQLite this transaction keeps all other writers away: the answer stays true.
        if self._database.has_none(history.c.memory_id, memory_ids):
            return {key: _Turns(key, ()) for key in memory_ids}
        return _turns(connection, memory_ids)

    def taken_back(self, memory_ids: Iterable[str]) -> None:
        """Drop the ADD row after the last DELETE of memories that are gone: it came late, and has the text with it."""
        for chunk in id_chunks(memory_ids):
            with self._database.write() as connection:
                ended = {key: deletes for key, turn in _turns(connection, chunk).items() if (deletes := turn.deletes)}
                late = [ids.history_id(key, _ADD, deletes) for key, deletes in ended.items()]
                connection.execute(delete(history).where(history.c.id.in_(late)))

    def deleted(self, memory_ids: Iterable[str]) -> None:
        """Take the text out of all rows of these memories, and write a DELETE row for each that has none yet.

        A memory without any row gets an ADD row too, without text.
        """
        at = self._clock()
        now, before = iso(at), iso(at - _MOMENT)
        for chunk in id_chunks(memory_ids):
            with self._database.write() as connection:
                turns = _turns(connection, chunk)
                rows = [
                    _row(key, _DELETE, turn.deletes, created_at=turn.created_at or before, updated_at=now)
                    for key, turn in turns.items()
                    if turn.is_live or not turn.rows
                ]
                # A worker may die between writing a memory and its ADD row, and the memory be removed before its job
                # comes back, which then finds it tombstoned: without this row it would have ended and never begun.
                rows += [
                    _row(key, _ADD, turn.deletes, created_at=before, updated_at=before)
                    for key, turn in turns.items()
                    if not turn.rows
                ]
                _add(connection, rows)
                # Last: on PostgreSQL an ADD row under way is seen only once the insert has waited for it.
                connection.execute(
                    update(history).where(history.c.memory_id.in_(chunk)).values(old_memory=None, new_memory=None)
                )

    def dropped(self, memory_ids: Iterable[str]) -> None:
        """Delete every row of these memories, as if they had never been: what a probe leaves explains nothing."""
        for chunk in id_chunks(memory_ids):
            with self._database.write() as connection:
                connection.execute(delete(history).where(history.c.memory_id.in_(chunk)))

    def kept(self, entries: Sequence[MemoryEntry]) -> None:
        """Revert ``deleted`` for entries that stay: their text returns, the DELETE row goes."""
        by_id = {entry.id: entry for entry in entries}
        for chunk in id_chunks(by_id):
            with self._database.write() as connection:
                for key, turn in _turns(connection, chunk).items():
                    ended = turn.deletes - 1
                    connection.execute(delete(history).where(history.c.id == ids.history_id(key, _DELETE, ended)))
                    connection.execute(
                        update(history)
                        .where(history.c.id == ids.history_id(key, _ADD, ended))
                        .values(new_memory=by_id[key].content)
                    )

    def _add_row(self, entry: MemoryEntry, turn: _Turns) -> dict[str, Any]:
        stored_at = entry.updated_at or entry.created_at
        return _row(
            entry.id,
            _ADD,
            turn.deletes,
            # mem0 sorts by creation, then by update: a restored memory must come after its deletion.
            created_at=turn.created_at or iso(entry.created_at),
            updated_at=iso(self._clock() if turn.deletes else stored_at),
            text=entry.content,
        )


def _turns(connection: Connection, memory_ids: Iterable[str]) -> dict[str, _Turns]:
    found: dict[str, list[Any]] = {key: [] for key in memory_ids}
    query = select(history.c.id, history.c.memory_id, history.c.event, history.c.created_at)
    # Locked in one order; SQLite locks the whole file.
    query = query.where(history.c.memory_id.in_(list(found))).order_by(history.c.id).with_for_update()
    for row in connection.execute(query):
        found[row.memory_id].append(row)
    return {key: _Turns(key, rows) for key, rows in found.items()}


def _row(
    memory_id: str, event: str, turn: int, *, created_at: str, updated_at: str, text: str | None = None
) -> dict[str, Any]:
    return {
        "turn": turn,
        "memory_id": memory_id,
        "new_memory": text,
        "event": event,
        "created_at": created_at,
        "updated_at": updated_at,
        "is_deleted": int(event == _DELETE),
    }


def _add(connection: Connection, rows: Iterable[dict[str, Any]]) -> None:
    for row in rows:
        row["id"] = ids.history_id(row["memory_id"], row["event"], row.pop("turn"))
    # In the order of ids: two transactions that add the same rows in other orders would wait for each other.
    add_new(connection, history, sorted(rows, key=lambda row: str(row["id"])))


#: The content and nothing else: what an engine that has put date and speaker into the text itself wants.
PLAIN = "{content}"

#: English whatever the process's locale: the same memory must give the same text everywhere.
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


_WORD = re.compile(r"\w+")


class IndexedText:
    """Fills a text template for each memory, with the placeholders that ``memory.storage.text_template`` has checked.

    ``date`` is the UTC day, as in 8 May 2023, ``speaker`` that of a tag ``speaker:NAME``. The template is recorded as
    the text form of the collection.
    """

    def __init__(self, template: str = PLAIN) -> None:
        self.template = template
        self._parts = [(literal, name) for literal, name, _, _ in Formatter().parse(template)]

    def form(self, weighting: TermWeighting) -> str:
        """Return what a collection records of its texts' form: the template, and how terms count where not as usual."""
        return self.template if weighting is TermWeighting.SATURATED else f"{self.template} (terms by {weighting})"

    def of(self, entry: MemoryEntry) -> str:
        """Return the text to embed and index.

        A field that the memory lacks is left out with what follows it, up to the next field. What stands before the
        content is left out where the content begins with it: texts of dialogue may name day and speaker themselves.
        """
        if self.template == PLAIN:
            return entry.content
        fields = {
            "agent": entry.agent_id,
            "content": entry.content,
            "category": entry.category.value,
            "namespace": entry.namespace,
            "source": entry.metadata.source or "",
            "date": _day(entry.created_at),
            "speaker": speaker_of(entry.metadata.tags),
            "tags": ", ".join(entry.metadata.tags),
        }
        text, is_left_out = "", False
        for literal, name in self._parts:
            value = "" if name is None else fields[name]
            text += "" if is_left_out else literal
            text = value if name == "content" and _begins_with(value, text) else text + value
            is_left_out = name is not None and not value
        return text


def _begins_with(content: str, text: str) -> bool:
    # By words: "[8 May, 2023]" says what "[8 May 2023]" does.
    wanted = _WORD.findall(text)
    return wanted != [] and _WORD.findall(content[: 2 * len(text)])[: len(wanted)] == wanted


#: Makes one vector of each text.
Embed = Callable[[list[str]], NDArray[np.float32]]


def label_of(entry: MemoryEntry) -> str:
    """Return the day, the speaker and the search notes of a memory, by whose words it is found whatever it says."""
    return " ".join([_day(entry.created_at), speaker_of(entry.metadata.tags), *entry.search_notes])


def _day(at: datetime) -> str:
    # As people write and ask for it: 2023-05-08 shares no word with a question about May (docs/benchmarks/2026-11.md).
    day = at.astimezone(UTC)
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexing:
    """What makes the vectors of a memory: the dense one, the sparse one, and the text that both are made of."""

    embedder: Embedder
    encoder: Bm25Encoder
    text: IndexedText

    @classmethod
    def of(cls, served: ServedCollection, embedder: Embedder) -> Self:
        """Return what fills a collection, with the embedder that was loaded for it."""
        encoder = Bm25Encoder(weighting=TermWeighting(served.term_weighting))
        return cls(embedder=embedder, encoder=encoder, text=IndexedText(served.text_template))

    @property
    def identity(self) -> EmbedderIdentity:
        """What a collection records of it; another one's vectors would not fit."""
        return EmbedderIdentity.of(self.embedder, text_form=self.text.form(self.encoder.weighting))

    def vectors(self, entries: Sequence[MemoryEntry]) -> list[Vectors]:
        """Return the vectors of each memory, dense and sparse."""
        space = self.identity.label
        with tracing.span(f"embeddings {self.embedder.name}", embedding(self.embedder, texts=len(entries))):
            both = self.rows(entries, embed=self.embedder.embed_documents)
        return [Vectors(dense=dense, sparse=sparse or None, space=space) for dense, sparse in both]

    def rows(self, entries: Sequence[MemoryEntry], *, embed: Embed) -> list[tuple[NDArray[np.float32], SparseVector]]:
        """Return the dense and the sparse vector of each memory.

        A memory with search notes lies halfway between its text and the mean of these: so questions in the words of
        either are near it.
        """
        texts = [self.text.of(entry) for entry in entries]
        dense = embed(texts)
        noted = [(row, note) for row, entry in enumerate(entries) for note in entry.search_notes]
        if noted:
            means, rows = np.zeros_like(dense), [row for row, _ in noted]
            np.add.at(means, rows, embed([note for _, note in noted]))
            dense = np.where(means.any(axis=1, keepdims=True), _unit(dense + _unit(means)), dense)
        return list(zip(dense, self.encoder.encode_documents(texts, list(map(label_of, entries))), strict=True))


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: NDArray[np.float32] = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0.0)
    return unit


_under = attrgetter("summary_id")


def statement(operation: str, collection: str) -> Attributes:
    """Return what a span tells of a call of the store."""
    return {
        Attribute.DATABASE: "qdrant",
        Attribute.DATABASE_OPERATION: operation,
        Attribute.COLLECTION: collection,
    }


def embedding(embedder: Embedder, *, texts: int) -> Attributes:
    """Return what a span tells of texts that are embedded."""
    return {Attribute.OPERATION: "embeddings", Attribute.MODEL: embedder.name, Attribute.TEXTS: texts}


def _by_id(payloads: Mapping[str, dict[str, Any]]) -> Callable[[MemoryRecord], dict[str, Any]]:
    return lambda point: payloads[point.entry.id]


class Writer:
    """Writes one collection with a sync client; when a method returns, readers see the change.

    Vectors without a space may be taken as they are in the first collection of an installation alone: there was no
    other when they were made.
    """

    def __init__(
        self,
        client: QdrantClient,
        collection: str,
        *,
        history: History,
        indexing: Indexing,
        takes_unlabelled_vectors: bool,
    ) -> None:
        self._client = client
        self._collection = collection
        self._history = history
        self._indexing = indexing
        self._space = indexing.identity.label
        self._takes_unlabelled_vectors = takes_unlabelled_vectors

    def store(self, records: Sequence[MemoryRecord]) -> None:
        """Embed records without vectors, write the new ones, and record them in the history; at most a page of them."""
        unique: dict[str, MemoryRecord] = {}
        for record in records:
            unique.setdefault(require_ids(record.entry), record)
        self.insert(list(unique.values()))
        # After the write: a crash between the two leaves a memory without its ADD row, and the redelivery adds it.
        again, known = self._history.added([record.entry for record in unique.values()], held=self._staying)
        if known:
            self._state_again({memory_id: unique[memory_id] for memory_id in known})
        if again:
            # Stored anew, or removed by a run between the two writes: then its text would stay in the history.
            self._history.taken_back(set(again) - set(self._staying(again)))

    def _state_again(self, given: Mapping[str, MemoryRecord]) -> None:
        """Set the time and the tags of memories that were there and are stored again."""
        rows = self._client.retrieve(self._collection, ids=sorted(given), with_payload=True)
        for stored in to_records(rows):
            now = stored.stated_again(given[stored.entry.id])
            if now is not None:
                payload = {STATED_KEY: now.extra[STATED_KEY], Key.TAGS.value: list(now.entry.metadata.tags)}
                if SUCCESSION_KEY in stored.extra.keys() - now.extra.keys():
                    payload[SUCCESSION_KEY] = []
                narrowed = owned(stored.entry.agent_id, with_ids([stored.entry.id]))
                self._set(payload, FilterSelector(filter=narrowed))

    def insert(
        self, records: Sequence[MemoryRecord], *, payload_of: Callable[[MemoryRecord], dict[str, Any]] = encode
    ) -> None:
        """Write the points of records that have none yet, each with the payload that is made of it."""
        made, dims = self.embedded(records), self._indexing.embedder.dims
        body: Any = to_upsert(made, dims=dims, mode=UpdateMode.INSERT_ONLY, payload_of=payload_of)
        about = {**statement("upsert", self._collection), Attribute.MEMORIES: len(made)}
        # The client's own REST call: it sends bytes as they are, and models through pydantic.
        with tracing.span(f"upsert {self._collection}", about, kind="client"):
            self._client.http.points_api.upsert_points(self._collection, wait=True, point_insert_operations=body)

    def index_archived(self, agent_id: str, copies: Sequence[ArchivedCopy], *, moved_from: Collection[str]) -> None:
        """Write the copies that are not there yet; move those that are there under a summary of ``moved_from``."""
        for at in range(0, len(copies), MAX_PAGE):
            part = {copy.archival_id: copy for copy in copies[at : at + MAX_PAGE]}
            points = [
                replace(copy.record, entry=copy.record.entry.model_copy(update={"id": archival_id}))
                for archival_id, copy in part.items()
            ]
            payloads = {archival_id: encode_archived(copy) for archival_id, copy in part.items()}
            self.insert(points, payload_of=_by_id(payloads))
        if not moved_from:
            return
        for summary_id, moved in groupby(sorted(copies, key=_under), key=_under):
            theirs = with_ids([copy.archival_id for copy in moved])
            narrowed = archived(agent_id, theirs, *of_copies(summaries=moved_from))
            self._set({Key.ARCHIVED_UNDER.value: summary_id}, FilterSelector(filter=narrowed))

    def unindex_archived(
        self, agent_id: str, *, summaries: Collection[str], originals: Collection[str], entries: Collection[str]
    ) -> None:
        """Delete the copies under these summaries, those of these memories, and those of these archive entries."""
        found = of_copies(summaries=summaries, originals=originals)
        found += [with_ids(memory_ids(entries))] if entries else []
        for condition in found:
            selector = FilterSelector(filter=archived(agent_id, condition))
            self._client.delete(self._collection, points_selector=selector, wait=True)

    def execute(self, lines: Sequence[SharedEntry], known: Mapping[int, Vectors | None]) -> None:
        """Write the points of publications, and the end of those that are retracted; idempotent.

        The lines are consecutive, all before them are in the store, and ``known`` are vectors made before, by version.
        Existing points are not written anew: a slow process may execute a line long after others have gone on, and must
        not bring back what they ended.
        """
        for line in lines:
            if line.record is not None:
                record = replace(line.record, vectors=known.get(line.version))
                self.insert([record], payload_of=partial(encode_shared, version=line.version))
        for line in lines:
            if line.record is None:
                narrowed = shared(with_ids([line.memory_id]))
                self._set({Key.SHARED_UNTIL.value: line.version}, FilterSelector(filter=narrowed))

    def set_metadata(
        self,
        agent_id: str,
        ids: Sequence[str],
        metadata: MemoryMetadata | None,
        *,
        extra: Mapping[str, Any],
        now: datetime,
    ) -> int:
        """Replace source, confidence and tags, and stamp the time; set the keys of the extra; return how many."""
        narrowed = owned(agent_id, with_ids(memory_ids(ids)))
        changed = self._client.count(self._collection, count_filter=narrowed, exact=True).count
        payload = extra_payload(extra)
        if metadata is not None:
            stamp = {Key.UPDATED_AT.value: iso(now), Key.UPDATED_TS.value: now.timestamp()}
            payload |= {**metadata_payload(metadata), **stamp}
        self._set(payload, FilterSelector(filter=narrowed))
        return changed

    def set_search_notes(self, agent_id: str, notes: Mapping[str, SearchNotes]) -> int:
        """Index memories under their search notes too, in place of earlier ones; return how many are there still.

        The vectors first: after a crash between the two the memory counts as one without notes, and gets them again.
        Both change what is there, and nothing else of it: no memory comes back that was removed meanwhile, and no mark
        of a run is lost.
        """
        narrowed = owned(agent_id, with_ids(memory_ids(notes)))
        rows, _ = self._client.scroll(self._collection, scroll_filter=narrowed, limit=len(notes), with_payload=True)
        noted = [record.with_search_notes(notes[record.entry.id]) for record in to_records(rows)]
        there = 0
        for record, vectors in zip(noted, self._indexing.vectors([each.entry for each in noted]), strict=True):
            memory_id = record.entry.id
            payload = {SEARCH_NOTES_KEY: record.extra[SEARCH_NOTES_KEY]}
            point = {"id": memory_id, "vector": as_vector(vectors.dense, vectors.sparse)}
            operations = [
                {"update_vectors": {"points": [point]}},
                {"set_payload": {"payload": payload, "filter": as_json(owned(agent_id, with_ids([memory_id])))}},
            ]
            body: Any = orjson.dumps({"operations": operations}, option=orjson.OPT_SERIALIZE_NUMPY)
            try:
                self._client.http.points_api.batch_update(self._collection, wait=True, update_operations=body)
            except UnexpectedResponse as error:
                if error.status_code != HTTPStatus.NOT_FOUND:
                    raise
            else:
                there += 1
        return there

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
        matching = of_where(where)
        removed, offset = 0, None
        while True:
            rows, offset = self._client.scroll(
                self._collection,
                scroll_filter=matching,
                limit=MAX_PAGE,
                offset=offset,
                with_payload=False,
                with_vectors=False,
            )
            found = [str(row.id) for row in rows]
            remove = self._remove_canaries if where.agent_id == CANARY_OWNER else self._remove
            removed += remove(matching, found) if found else 0
            if offset is None:
                return removed

    def _remove_canaries(self, matching: Filter, ids: list[str]) -> int:
        # One a minute for years would fill the history. First, as below: the next one repairs a crash in between.
        self._history.dropped(ids)
        self._delete(matching, ids)
        return len(ids)

    def _remove(self, matching: Filter, ids: list[str]) -> int:
        # The history first: a crash in between is repaired by deleting again, while a text left in the history of a
        # deleted memory would never be found.
        self._history.deleted(ids)
        self._delete(matching, ids)
        staying = self._staying(ids)
        if staying:
            self._history.kept(list(staying.values()))
        # A store that wrote its row between our two steps found the memory still there.
        self._history.taken_back(set(ids) - set(staying))
        return len(ids) - len(staying)

    def _delete(self, matching: Filter, ids: Sequence[str]) -> None:
        # By the whole condition, not by id alone: a memory that lost its mark since must stay.
        narrowed = narrower(matching, with_ids(ids))
        self._client.delete(self._collection, points_selector=FilterSelector(filter=narrowed), wait=True)

    def _staying(self, ids: Sequence[str]) -> dict[str, MemoryEntry]:
        rows = self._client.retrieve(self._collection, ids=ids, with_payload=True)
        return {record.entry.id: record.entry for record in to_records(rows)}

    def embedded(self, records: Sequence[MemoryRecord]) -> list[MemoryRecord]:
        """Return the records with vectors, made for those that have none, or have those of another embedder."""
        bare = [record for record in records if record.vectors is None or not self._is_ours(record.vectors)]
        if not bare:
            return list(records)
        vectors = self._indexing.vectors([record.entry for record in bare])
        made = {record.entry.id: one for record, one in zip(bare, vectors, strict=True)}
        return [
            replace(record, vectors=made[record.entry.id]) if record.entry.id in made else record for record in records
        ]

    def _is_ours(self, vectors: Vectors) -> bool:
        return self._takes_unlabelled_vectors if vectors.space is None else vectors.space == self._space

    def _set(self, payload: dict[str, Any], points: FilterSelector) -> None:
        self._client.set_payload(self._collection, payload=payload, points=points, wait=True)
