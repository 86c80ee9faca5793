"""The REST calls that change points."""

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from memcore.free_space import FOR_REMOVALS, FOR_WRITES
from memcore.vectorstore import writes
from memcore.vectorstore.answers import ok, updated
from memcore.vectorstore.bodies import body_of, switch
from memcore.vectorstore.collection import Collection
from memcore.vectorstore.refusal import engine_errors
from memcore.vectorstore.store import Store


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
        # the collection first: a missing one is told before a wrong body is
        collection = self._store.collection(request.path_params["name"])
        # What removes something makes room, and needs little.
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
