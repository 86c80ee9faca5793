"""Several queries in one request to the store, as JSON both ways.

The client's models cost a search more than the store's engine does: the request is built of dicts instead, and of the
answer only what a search reads is looked at. The call itself is the client's own, with its key, time-out and errors.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from qdrant_client import QdrantClient
from qdrant_client.http.exceptions import ResponseHandlingException
from qdrant_client.models import Filter


@dataclass(frozen=True, slots=True)
class Found:
    """A point that a query found."""

    memory_id: str
    score: float
    payload: dict[str, Any] = field(default_factory=dict)


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
        pairs = zip(queries, answer["result"], strict=True)
        return [[_found(point) for point in one["points"]] for _, one in pairs]
    except (KeyError, TypeError, ValueError) as error:
        raise ResponseHandlingException(error) from error


def as_json(narrowed: Filter) -> dict[str, Any]:
    """Return a filter as it stands in a query."""
    return narrowed.model_dump(mode="json", exclude_none=True)


def _found(point: dict[str, Any]) -> Found:
    return Found(str(point["id"]), float(point["score"]), point.get("payload") or {})
