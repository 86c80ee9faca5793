"""Whether the process answers, and whether what it needs does."""

import asyncio
import time
from collections.abc import Callable

import httpx
from fastapi import APIRouter, Request, Response

from memcore.config.settings import Settings
from memcore.errors import MemoryError  # noqa: A004  # the reference fixes the name
from ops.http.context import ServeContext, Serving
from ops.http.models import Health, Ready
from workers.broker import read_queue_lengths
from workers.stack.home import waiting_parts

router = APIRouter(tags=["health"])

#: How long an answer of /ready is given again, in seconds: everybody may ask, and each look costs connections.
_CACHE_SECONDS = 1.0

#: How long the store may take to answer, in seconds.
_STORE_SECONDS = 2.0


@router.get("/health")
async def health() -> Health:
    """Say that the process answers."""
    return Health()


@router.get("/ready", responses={503: {"model": Ready, "description": "A part does not answer."}})
async def ready(request: Request, response: Response, serving: Serving) -> Ready:
    """Say whether ledger, broker and store answer, and the workers of `memtend up` take jobs; 503 when one does not."""
    now = time.monotonic()
    known: tuple[Ready, float] | None = getattr(request.app.state, "ready", None)
    if known is None or now >= known[1]:
        known = request.app.state.ready = (await _look(serving), now + _CACHE_SECONDS)
    if not known[0].is_ready:
        response.status_code = 503
    return known[0]


async def _look(serving: ServeContext) -> Ready:
    settings = serving.settings
    ledger, broker, store = await asyncio.gather(
        asyncio.to_thread(_answers, lambda: serving.ledger.companies.get(settings.company)),
        asyncio.to_thread(_answers, lambda: read_queue_lengths(settings)),
        _store_answers(settings),
    )
    waiting = await asyncio.to_thread(waiting_parts, settings.home)
    is_ready = ledger and broker and store and not waiting
    return Ready(is_ready=is_ready, ledger=ledger, broker=broker, store=store, waiting=waiting)


def _answers(look: Callable[[], object]) -> bool:
    try:
        look()
    except (MemoryError, OSError):
        return False
    return True


async def _store_answers(settings: Settings) -> bool:
    key = settings.qdrant_api_key
    headers = {} if key is None else {"api-key": key.get_secret_value()}
    try:
        async with httpx.AsyncClient(timeout=_STORE_SECONDS) as client:
            answer = await client.get(f"{settings.qdrant_url}/collections", headers=headers)
    except httpx.HTTPError:
        return False
    return answer.is_success
