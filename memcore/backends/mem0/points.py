"""A memory as a point of the store and back, and the layout of a collection.

A payload has mem0's keys, memtend's beside them, and whatever else was there. Times are stored twice: as ISO text,
which is authoritative and what mem0 reads, and as epoch seconds, by which the store filters and orders. The claim mark
is no part of a memory: a memory that is written back comes without it.
"""

import hashlib
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray
from pydantic import ValidationError
from qdrant_client import QdrantClient
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse
from qdrant_client.models import (
    CollectionInfo,
    Distance,
    Filter,
    Modifier,
    PayloadSchemaType,
    Record,
    ScoredPoint,
    SparseVectorParams,
    UpdateMode,
    VectorParams,
    VectorStructOutput,
)

from memcore.backends.neighbours import Remark, role_of, speaker_of
from memcore.deadline.limits import without_deadline
from memcore.embedding.bm25 import SparseVector
from memcore.errors import MemoryConfigError, MemoryInputError
from memcore.ledger.collections import EmbedderIdentity
from memcore.models.memory import (
    ARCHIVE_OWNER_PREFIX,
    EARLIEST,
    LATEST,
    SHARED_OWNER,
    MemoryCategory,
    MemoryEntry,
    MemoryMetadata,
    within_range,
)
from memcore.models.origin import Origin
from memcore.records import (
    ATTRIBUTES_KEY,
    CALLER_KEY,
    COMPARED_KEY,
    COVERS_UNTIL_KEY,
    LESSON_FIELD,
    LESSON_KEY,
    ORIGIN_KEY,
    SEARCH_NOTES_KEY,
    SEQUENCE_KEY,
    STATED_KEY,
    SUCCESSION_KEY,
    VALIDITY_KEY,
    ArchivedCopy,
    Lineage,
    MemoryRecord,
    Vectors,
    reported,
)
from memcore.telemetry.events import Event

_log = logging.getLogger(__name__)

#: Category of a memory that has none, because stock mem0 wrote it. Not WORKING: those end with their task, and
#: nobody said that this one should.
_CATEGORY_OF_OUTSIDERS = MemoryCategory.SEMANTIC

#: Confidence of a memory whose confidence cannot be read: neither trusted nor dismissed.
_UNREADABLE_CONFIDENCE = 0.5


class Key(StrEnum):
    """A payload key that memtend reads or writes; the first six are mem0's own."""

    DATA = "data"
    HASH = "hash"
    USER_ID = "user_id"
    AGENT_ID = "agent_id"
    CREATED_AT = "created_at"
    UPDATED_AT = "updated_at"
    CATEGORY = "category"
    NAMESPACE = "namespace"
    SOURCE = "source"
    CONFIDENCE = "confidence"
    TAGS = "tags"
    EXPIRES_AT = "expires_at"
    CREATED_TS = "created_ts"
    UPDATED_TS = "updated_ts"
    EXPIRES_TS = "expires_ts"
    SESSION_ID = "session_id"
    PROJECT_ID = "project_id"
    TASK_ID = "task_id"
    SUMMARY_OF = "summary_of"
    DEPTH = "depth"
    CLAIM = "claim"
    #: Of shared knowledge: its publisher, the first version that has it, and the first that has it no more.
    SHARED_BY = "shared_by"
    SHARED_SINCE = "shared_since"
    SHARED_UNTIL = "shared_until"
    #: Of the copy of an archived memory: the memory's id, and the summary by which it is found.
    ARCHIVED_ORIGINAL = "archived_original"
    ARCHIVED_UNDER = "archived_under"


_KNOWN = frozenset(Key)

#: Where the store finds what every lesson has, and nothing else.
LESSON = f"{LESSON_KEY}.{LESSON_FIELD}"

#: Where the store finds what wrote a memory's search notes.
NOTED_BY = f"{SEARCH_NOTES_KEY}.by"

#: Where the store finds what a memory was compared with older ones by.
COMPARED_BY = f"{COMPARED_KEY}.by"

#: Where the store finds through which channels a memory came.
CHANNELS = f"{ORIGIN_KEY}.via"

#: Where it finds which keys had a part in it.
PRINCIPALS = f"{ORIGIN_KEY}.by"

#: Times, in epoch seconds, from when on a memory holds, and from when on it holds no more or has been replaced.
HOLDS_FROM, HOLDS_UNTIL, REPLACED_AT = f"{VALIDITY_KEY}.from", f"{VALIDITY_KEY}.until", f"{SUCCESSION_KEY}.at"

#: What decode makes an entry of, and by what its expiry is seen: a search asks for no more, because turning a whole
#: payload into JSON takes the store server twice as long.
ENTRY_KEYS = tuple(
    str(key)
    for key in (
        *(Key.DATA, Key.AGENT_ID, Key.SHARED_BY, Key.CREATED_AT, Key.UPDATED_AT, Key.EXPIRES_AT, Key.EXPIRES_TS),
        *(Key.CATEGORY, Key.NAMESPACE, Key.SOURCE, Key.CONFIDENCE, Key.TAGS),
        *(Key.ARCHIVED_ORIGINAL, Key.ARCHIVED_UNDER, COVERS_UNTIL_KEY),
        *(Key.SESSION_ID, SEQUENCE_KEY, VALIDITY_KEY, SUCCESSION_KEY),
        *(CALLER_KEY, ATTRIBUTES_KEY, STATED_KEY, SEARCH_NOTES_KEY, ORIGIN_KEY),
    )
)


def encode(record: MemoryRecord) -> dict[str, Any]:
    """Return the payload of a record; decode gives an equal record back."""
    entry, lineage = record.entry, record.lineage
    updated_at = entry.updated_at or entry.created_at
    return {
        # Before the rest: a memory that stock mem0 filed under a user of its own stays there.
        Key.USER_ID.value: entry.agent_id,
        **_stray(record.extra),
        Key.DATA.value: entry.content,
        Key.HASH.value: hashlib.md5(entry.content.encode("utf-8"), usedforsecurity=False).hexdigest(),
        Key.AGENT_ID.value: entry.agent_id,
        Key.CREATED_AT.value: iso(entry.created_at),
        Key.CREATED_TS.value: entry.created_at.timestamp(),
        Key.UPDATED_TS.value: updated_at.timestamp(),
        Key.CATEGORY.value: entry.category.value,
        Key.NAMESPACE.value: entry.namespace,
        **metadata_payload(entry.metadata),
        Key.DEPTH.value: lineage.depth,
        **_given(
            {
                Key.UPDATED_AT: None if entry.updated_at is None else iso(entry.updated_at),
                Key.EXPIRES_AT: None if entry.expires_at is None else iso(entry.expires_at),
                Key.EXPIRES_TS: None if entry.expires_at is None else entry.expires_at.timestamp(),
                Key.SESSION_ID: lineage.session_id,
                Key.PROJECT_ID: lineage.project_id,
                Key.TASK_ID: lineage.task_id,
                Key.SUMMARY_OF: list(lineage.summary_of) or None,
            }
        ),
    }


def encode_shared(record: MemoryRecord, *, version: int) -> dict[str, Any]:
    """Return the payload of a record that its agent publishes at a version; decode names the publisher as its agent."""
    return {
        **encode(record),
        Key.USER_ID.value: SHARED_OWNER,
        Key.AGENT_ID.value: SHARED_OWNER,
        Key.SHARED_BY.value: record.entry.agent_id,
        Key.SHARED_SINCE.value: version,
    }


def encode_archived(copy: ArchivedCopy) -> dict[str, Any]:
    """Return the payload of a copy in the archive's index; decode gives the memory, with its own id and agent, back."""
    owner = archive_owner(copy.record.entry.agent_id)
    return {
        **encode(copy.record),
        Key.USER_ID.value: owner,
        Key.AGENT_ID.value: owner,
        Key.ARCHIVED_ORIGINAL.value: copy.record.entry.id,
        Key.ARCHIVED_UNDER.value: copy.summary_id,
    }


def archive_owner(agent_id: str) -> str:
    """Return the owner of the copies of an agent's archived memories."""
    return f"{ARCHIVE_OWNER_PREFIX}{agent_id}"


def extra_payload(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a payload that these keys of an extra are; None, which takes one off, as an empty value."""
    return {key: [] if value is None else value for key, value in _stray(extra).items()}


def metadata_payload(metadata: MemoryMetadata) -> dict[str, Any]:
    """Return the part of a payload that set_metadata_many replaces; always the same keys, so nothing old stays."""
    return {
        Key.SOURCE.value: metadata.source,
        Key.CONFIDENCE.value: metadata.confidence,
        Key.TAGS.value: list(metadata.tags),
    }


def decode(
    memory_id: str, payload: Mapping[str, Any], *, vectors: Vectors | None = None, relevance: float | None = None
) -> MemoryRecord:
    """Return the record that a payload holds, filling in what stock mem0 leaves out.

    Raises ValueError when there is no text, no owner or no creation time: that is no memory.
    """
    entry = _entry(memory_id, payload, relevance=relevance)
    lineage = Lineage(
        session_id=payload.get(Key.SESSION_ID),
        project_id=payload.get(Key.PROJECT_ID),
        task_id=payload.get(Key.TASK_ID),
        summary_of=tuple(payload.get(Key.SUMMARY_OF) or ()),
        depth=payload.get(Key.DEPTH) or 0,
    )
    extra = _extra(payload, str(payload.get(Key.AGENT_ID)))
    return MemoryRecord(entry=entry, lineage=lineage, vectors=vectors, extra=extra)


def _entry(memory_id: str, payload: Mapping[str, Any], *, relevance: float | None = None) -> MemoryEntry:
    """Return the entry of a payload, without what its free fields say."""
    created_at = _time(payload.get(Key.CREATED_AT))
    owner, content = payload.get(Key.AGENT_ID), payload.get(Key.DATA)
    # Readers of shared knowledge are told who says it.
    agent_id = payload.get(Key.SHARED_BY) if owner == SHARED_OWNER else owner
    if isinstance(agent_id, str) and agent_id.startswith(ARCHIVE_OWNER_PREFIX):
        agent_id = agent_id.removeprefix(ARCHIVE_OWNER_PREFIX)
        memory_id = str(payload.get(Key.ARCHIVED_ORIGINAL))
    if created_at is None or not isinstance(agent_id, str) or not isinstance(content, str):
        raise ValueError("the payload lacks data, agent_id or created_at")
    updated_at = _time(payload.get(Key.UPDATED_AT))
    return MemoryEntry.model_validate(
        {
            "id": memory_id,
            "agent_id": agent_id,
            "namespace": payload.get(Key.NAMESPACE) or "default",
            "category": payload.get(Key.CATEGORY) or _CATEGORY_OF_OUTSIDERS,
            "content": content,
            "metadata": {
                "source": payload.get(Key.SOURCE) or None,
                "confidence": _confidence(payload.get(Key.CONFIDENCE, 1.0)),
                "tags": payload.get(Key.TAGS) or (),
            },
            "created_at": created_at,
            # A metadata change stamps the store's time, and the clock that created the memory may have been ahead.
            "updated_at": None if updated_at is None else max(updated_at, created_at),
            "expires_at": _time(payload.get(Key.EXPIRES_AT)),
            "relevance_score": relevance,
            "origin": Origin.read(payload.get(ORIGIN_KEY)),
        }
    )


def iso(at: datetime) -> str:
    """Return a time the way mem0 writes it: ISO 8601 in UTC."""
    return at.astimezone(UTC).isoformat()


def _given(optional: Mapping[Key, Any]) -> dict[str, Any]:
    return {key.value: value for key, value in optional.items() if value is not None}


def _stray(extra: Mapping[str, Any]) -> dict[str, Any]:
    # A key of ours among the foreign ones would bypass the codec; a claim mark above all.
    return {key: value for key, value in extra.items() if key not in _KNOWN or key == Key.USER_ID}


def _extra(payload: Mapping[str, Any], owner: str) -> dict[str, Any]:
    extra = {key: value for key, value in payload.items() if key not in _KNOWN}
    # Taken off: a store has no single call that sets some keys and removes others.
    if extra.get(SUCCESSION_KEY) == []:
        del extra[SUCCESSION_KEY]
    user_id = payload.get(Key.USER_ID)
    if user_id is not None and user_id != owner:
        extra[Key.USER_ID.value] = user_id
    return extra


def _time(text: object) -> datetime | None:
    if not isinstance(text, str):
        return None
    at = datetime.fromisoformat(text)
    # Stock mem0 and older releases wrote any date; a memory must not vanish for one.
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return (at if EARLIEST <= at <= LATEST else within_range(at)).astimezone(UTC)


def _confidence(value: object) -> float:
    if isinstance(value, int | float) and math.isfinite(value) and 0.0 <= value <= 1.0:
        return float(value)
    return _UNREADABLE_CONFIDENCE


#: Names of the dense and the sparse vector: mem0's.
DENSE, SPARSE = "", "bm25"

#: Key in the collection's metadata under which the embedder's identity stands.
_IDENTITY = "memtend_embedder"

#: What a person does about vectors of an embedder that the ledger does not know;
#: see docs/how-to/change-the-embedder.md.
_REPAIR = (
    "start once with what filled it, so that it is written down; then change the configuration and run "
    "`memtend reindex`, which fills a new collection while this one serves"
)

#: What the store answers when a collection is created that another process has just created.
_CONFLICT_STATUSES = frozenset({400, 409})

#: Indexed payload keys: all that a filter names. run_id and actor_id are there for mem0, which filters by them.
INDEXES: dict[str, PayloadSchemaType] = {
    **dict.fromkeys(
        (
            *(Key.USER_ID.value, Key.AGENT_ID.value, "run_id", "actor_id"),
            *(Key.CATEGORY.value, Key.NAMESPACE.value, Key.TAGS.value),
            *(Key.SESSION_ID.value, Key.PROJECT_ID.value, Key.TASK_ID.value),
            *(Key.CLAIM.value, Key.SHARED_BY.value, LESSON),
            *(Key.ARCHIVED_ORIGINAL.value, Key.ARCHIVED_UNDER.value),
        ),
        PayloadSchemaType.KEYWORD,
    ),
    **dict.fromkeys((Key.CREATED_TS.value, Key.UPDATED_TS.value, Key.EXPIRES_TS.value), PayloadSchemaType.FLOAT),
    **dict.fromkeys((HOLDS_FROM, HOLDS_UNTIL, REPLACED_AT), PayloadSchemaType.FLOAT),
    **dict.fromkeys((Key.SHARED_SINCE.value, Key.SHARED_UNTIL.value), PayloadSchemaType.INTEGER),
}


def ensure_collection(client: QdrantClient, name: str, identity: EmbedderIdentity) -> None:
    """Create the collection if it is not there, and make sure that this embedder's vectors lie in it.

    A collection that stock mem0 created is taken over while it is empty.

    Raises MemoryConfigError when the collection has another layout, or holds vectors of another embedder.
    """
    if not client.collection_exists(name):
        with without_deadline():
            _create(client, name, identity)
    info = client.get_collection(name)
    recorded = (info.config.metadata or {}).get(_IDENTITY)
    if recorded is not None:
        # First, for it names both embedders, where the layout shows no more than another number of dimensions.
        _require_identity(recorded, name, identity)
    _require_layout(info, name, identity)
    if recorded is None:
        if client.count(name, exact=True).count:
            raise MemoryConfigError(
                f"collection {name!r} holds vectors of an unrecorded embedder, and {identity.name} is configured: "
                "choose another MEMTEND_COMPANY, which has a collection of its own, and `memtend import` into it"
            )
        client.update_collection(name, metadata={_IDENTITY: identity.model_dump(mode="json")})
    missing = [key for key in INDEXES if key not in (info.payload_schema or {})]
    with without_deadline():
        for key in missing:
            # A store applies them in order: the last answer stands for all of them, and the disk is waited for once.
            client.create_payload_index(name, key, field_schema=INDEXES[key], wait=key == missing[-1])


def _create(client: QdrantClient, name: str, identity: EmbedderIdentity) -> None:
    try:
        client.create_collection(
            name,
            vectors_config=VectorParams(size=identity.dims, distance=Distance.COSINE),
            sparse_vectors_config={SPARSE: SparseVectorParams(modifier=Modifier.IDF)},
            metadata={_IDENTITY: identity.model_dump(mode="json")},
        )
    except UnexpectedResponse as error:
        # Several processes start at once, and all of them see no collection; the first one creates it.
        if error.status_code not in _CONFLICT_STATUSES or not client.collection_exists(name):
            raise


def _require_layout(info: CollectionInfo, name: str, identity: EmbedderIdentity) -> None:
    vectors, sparse = info.config.params.vectors, info.config.params.sparse_vectors or {}
    if isinstance(vectors, dict) and set(vectors) == {DENSE}:
        vectors = vectors[DENSE]
    if not isinstance(vectors, VectorParams) or vectors.distance != Distance.COSINE:
        raise MemoryConfigError(f"collection {name!r} must have one unnamed dense vector with cosine distance")
    if SPARSE not in sparse or sparse[SPARSE].modifier != Modifier.IDF:
        raise MemoryConfigError(f"collection {name!r} must have a sparse vector {SPARSE!r} with the IDF modifier")
    if vectors.size != identity.dims:
        raise MemoryConfigError(
            f"collection {name!r} holds vectors of {vectors.size} dimensions, and the embedder {identity.name} makes "
            f"{identity.dims}: {_REPAIR}"
        )


def _require_identity(recorded: Any, name: str, identity: EmbedderIdentity) -> None:
    try:
        theirs = EmbedderIdentity.model_validate(recorded, extra="ignore")
    except ValidationError as error:
        raise MemoryConfigError(f"collection {name!r} records its embedder in a form that is not known") from error
    if theirs != identity:
        raise MemoryConfigError(
            f"collection {name!r} holds vectors of {theirs.label}, and {identity.label} is configured: {_REPAIR}"
        )


# The client's models cost a search more than the store's engine does: the request is built of dicts instead,
# and only the fields that a search needs are read. The call itself is the client's own: key, time-out and errors.


class Found(NamedTuple):
    """A point that a query found."""

    memory_id: str
    score: float
    payload: dict[str, Any]


def ask(client: QdrantClient, collection: str, queries: Sequence[dict[str, Any]]) -> list[list[Found]]:
    """Return the points of each query, best first; numpy vectors may stand in a query as they are.

    Raises what the client raises; ResponseHandlingException also for an answer that is none.
    """
    answer = client.http.client.request(
        type_=dict[str, Any],
        method="POST",
        url="/collections/{collection_name}/points/query/batch",
        path_params={"collection_name": collection},
        headers={"Content-Type": "application/json"},
        content=orjson.dumps({"searches": queries}, option=orjson.OPT_SERIALIZE_NUMPY),
    )
    try:
        return [
            [Found(str(point["id"]), float(point["score"]), point.get("payload") or {}) for point in one["points"]]
            for _, one in zip(queries, answer["result"], strict=True)
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise ResponseHandlingException(error) from error


def as_json(narrowed: Filter) -> dict[str, Any]:
    """Return a filter as it stands in a query."""
    return narrowed.model_dump(mode="json", exclude_none=True)


def to_upsert(
    records: Sequence[MemoryRecord],
    *,
    dims: int,
    mode: UpdateMode,
    payload_of: Callable[[MemoryRecord], dict[str, Any]] = encode,
) -> bytes:
    """Return the body of Qdrant's upsert for records with vectors, each with the payload that is made of it.

    Written straight to JSON, because building the client's models and letting them write it takes four times as long
    and is a third of what a stored memory costs a worker. A 32-bit number is written as one, in half the digits.
    Raises MemoryInputError when a record has no vectors, or a dense one that is not of length dims.
    """
    points = [_point(record, payload_of(record), dims=dims) for record in records]
    return orjson.dumps({"points": points, "update_mode": mode.value}, option=orjson.OPT_SERIALIZE_NUMPY)


def _point(record: MemoryRecord, payload: dict[str, Any], *, dims: int) -> dict[str, Any]:
    if record.vectors is None:
        raise MemoryInputError("vectors", "must be there before a record becomes a point")
    dense, sparse = record.vectors.dense, record.vectors.sparse
    if dense.shape != (dims,):
        raise MemoryInputError("vectors.dense", f"has the shape {dense.shape}; the collection holds ({dims},)")
    return {"id": record.entry.id, "vector": as_vector(dense, sparse), "payload": payload}


def as_vector(dense: NDArray[np.float32], sparse: SparseVector | None) -> dict[str, Any]:
    """Return a point's vectors as they stand in an upsert."""
    vector: dict[str, Any] = {DENSE: np.ascontiguousarray(dense, dtype=np.float32)}
    if sparse:
        vector[SPARSE] = {"indices": sparse.indices, "values": sparse.values}
    return vector


def to_records(points: Iterable[Record | ScoredPoint], *, space: str | None = None) -> list[MemoryRecord]:
    """Return the records of these points, with the vectors of this space if they came with them.

    One that cannot be read as a memory is logged by its id and passed over.
    """
    read = (_read(str(one.id), one.payload or {}, vectors=_vectors(one.vector, space=space)) for one in points)
    return [record for record in read if record is not None]


def text_of(found: Found) -> str:
    """Return the text of a point that a query found; outsiders may write anything there."""
    text = found.payload.get(Key.DATA)
    return text if isinstance(text, str) else ""


def to_remark(found: Found, *, agent_id: str = "") -> Remark:
    """Return a point of one agent's that a query found as its neighbours see it."""
    payload = found.payload
    sequence, tags = payload.get(SEQUENCE_KEY), payload.get(Key.TAGS)
    return Remark(
        text=text_of(found),
        agent_id=agent_id,
        session_id=payload.get(Key.SESSION_ID),
        sequence=sequence if isinstance(sequence, int) else None,
        source=payload.get(Key.SOURCE),
        speaker=speaker_of([tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else ()),
        role=role_of(payload),
    )


def successor_of(found: Found) -> str | None:
    """Return the id of the memory that replaced a point's."""
    succession = found.payload.get(SUCCESSION_KEY)
    by = succession.get("by") if isinstance(succession, dict) else None
    return by if isinstance(by, str) else None


def to_entry(found: Found) -> MemoryEntry | None:
    """Return the entry of a point that a query found; None when it is no memory."""
    # No record: a search makes one entry of each candidate, and wants nothing else of it.
    try:
        entry, session_id = _entry(found.memory_id, found.payload), found.payload.get(Key.SESSION_ID)
        known = reported(entry, found.payload, session_id=session_id)
        return entry.model_copy(update=known) if known else entry
    except _UNREADABLE as error:
        _note_unreadable(found.memory_id, error)
        return None


def _read(
    memory_id: str, payload: dict[str, Any], *, vectors: Vectors | None = None, relevance: float | None = None
) -> MemoryRecord | None:
    try:
        return decode(memory_id, payload, vectors=vectors, relevance=relevance)
    except _UNREADABLE as error:
        _note_unreadable(memory_id, error)
        return None


#: What a payload raises that is no memory: one point that somebody else wrote must not make all others unreadable.
_UNREADABLE = (ValueError, TypeError, MemoryInputError)


def _note_unreadable(memory_id: str, error: Exception) -> None:
    _log.warning(Event.MEMORY_MODEL_INVALID, extra={"memory_id": memory_id, "error": type(error).__name__})


def _vectors(vector: VectorStructOutput | None, *, space: str | None) -> Vectors | None:
    named: dict[str, Any] = vector if isinstance(vector, dict) else {DENSE: vector}
    dense, sparse = named.get(DENSE), named.get(SPARSE)
    if dense is None:
        return None
    known = None
    if sparse is not None:
        # Ascending: a store may return the terms in an order of its own.
        pairs = sorted(zip(sparse.indices, sparse.values, strict=True))
        known = SparseVector(indices=tuple(i for i, _ in pairs), values=tuple(v for _, v in pairs))
    return Vectors(dense=np.asarray(dense, dtype=np.float32), sparse=known, space=space)
