"""The REST calls about collections: list, make, describe, change, delete, index, alias."""

from typing import Any

from qdrant_client.http import models as rest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from memcore.vectorstore import payload_index
from memcore.vectorstore.answers import ok, updated
from memcore.vectorstore.bodies import model_of, switch
from memcore.vectorstore.collection import Collection
from memcore.vectorstore.refusal import BadRequestError, NotSupportedError, engine_errors
from memcore.vectorstore.shape import INDEXING_THRESHOLD_KB, VACUUM_MIN_POINTS, VACUUM_SHARE
from memcore.vectorstore.store import Store
from memcore.vectorstore.upkeep import OLDEST_CHECKPOINT

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
        """List the collections that are refused, each with the sentence that says why and what restores it."""
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
        """Say whether a name is a collection's or an alias's."""
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
            params = payload_index.engine_params(given.field_schema)
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
        "payload_schema": {field: payload_index.described(index) for field, index in info.payload_schema.items()},
    }
