"""Requests, from the wire to checked values."""

from typing import Any, TypeVar

import orjson
from pydantic import BaseModel, TypeAdapter
from starlette.requests import Request

from memcore.vectorstore.refusal import BadRequestError, TooLargeError

#: Bytes of the largest body (Qdrant's default is 32 MiB, and clients split their uploads for it).
LARGEST_BODY_BYTES = 32 * 2**20

M = TypeVar("M", bound=BaseModel)


async def body_of(request: Request) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        BadRequestError: it is no JSON object; NaN and infinities are no JSON.
        TooLargeError: it is above the limit.
    """
    content = bytearray()
    async for part in request.stream():
        content += part
        if len(content) > LARGEST_BODY_BYTES:
            raise TooLargeError(f"JSON payload is above the limit of {LARGEST_BODY_BYTES} bytes: send fewer points")
    try:
        body = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        # the decoder's message holds a position, never the text
        raise BadRequestError(f"Format error in JSON body: {error.msg}") from error
    if type(body) is not dict:
        raise BadRequestError("Format error in JSON body: an object is expected")
    return body


async def model_of(request: Request, model: type[M]) -> M:
    """Read a JSON object and check it against one of Qdrant's models."""
    return model.model_validate(await body_of(request))


#: A switch in a query string.
_SWITCH = TypeAdapter(bool)


def switch(request: Request, name: str) -> bool:
    """Read a switch from the query string; missing is off, as in Qdrant."""
    return _SWITCH.validate_python(request.query_params.get(name, "false"))
