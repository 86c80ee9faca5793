"""What lies near a question by meaning, asked of the vector store; without its answer words still count."""

import logging

from memcore.backends.facts import FactStore
from memcore.models import MemoryQuery
from memcore.org.events import OrgEvent
from memcore.org.search import NOTHING_NEAR, Categories, Near
from memcore.org.shown_fact import namespaces_of, shown_by

#: Versions of facts that the store is asked for.
_CANDIDATES = 50

_log = logging.getLogger(__name__)


async def nearness(facts: FactStore | None, context: str, categories: Categories) -> Near:
    """Return what lies near a context, and nothing, with an event, when the store or the embedder fails."""
    if facts is None:
        return NOTHING_NEAR
    try:
        query = MemoryQuery(text=context, namespaces=namespaces_of(categories), limit=_CANDIDATES)
        legs = await facts.legs(query)
    except Exception as error:  # noqa: BLE001  # an engine's own embedder may raise anything
        _log.warning(OrgEvent.QUERY_DEGRADED, extra={"error": type(error).__name__})
        return NOTHING_NEAR
    shown = [(shown_by(hit.entry), hit.cosine) for hit in (*legs.sparse, *legs.dense)]
    cosines = {fact: cosine for fact, cosine in shown if fact is not None and cosine is not None}
    return Near(cosines, facts.dense_weight)
