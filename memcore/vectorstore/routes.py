"""The REST calls: collections, indexes and aliases; reads of points; writes of points."""

import uuid
from collections.abc import Sequence
from typing import Any

import qdrant_edge as edge
from qdrant_client.http import models as rest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from memcore.free_space import FOR_REMOVALS, FOR_WRITES
from memcore.vectorstore import writes
from memcore.vectorstore.collection import Collection
from memcore.vectorstore.queries import (
    QueryReader,
    engine_filter,
    engine_order,
    limit_of,
    payload_selector,
    refuse_shard_key,
    vector_selector,
)
from memcore.vectorstore.rest import (
    BadRequestError,
    NotFoundError,
    NotSupportedError,
    body_of,
    engine_errors,
    model_of,
    ok,
    record,
    scored,
    switch,
    updated,
)
from memcore.vectorstore.schema import (
    INDEXING_THRESHOLD_KB,
    VACUUM_MIN_POINTS,
    VACUUM_SHARE,
    described,
    engine_params,
    point_id,
)
from memcore.vectorstore.store import OLDEST_CHECKPOINT, Store

#: What a change of a collection may touch: hints that tune a server and do nothing here.
_HINTS = {"optimizers_config", "hnsw_config", "params"}


class CollectionCalls:
    """Answers the calls about collections.

    Args:
        store: the open store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def routes(self) -> list[Route]:
        """Return the routes of these calls."""
        one = "/collections/{name}"
        return [
            Route("/issues", self.issues, methods=["GET"]),
            Route("/collections", self.listed, methods=["GET"]),
            Route("/collections/aliases", self.change_aliases, methods=["POST"]),
            Route("/aliases", self.aliases, methods=["GET"]),
            Route(one, self.described, methods=["GET"]),
            Route(one, self.create, methods=["PUT"]),
            Route(one, self.change, methods=["PATCH"]),
            Route(one, self.delete, methods=["DELETE"]),
            Route(one + "/exists", self.exists, methods=["GET"]),
            Route(one + "/aliases", self.aliases, methods=["GET"]),
            Route(one + "/index", self.create_index, methods=["PUT"]),
            Route(one + "/index/{field:path}", self.delete_index, methods=["DELETE"]),
        ]

    async def issues(self, request: Request) -> Response:
        """List the refused collections, each with the reason and what restores it."""
        found = [
            {"id": f"collection/{name}", "description": reason, "related_collection": name}
            for name, reason in sorted(self._store.refused.items())
        ]
        return ok(request, {"issues": found})

    async def listed(self, request: Request) -> Response:
        """List the collections."""
        return ok(
            request,
            {"collections": [{"name": name} for name in sorted({*self._store.collections, *self._store.refused})]},
        )

    async def exists(self, request: Request) -> Response:
        """Answer whether a collection or an alias has a name."""
        name = self._store.aliases.resolve(request.path_params["name"])
        return ok(request, {"exists": self._store.exists(name)})

    async def described(self, request: Request) -> Response:
        """Describe a collection."""
        return ok(request, _description(self._store.collection(request.path_params["name"])))

    async def create(self, request: Request) -> Response:
        """Create a collection; options that only tune a server are accepted and have no effect."""
        await self._store.create(request.path_params["name"], await model_of(request, rest.CreateCollection))
        return ok(request, result=True)

    async def change(self, request: Request) -> Response:
        """Merge metadata, accept tuning hints and refuse every other change."""
        collection = self._store.collection(request.path_params["name"])
        given = await model_of(request, rest.UpdateCollection)
        if unknown := given.model_dump(exclude_none=True).keys() - _HINTS - {"metadata"}:
            raise NotSupportedError(f"update of {min(unknown)}")
        if given.metadata:
            collection.annotate(given.metadata)
        return ok(request, result=True)

    async def delete(self, request: Request) -> Response:
        """Delete a collection; false says that there was none."""
        return ok(request, await self._store.delete(request.path_params["name"]))

    async def create_index(self, request: Request) -> Response:
        """Index a payload field."""
        collection, wait = self._store.collection(request.path_params["name"]), switch(request, "wait")
        given = await model_of(request, rest.CreateFieldIndex)
        self._store.refuse_when_full()
        if given.field_schema is None:
            raise BadRequestError("Wrong input: Can't auto-detect field type, please specify `field_schema`")
        with engine_errors():
            params = engine_params(given.field_schema)
        return ok(request, updated(await collection.create_index(given.field_name, params, wait=wait), wait=wait))

    async def delete_index(self, request: Request) -> Response:
        """Drop the index of a payload field."""
        collection, wait = self._store.collection(request.path_params["name"]), switch(request, "wait")
        return ok(request, updated(await collection.delete_index(request.path_params["field"], wait=wait), wait=wait))

    async def aliases(self, request: Request) -> Response:
        """List all aliases, or those of one collection."""
        name = request.path_params.get("name")
        if name is not None:
            name = self._store.collection(name).name
        listed = [
            {"alias_name": alias, "collection_name": target}
            for alias, target in self._store.aliases.listed()
            if name in {None, target}
        ]
        return ok(request, {"aliases": listed})

    async def change_aliases(self, request: Request) -> Response:
        """Change aliases, all of them or none."""
        given = await model_of(request, rest.ChangeAliasesOperation)
        self._store.aliases.change(given.actions, exists=self._store.exists)
        return ok(request, result=True)


def _description(collection: Collection) -> dict[str, Any]:
    with engine_errors():
        info = collection.reading().info()
    created = collection.created.model_dump(mode="json", exclude_none=True)
    params = {"shard_number": 1, "replication_factor": 1, "write_consistency_factor": 1, "on_disk_payload": True}
    for field in ("vectors", "sparse_vectors"):
        if field in created:
            params[field] = created[field]
    config: dict[str, Any] = {
        "params": params,
        # zero links: there is no graph, search is exact
        "hnsw_config": {"m": 0, "ef_construct": 4, "full_scan_threshold": INDEXING_THRESHOLD_KB},
        "optimizer_config": {
            "deleted_threshold": VACUUM_SHARE,
            "vacuum_min_vector_number": VACUUM_MIN_POINTS,
            "default_segment_number": 0,
            "indexing_threshold": INDEXING_THRESHOLD_KB,
            "flush_interval_sec": int(OLDEST_CHECKPOINT.total_seconds()),
        },
    }
    if "metadata" in created:
        config["metadata"] = created["metadata"]
    return {
        "status": "green",
        "optimizer_status": "ok",
        "indexed_vectors_count": info.indexed_vectors_count,
        "points_count": info.points_count,
        "segments_count": info.segments_count,
        "config": config,
        "payload_schema": {field: described(index) for field, index in info.payload_schema.items()},
    }


class ReadCalls:
    """Answers the calls that read points.

    Args:
        store: the open store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def routes(self) -> list[Route]:
        """Return the routes of these calls."""
        points = "/collections/{name}/points"
        return [
            Route(points, self.retrieve, methods=["POST"]),
            Route(points + "/query", self.query, methods=["POST"]),
            Route(points + "/query/batch", self.query_batch, methods=["POST"]),
            Route(points + "/scroll", self.scroll, methods=["POST"]),
            Route(points + "/count", self.count, methods=["POST"]),
            Route(points + "/{id}", self.retrieve_one, methods=["GET"]),
            Route("/collections/{name}/facet", self.facet, methods=["POST"]),
        ]

    def _collection(self, request: Request) -> Collection:
        return self._store.collection(request.path_params["name"])

    async def retrieve(self, request: Request) -> Response:
        """Return points by id, those that exist."""
        collection, given = self._collection(request), await model_of(request, rest.PointRequest)
        refuse_shard_key(given.shard_key)
        ids: list[Any] = [point_id(one) for one in given.ids]
        with_payload = payload_selector(given.with_payload, default=True)
        with engine_errors():
            found = collection.reading().retrieve(ids, with_payload, vector_selector(given.with_vector))
        return ok(request, [record(one) for one in found])

    async def retrieve_one(self, request: Request) -> Response:
        """Return one point, whole."""
        collection, text = self._collection(request), request.path_params["id"]
        asked = point_id(int(text) if text.isdecimal() and text.isascii() else text)
        with engine_errors():
            found = collection.reading().retrieve([asked], True, True)  # noqa: FBT003  # the engine takes them by position
        if not found:
            raise NotFoundError(f"Not found: Point with id {text} does not exists!")
        return ok(request, record(found[0]))

    async def query(self, request: Request) -> Response:
        """Search: nearest, hybrid, ordered, sampled."""
        collection, given = self._collection(request), await model_of(request, rest.QueryRequest)
        with engine_errors():
            asked = self._reader(collection).request(given)
            found = collection.reading().query(asked)
        return ok(request, {"points": [scored(one) for one in found]})

    async def query_batch(self, request: Request) -> Response:
        """Search several times; the engine plans them together."""
        collection, given = self._collection(request), await model_of(request, rest.QueryRequestBatch)
        reader = self._reader(collection)
        with engine_errors():
            asked = [reader.request(one) for one in given.searches]
            answers = collection.reading().query_batch(edge.QueryBatchRequest(asked))
        return ok(request, [{"points": [scored(one) for one in found]} for found in answers])

    def _reader(self, collection: Collection) -> QueryReader:
        return QueryReader(shape=collection.shape, vector_of=collection.vector_of)

    async def scroll(self, request: Request) -> Response:
        """Page through points by id, or take the first of an order."""
        collection, given = self._collection(request), await model_of(request, rest.ScrollRequest)
        refuse_shard_key(given.shard_key)
        if given.offset is not None and given.order_by is not None:
            raise BadRequestError("Wrong input: Cannot use an `offset` when using `order_by`")
        with engine_errors():
            asked = edge.ScrollRequest(
                offset=None if given.offset is None else point_id(given.offset),
                limit=limit_of(given.limit),
                filter=engine_filter(given.filter),
                with_payload=payload_selector(given.with_payload, default=True),
                with_vector=vector_selector(given.with_vector),
                order_by=None if given.order_by is None else engine_order(given.order_by),
            )
            found, following = collection.reading().scroll(asked)
        return ok(request, {"points": [record(one) for one in found], "next_page_offset": following})

    async def count(self, request: Request) -> Response:
        """Count points, always exactly."""
        collection, given = self._collection(request), await model_of(request, rest.CountRequest)
        refuse_shard_key(given.shard_key)
        with engine_errors():
            asked = edge.CountRequest(exact=True, filter=engine_filter(given.filter))
            return ok(request, {"count": collection.reading().count(asked)})

    async def facet(self, request: Request) -> Response:
        """Count points by the values of an indexed field, always exactly."""
        collection, given = self._collection(request), await model_of(request, rest.FacetRequest)
        refuse_shard_key(given.shard_key)
        with engine_errors():
            asked = edge.FacetRequest(given.key, limit_of(given.limit), exact=True, filter=engine_filter(given.filter))
            hits = collection.reading().facet(asked).hits
        return ok(request, {"hits": [{"value": _value(hit.value), "count": hit.count} for hit in hits if hit.count]})


def _value(value: Any) -> Any:
    return str(value) if isinstance(value, uuid.UUID) else value


class WriteCalls:
    """Answers the calls that change points.

    Args:
        store: the open store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def routes(self) -> list[Route]:
        """Return the routes of these calls."""
        points = "/collections/{name}/points"
        return [
            Route(points, self.upsert, methods=["PUT"]),
            Route(points + "/delete", self.delete, methods=["POST"]),
            Route(points + "/vectors", self.update_vectors, methods=["PUT"]),
            Route(points + "/vectors/delete", self.delete_vectors, methods=["POST"]),
            Route(points + "/payload", self.set_payload, methods=["POST"]),
            Route(points + "/payload", self.overwrite_payload, methods=["PUT"]),
            Route(points + "/payload/delete", self.delete_payload, methods=["POST"]),
            Route(points + "/payload/clear", self.clear_payload, methods=["POST"]),
            Route(points + "/batch", self.batch, methods=["POST"]),
        ]

    async def _read(self, request: Request) -> tuple[Collection, dict[str, Any]]:
        # the collection first: a missing one is reported before a wrong body
        collection = self._store.collection(request.path_params["name"])
        # A removal frees space, and needs little.
        removes = request.url.path.endswith("/delete")
        self._store.refuse_when_full(least=FOR_REMOVALS if removes else FOR_WRITES)
        return collection, await body_of(request)

    async def _write(
        self, request: Request, collection: Collection, operations: Sequence[writes.Operation]
    ) -> Response:
        wait = switch(request, "wait")
        (number,) = await collection.write([operations], wait=wait)
        return ok(request, updated(number, wait=wait))

    async def upsert(self, request: Request) -> Response:
        """Insert or replace points."""
        collection, body = await self._read(request)
        with engine_errors():
            operations = await writes.upsert(body, collection.shape)
        return await self._write(request, collection, operations)

    async def update_vectors(self, request: Request) -> Response:
        """Replace vectors of points."""
        collection, body = await self._read(request)
        with engine_errors():
            operations = await writes.update_vectors(body, collection.shape)
        return await self._write(request, collection, operations)

    async def delete_vectors(self, request: Request) -> Response:
        """Take vectors from points."""
        collection, body = await self._read(request)
        with engine_errors():
            operations = await writes.delete_vectors(body, collection.shape)
        return await self._write(request, collection, operations)

    async def delete(self, request: Request) -> Response:
        """Delete points."""
        collection, body = await self._read(request)
        with engine_errors():
            operations = writes.delete(body)
        return await self._write(request, collection, operations)

    async def set_payload(self, request: Request) -> Response:
        """Merge keys into payloads."""
        collection, body = await self._read(request)
        with engine_errors():
            operations = writes.set_payload(body)
        return await self._write(request, collection, operations)

    async def overwrite_payload(self, request: Request) -> Response:
        """Replace payloads."""
        collection, body = await self._read(request)
        with engine_errors():
            operations = writes.overwrite_payload(body)
        return await self._write(request, collection, operations)

    async def delete_payload(self, request: Request) -> Response:
        """Take keys out of payloads."""
        collection, body = await self._read(request)
        with engine_errors():
            operations = writes.delete_payload(body)
        return await self._write(request, collection, operations)

    async def clear_payload(self, request: Request) -> Response:
        """Empty payloads."""
        collection, body = await self._read(request)
        with engine_errors():
            operations = writes.clear_payload(body)
        return await self._write(request, collection, operations)

    async def batch(self, request: Request) -> Response:
        """Apply several changes in order."""
        collection, body = await self._read(request)
        wait = switch(request, "wait")
        with engine_errors():
            operations = await writes.batch(body, collection.shape)
        numbers = await collection.write(operations, wait=wait)
        return ok(request, [updated(number, wait=wait) for number in numbers])
