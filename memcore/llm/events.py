"""The names under which questions to language models are logged; ids and counts stand beside them, text never does."""

from enum import StrEnum


class ModelEvent(StrEnum):
    """A log event of a question to a model."""

    ANSWERED = "llm.call.answered"
    #: Passing trouble; the same question is asked again after a pause.
    RETRIED = "llm.call.retried"
    FAILED = "llm.call.failed"
    #: Over the budget: nothing was asked.
    REFUSED = "llm.budget.exceeded"
    #: The ledger could not be told what a call used; what was reserved for it stays spent.
    UNSETTLED = "llm.account.unsettled"
    #: The answer has not the form that was asked for; the model is asked once to mend it.
    REPAIRED = "llm.answer.repaired"
    #: The ledger could not be reached to keep a question; the next beat tries again.
    LEASE_UNCERTAIN = "llm.question.lease_uncertain"
