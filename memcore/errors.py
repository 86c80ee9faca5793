"""Every error that memcore raises on purpose.

::

    MemoryError                      (shadows the builtin: import it as ``from memcore import errors``)
    ├── MemoryConnectionError        retryable: a backend cannot be reached
    ├── MemoryStoreError             retryable: a store or delete failed
    ├── MemoryRetrievalError         retryable: a search, get, scan or count failed
    ├── MemoryEmbeddingError         retryable: an embedder failed
    ├── MemoryNotFoundError          the id names nothing
    ├── MemoryConfigError            a setting is wrong; the message names the key and the limit
    ├── MemoryInputError             a caller's value is wrong; the message names the field and the limit
    ├── MemoryCapabilityError        this backend cannot do that
    ├── MemoryQueueFullError         retryable: the queue holds as much as it may
    ├── LeaseLostError               another worker holds the run now; stop without writing
    ├── MaintenancePausedError       the kill switch is on, or cannot be read
    ├── FineTuneDependencyError      torch or sentence-transformers is missing
    └── FineTuneCancelledError       a person cancelled the run
"""

from typing import TYPE_CHECKING, ClassVar, Self

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails


class MemoryError(Exception):  # noqa: A001  # the reference fixes the name
    """Catch this to catch every memory error."""

    #: Whether doing the same again later may succeed.
    is_retryable: ClassVar[bool] = False


class MemoryConnectionError(MemoryError):
    """The backend is not connected, or its connection was lost: connect first, or retry later."""

    is_retryable = True


class MemoryStoreError(MemoryError):
    """A write or delete failed; nothing is known to have changed."""

    is_retryable = True


class MemoryRetrievalError(MemoryError):
    """A read failed."""

    is_retryable = True


class MemoryEmbeddingError(MemoryError):
    """The embedder gave no vector."""

    is_retryable = True


class MemoryNotFoundError(MemoryError):
    """The id names no memory, agent or run."""


class MemoryConfigError(MemoryError):
    """The configuration is invalid; the message names the key."""


class MemoryInputError(MemoryError):
    """A caller's value breaks a limit; nothing was sent or written.

    Args:
        field: the field's dotted name, as the caller wrote it.
        problem: what is wrong with it, with the limit.
    """

    def __init__(self, field: str, problem: str) -> None:
        """Build the one-sentence message from field and problem."""
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem

    @classmethod
    def of(cls, error: "ValidationError", *, prefix: str = "") -> Self:
        """Turn a pydantic error into one sentence about its first field, without the value that was given."""
        first = error.errors(include_url=False, include_input=False)[0]
        problem = _in_words(first)
        place = list(map(str, first["loc"]))
        if not place and first["type"] == "value_error" and ": " in problem:
            # A rule over several fields says itself which one breaks it.
            field, _, problem = problem.partition(": ")
            place = [field]
        return cls(".".join([prefix, *place] if prefix else place) or "input", problem)


def _in_words(error: "ErrorDetails") -> str:  # noqa: PLR0911  # a table of sentences
    limits = error.get("ctx", {})
    match error["type"]:
        case "string_too_short" if limits["min_length"] == 1:
            return "must not be blank"
        case "string_too_long":
            return f"must have at most {limits['max_length']} characters"
        case "too_long":
            return f"has {limits['actual_length']} items; the limit is {limits['max_length']}"
        case "timezone_aware":
            return "needs a time zone, such as Z or +02:00"
        case "string_unicode":
            return "must be valid Unicode text"
        case "missing":
            return "is missing"
        case "extra_forbidden":
            return "is not a known field"
        case _:
            words = error["msg"].removeprefix("Value error, ").replace("Input should be", "must be", 1)
            return words[:1].lower() + words[1:]


class MemoryCapabilityError(MemoryError):
    """The backend does not support the operation."""


class MemoryQueueFullError(MemoryError):
    """The queue is at its limit: wait, or raise the limit."""

    is_retryable = True


class LeaseLostError(MemoryError):
    """Another worker took the run over; this one must stop without another write."""


class MaintenancePausedError(MemoryError):
    """Maintenance is paused for this agent or for all, or the switch cannot be read."""


class FineTuneDependencyError(MemoryError):
    """Fine-tuning needs torch and sentence-transformers: install memtend[finetune]."""


class FineTuneCancelledError(MemoryError):
    """A person cancelled the fine-tune run."""
