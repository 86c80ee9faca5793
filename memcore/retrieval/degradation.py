"""Doing without a part that failed: one event that names it, and no exception for the engine."""

import builtins
import logging
from enum import StrEnum

from memcore.retrieval.events import RetrievalEvent

_log = logging.getLogger(__name__)


class Source(StrEnum):
    """A part that a prompt can do without."""

    BACKEND = "backend"
    KEYWORDS = "keywords"
    SHARED_STORE = "shared_store"
    #: What the organisation wrote: its policies, or which facts still stand.
    ORGANISATION = "organisation"
    HIERARCHICAL = "hierarchical"
    RERANKER = "reranker"
    FILTER = "filter"
    DIVERSITY = "diversity"
    USE_RECORDER = "use_recorder"
    #: What belongs to none of these: a question or an estimator that breaks its contract.
    PIPELINE = "pipeline"


def degrade(error: Exception, *, source: Source, agent_id: str) -> None:
    """Log that a part failed: its name and the error's type, never the error's text.

    Raises:
        MemoryError: Python's own, when the error is one or, as an exception group, holds one; the process is out of
            memory then, and no result should hide it.
        RecursionError: likewise.
    """
    fatal = _fatal_in(error)
    if fatal is not None:
        raise fatal
    _log.warning(
        RetrievalEvent.DEGRADED,
        extra={"source": str(source), "agent_id": agent_id, "error": type(error).__name__},
    )


def _fatal_in(error: BaseException) -> BaseException | None:
    if isinstance(error, builtins.MemoryError | RecursionError):
        return error
    if isinstance(error, BaseExceptionGroup):
        return next((fatal for each in error.exceptions if (fatal := _fatal_in(each)) is not None), None)
    return None
