"""``/metrics``: the figures of the installation in Prometheus' text format."""

import asyncio
import time
from collections.abc import Callable

from fastapi import APIRouter, Request, Response

from memcore.ledger.access.keys import Verb
from ops.http.access import CurrentCaller
from ops.http.context import Serving
from ops.metrics.collector import Collector
from ops.metrics.exposition import MEDIA_TYPE
from ops.metrics.families import FAMILIES

router = APIRouter(tags=["health"])

#: For how long a scrape is given again, in seconds: several scrapers, or a person who reloads, cost no more than one.
CACHE_SECONDS = 5.0


class KeptScrapes:
    """The last texts of a collector, by company; one is gathered at a time."""

    def __init__(self, collector: Collector, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._collector = collector
        self._monotonic = monotonic
        self._gathering = asyncio.Lock()
        self._kept: dict[str | None, tuple[str, float]] = {}

    async def text(self, company: str | None) -> str:
        """Return the metrics of a company; for None those of the installation and of every company."""
        async with self._gathering:
            now = self._monotonic()
            self._kept = {key: kept for key, kept in self._kept.items() if now < kept[1]}
            if company not in self._kept:
                samples = await asyncio.to_thread(self._collector.gather, company)
                self._kept[company] = samples.text(FAMILIES), now + CACHE_SECONDS
            return self._kept[company][0]


@router.get("/metrics", response_class=Response, responses={200: {"content": {MEDIA_TYPE: {}}}})
async def metrics(request: Request, caller: CurrentCaller, serving: Serving) -> Response:
    """Return what a company's memories and runs do; for a key for all its agents that may read.

    A key of the installation's own company with the verb admin sees every company, and broker, workers and queues.
    """
    is_admin = Verb.ADMIN in caller.verbs
    caller.require(Verb.ADMIN if is_admin else Verb.READ)
    is_operator = is_admin and caller.company == serving.settings.company
    kept: KeptScrapes | None = getattr(request.app.state, "scrapes", None)
    if kept is None:
        kept = request.app.state.scrapes = KeptScrapes(serving.collector)
    return Response(await kept.text(None if is_operator else caller.company), media_type=MEDIA_TYPE)
