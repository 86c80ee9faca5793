"""The names under which retrieval logs; ids and counts stand beside them in ``extra``, memory text never does."""

from enum import StrEnum


class RetrievalEvent(StrEnum):
    """A log event on the way from a question to a prompt."""

    COMPLETED = "memory.retrieval.complete"
    #: A part failed and the prompt does without it; its name and the error's type stand beside.
    DEGRADED = "memory.retrieval.degraded"
    #: Nothing was asked for: the token budget was zero or less.
    SKIPPED = "memory.retrieval.skipped"
    FILTER_APPLIED = "memory.filter.applied"
    #: Only non-inferable memories are injected, and one was stored without the tag: no prompt will show it.
    STORE_MISSING_TAG = "memory.filter.store_missing_tag"
    #: A core policy is longer than the tokens that are left; the prompt does without it.
    BUDGET_EXCEEDED = "memory.token_budget.exceeded"
    #: The record of uses could not be handed on; it is kept and tried again.
    USE_DEFERRED = "memory.use.deferred"
    #: More uses waited than the recorder holds; the oldest record stays, this one was not counted.
    USE_DROPPED = "memory.use.dropped"
