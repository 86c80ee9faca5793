"""Requests with an Idempotency-Key: sent again, they are done once and answered alike.

The request is saved before it is done, with its time; its answer is saved behind it. A process that dies between the
two leaves a request without an answer, and the next attempt does it again: with that first time, and so with the same
ids, of which workers write each once. Only answers that hold ids and counts are saved, never the text of a memory.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Annotated
from weakref import WeakValueDictionary

from fastapi import Depends, Header, Request
from pydantic import BaseModel
from starlette.responses import Response

from memcore.models.memory import MAX_KEY_CHARS
from ops.http.access import CurrentCaller
from ops.http.context import Serving

#: The header by which a caller sees that it was answered from before.
REPLAYED = "Idempotency-Replayed"

#: Held while a request is done, by company, key and name. The same one, done beside it, would find nothing left to
#: forget, and say so.
_locks: WeakValueDictionary[tuple[str, str, str], asyncio.Lock] = WeakValueDictionary()

#: What does a request at a time, and returns the status and the answer.
Act = Callable[[datetime], Awaitable[tuple[int, BaseModel]]]


class Repeatable:
    """Does a request; a dependency of the routes that take an Idempotency-Key."""

    def __init__(
        self,
        request: Request,
        caller: CurrentCaller,
        serving: Serving,
        idempotency_key: Annotated[
            str | None,
            Header(
                min_length=1,
                max_length=MAX_KEY_CHARS,
                description="A name of the caller's own for this request; sent again, it is done once.",
            ),
        ] = None,
    ) -> None:
        self._request = request
        self._caller = caller
        self._serving = serving
        self._key = idempotency_key

    async def answer(self, act: Act) -> Response:
        """Do the request, unless it was done under its key before, and return the response.

        Raises MemoryInputError when another request came under the key, and what ``act`` raises.
        """
        if self._key is None:
            status, model = await act(self._serving.clock())
            return _response(_packed(status, model))
        place = (self._caller.company, self._caller.key_id, self._key)
        lock = _locks.setdefault(place, asyncio.Lock())
        async with lock:
            return await self._answer_once(place, act)

    async def _answer_once(self, place: tuple[str, str, str], act: Act) -> Response:
        table = self._serving.ledger.idempotency
        request_hash = _hash_of(self._request, await self._request.body())
        claimed = await asyncio.to_thread(table.claim, *place, request_hash=request_hash)
        if claimed.response is not None:
            return _response(claimed.response, is_replayed=True)
        packed = _packed(*await act(claimed.created_at))
        kept = await asyncio.to_thread(table.record, *place, packed)
        return _response(kept, is_replayed=kept != packed)


#: The dependency.
Repeated = Annotated[Repeatable, Depends()]


def _hash_of(request: Request, body: bytes) -> str:
    url = request.url
    return hashlib.sha256(
        b"\n".join((request.method.encode(), url.path.encode(), url.query.encode(), body))
    ).hexdigest()


def _packed(status: int, model: BaseModel) -> bytes:
    return b"%d\n%s" % (status, model.model_dump_json().encode())


def _response(packed: bytes, *, is_replayed: bool = False) -> Response:
    status, _, body = packed.partition(b"\n")
    headers = {REPLAYED: "true"} if is_replayed else None
    return Response(body, status_code=int(status), media_type="application/json", headers=headers)
