"""The REST calls that read points."""

import uuid
from typing import Any

import qdrant_edge as edge
from qdrant_client.http import models as rest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from memcore.vectorstore.answers import ok, record, scored
from memcore.vectorstore.bodies import model_of
from memcore.vectorstore.collection import Collection
from memcore.vectorstore.filters import engine_filter
from memcore.vectorstore.queries import QueryReader, engine_order, limit_of, refuse_shard_key
from memcore.vectorstore.refusal import BadRequestError, NotFoundError, engine_errors
from memcore.vectorstore.selectors import payload_selector, vector_selector
from memcore.vectorstore.store import Store
from memcore.vectorstore.vectors import point_id


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
