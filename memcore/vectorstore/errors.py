"""The store's refusals with their HTTP status."""

from typing import ClassVar

from pydantic import ValidationError

from memcore.errors import MemoryError as MemtendError


class ApiError(MemtendError):
    """The store will not or cannot answer; the message says why."""

    #: The HTTP status of the answer.
    status: ClassVar[int] = 500


class BadRequestError(ApiError):
    """The request is wrong: change it; nothing was written."""

    status = 400

    @classmethod
    def of(cls, error: ValidationError) -> "BadRequestError":
        """Name the first wrong field and what is wrong with it, never the value that was sent."""
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "body"
        return cls(f"Format error in JSON body: {where}: {first['msg']}")


class NotFoundError(ApiError):
    """No collection, alias or point has that name or id."""

    status = 404

    @classmethod
    def collection(cls, name: str) -> "NotFoundError":
        """Build the error in Qdrant's words, which clients match."""
        return cls(f"Not found: Collection `{name}` doesn't exist!")


class ConflictError(ApiError):
    """It exists already."""

    status = 409


class TooLargeError(ApiError):
    """The body is above the limit: send fewer points at a time."""

    status = 413


class EngineFailedError(ApiError):
    """The engine or the disk failed; what was answered before is unharmed."""

    is_retryable = True
    status = 500


class NotSupportedError(ApiError):
    """Qdrant knows this call or option and the embedded store does not: use a Qdrant server for it."""

    status = 501

    def __init__(self, what: str) -> None:
        """Build the sentence from the name of the call or option."""
        super().__init__(f"Not supported by the embedded store: {what}; a Qdrant server has it")


class UnavailableError(ApiError):
    """The collection is damaged; the message says how, and which command restores it."""

    status = 503


class DiskFullError(ApiError):
    """The disk has no room; nothing was written. Make room, and send it again."""

    is_retryable = True
    status = 507
