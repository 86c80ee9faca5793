"""Points as the store has them, payload for payload; for carrying them from one collection to another."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from qdrant_client import QdrantClient
from qdrant_client.http.exceptions import ResponseHandlingException
from qdrant_client.models import Filter

from memcore.backends.mem0.batch import as_json

#: Points by id, in the order of their ids.
Points = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class RawPage:
    """A page of points, and the id from which the next one goes on; None after the last."""

    points: Points
    following: str | None


def scroll(client: QdrantClient, collection: str, narrowed: Filter | None, *, start: str | None, limit: int) -> RawPage:
    """Return points from an id on, in the order of ids."""
    body: dict[str, Any] = {"limit": limit, "with_payload": True, "with_vector": False}
    if start is not None:
        body["offset"] = start
    if narrowed is not None:
        body["filter"] = as_json(narrowed)
    answer = _post(client, collection, "/points/scroll", body)
    following = answer["next_page_offset"]
    return RawPage(_points(answer["points"]), None if following is None else str(following))


def retrieve(client: QdrantClient, collection: str, ids: Sequence[str]) -> Points:
    """Return those of these points that are there."""
    return _points(_post(client, collection, "/points", {"ids": list(ids), "with_payload": True, "with_vector": False}))


def _post(client: QdrantClient, collection: str, path: str, body: dict[str, Any]) -> Any:
    answer = client.http.client.request(
        type_=dict[str, Any],
        method="POST",
        url="/collections/{collection_name}" + path,
        path_params={"collection_name": collection},
        headers={"Content-Type": "application/json"},
        content=orjson.dumps(body),
    )
    try:
        return answer["result"]
    except (KeyError, TypeError) as error:
        raise ResponseHandlingException(error) from error


def _points(found: Any) -> Points:
    try:
        return {str(point["id"]): point.get("payload") or {} for point in found}
    except (KeyError, TypeError) as error:
        raise ResponseHandlingException(error) from error
