"""The collection: mem0's layout, memtend's indexes, and the record of whose vectors lie in it."""

from typing import Any

from pydantic import ValidationError
from qdrant_client import QdrantClient
from qdrant_client.http.exceptions import UnexpectedResponse
from qdrant_client.models import (
    CollectionInfo,
    Distance,
    Modifier,
    PayloadSchemaType,
    SparseVectorParams,
    VectorParams,
)

from memcore.backends.mem0.payload import LESSON, Key
from memcore.embedding.protocol import EmbedderIdentity
from memcore.errors import MemoryConfigError

#: Name of the dense vector: mem0's is the unnamed one.
DENSE = ""

#: Name of the sparse vector, as mem0 names it.
SPARSE = "bm25"

#: Key in the collection's metadata under which the embedder's identity stands.
_IDENTITY = "memtend_embedder"

#: What a person does about vectors of an embedder that the ledger does not know;
#: see docs/how-to/change-the-embedder.md.
_MEND = (
    "start once with what filled it, so that it is written down; then change the configuration and run "
    "`memtend reindex`, which fills a new collection while this one serves"
)

#: What the store answers when a collection is created that another process has just created.
_CONFLICT_STATUSES = frozenset({400, 409})

#: Indexed payload keys: all that a filter names. run_id and actor_id are there for mem0, which filters by them.
INDEXES: dict[str, PayloadSchemaType] = {
    **dict.fromkeys(
        (
            Key.USER_ID.value,
            Key.AGENT_ID.value,
            "run_id",
            "actor_id",
            Key.CATEGORY.value,
            Key.NAMESPACE.value,
            Key.TAGS.value,
            Key.SESSION_ID.value,
            Key.PROJECT_ID.value,
            Key.TASK_ID.value,
            Key.CLAIM.value,
            Key.SHARED_BY.value,
            LESSON,
        ),
        PayloadSchemaType.KEYWORD,
    ),
    **dict.fromkeys((Key.CREATED_TS.value, Key.UPDATED_TS.value, Key.EXPIRES_TS.value), PayloadSchemaType.FLOAT),
    **dict.fromkeys((Key.SHARED_SINCE.value, Key.SHARED_UNTIL.value), PayloadSchemaType.INTEGER),
}


def ensure_collection(client: QdrantClient, name: str, identity: EmbedderIdentity) -> None:
    """Create the collection if it is not there, and make sure that this embedder's vectors lie in it.

    A collection that stock mem0 created is taken over while it is empty.

    Raises MemoryConfigError when the collection has another layout, or holds vectors of another embedder.
    """
    if not client.collection_exists(name):
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
    indexed = info.payload_schema or {}
    for key, schema in INDEXES.items():
        if key not in indexed:
            client.create_payload_index(name, key, field_schema=schema, wait=True)


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
            f"{identity.dims}: {_MEND}"
        )


def _require_identity(recorded: Any, name: str, identity: EmbedderIdentity) -> None:
    try:
        theirs = EmbedderIdentity.model_validate(recorded)
    except ValidationError as error:
        raise MemoryConfigError(f"collection {name!r} records its embedder in a form that is not known") from error
    if theirs == identity:
        return
    raise MemoryConfigError(
        f"collection {name!r} holds vectors of {theirs.label}, and {identity.label} is configured: {_MEND}"
    )
