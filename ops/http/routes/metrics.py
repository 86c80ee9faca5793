"""``/metrics``: the figures of the installation in Prometheus' text format."""

from fastapi import APIRouter, Response

from memcore.ledger.access.keys import Verb
from ops.http.access import CurrentCaller
from ops.http.context import Serving
from ops.metrics.exposition import MEDIA_TYPE

router = APIRouter(tags=["health"])


@router.get("/metrics", response_class=Response, responses={200: {"content": {MEDIA_TYPE: {}}}})
async def metrics(caller: CurrentCaller, serving: Serving) -> Response:
    """Return what a company's memories and runs do; for a key for all its agents that may read.

    A key of the installation's own company with the verb admin sees every company, and broker, workers and queues.
    """
    is_admin = Verb.ADMIN in caller.verbs
    caller.require(Verb.ADMIN if is_admin else Verb.READ)
    is_operator = is_admin and caller.company == serving.settings.company
    text = await serving.collector.text(None if is_operator else caller.company)
    return Response(text, media_type=MEDIA_TYPE)
