"""Every error that memcore raises on purpose.

::

    MemoryError                      (shadows the builtin: import it as ``from memcore import errors``)
    ├── MemoryConnectionError
    │   └── MemoryBrokerFullError
    ├── MemoryRetrievalError, MemoryEmbeddingError, MemoryQueueFullError
    ├── MemoryStoreError
    │   └── MemoryDiskFullError, MemoryConflictError, MemoryRefusedError
    ├── MemoryNotFoundError
    │   └── FineTuneRunNotFoundError, CheckpointNotFoundError
    ├── MemoryConfigError
    │   └── MissingExtraError, MemoryBrokerUnsafeError
    ├── MemoryCapabilityError
    │   └── MemoryBackendUnsupportedError
    ├── ProviderError
    │   └── ProviderUnavailableError, RetryExhaustedError, MalformedAnswerError
    ├── OrgMemoryError
    │   ├── OrgMemoryConnectionError     a MemoryConnectionError too
    │   ├── OrgMemoryQueryError          a MemoryRetrievalError too
    │   ├── OrgMemoryWriteError          a MemoryStoreError too
    │   └── OrgMemoryAccessDeniedError
    └── every other class of this file

``domain_code`` says for programs what kind each is, ``is_retryable`` whether to try again.
"""

from typing import TYPE_CHECKING, ClassVar, Self

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from pydantic import ValidationError
    from pydantic_core import ErrorDetails


class MemoryError(Exception):  # noqa: A001  # the reference fixes the name
    """Catch this to catch every memory error."""

    #: Whether doing the same again later may succeed.
    is_retryable: ClassVar[bool] = False

    #: What kind it is, for those who answer another program: ``not_found``, ``conflict``, ``not_supported``, ...
    domain_code: ClassVar[str] = "internal"


class MemoryConnectionError(MemoryError):
    """A part of the installation does not answer, or the backend is not connected: connect first, or retry later.

    ``part`` is ``store``, ``ledger``, ``broker`` or ``embedder``; None where it is none of them, or not known.
    """

    is_retryable = True

    def __init__(self, message: str = "", *, part: str | None = None) -> None:
        super().__init__(message)
        self.part = part


class MemoryBrokerFullError(MemoryConnectionError):
    """The broker's memory is at its limit, and it takes no jobs: start workers, or raise ``maxmemory``."""


class MemoryStoreError(MemoryError):
    """A write or delete failed; nothing is known to have changed."""

    is_retryable = True


class MemoryDiskFullError(MemoryStoreError):
    """The disk has no room: nothing was sent or written; make room, and try again."""


class MemoryConflictError(MemoryStoreError):
    """Somebody else changes or removes the memory at the same moment: nothing is lost, try again."""

    domain_code = "conflict"


class MemoryRefusedError(MemoryStoreError):
    """The agent takes no memories, or is being erased: nothing was written, and the same again will not be."""

    is_retryable = False
    domain_code = "conflict"


class MemoryChannelError(MemoryError):
    """The writer may not claim this channel: nothing was written; claim at most ``limit``, or use another key."""

    domain_code = "denied"

    def __init__(self, claimed: str, *, limit: str, field: str = "channel") -> None:
        self.claimed, self.limit, self.field = claimed, limit, field
        self.problem = f"is {claimed}; {limit} at most may be claimed here"
        super().__init__(f"{field}: {self.problem}")

    def within(self, place: str) -> "MemoryChannelError":
        """Return the error of a field of something larger, such as a line of a file."""
        return MemoryChannelError(self.claimed, limit=self.limit, field=f"{place}.{self.field}")


class MemoryRetrievalError(MemoryError):
    """A read failed."""

    is_retryable = True


class MemoryEmbeddingError(MemoryError):
    """The embedder gave no vector."""

    is_retryable = True


class MemoryNotFoundError(MemoryError):
    """The id names no memory, agent or run."""

    domain_code = "not_found"


class MemoryConfigError(MemoryError):
    """The configuration is invalid; the message names the key."""


class MemoryBrokerUnsafeError(MemoryConfigError):
    """The broker may lose jobs that it accepted, and nothing was sent: change its setting that the message names.

    ``MEMTEND_BROKER_MAY_LOSE=true`` allows such a broker.
    """


class MissingExtraError(MemoryConfigError):
    """A library is not installed on this machine: install the extra that brings it."""

    def __init__(self, extra: str, module: str) -> None:
        super().__init__(f"{module} is not installed: pip install 'memtend[{extra}]'")
        self.extra = extra
        self.module = module


class MemoryInputError(MemoryError):
    """A caller's value breaks a limit; nothing was sent or written.

    Args:
        field: the field's dotted name, as the caller wrote it.
        problem: what is wrong with it, with the limit.
    """

    domain_code = "invalid"

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(field, problem)
        self.field = field
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.field}: {self.problem}"

    @classmethod
    def of(cls, error: "ValidationError", *, prefix: str = "") -> Self:
        """Turn a pydantic error into one sentence about its first field, without the value that was given."""
        first = error.errors(include_url=False, include_input=False)[0]
        return cls.of_details(first, place=[*([prefix] if prefix else []), *map(str, first["loc"])])

    @classmethod
    def of_details(cls, first: "ErrorDetails", *, place: "Sequence[str]") -> Self:
        """Turn what pydantic says of one field into one sentence; ``place`` are the names that lead to the field."""
        problem = _in_words(first)
        if not first["loc"] and first["type"] == "value_error" and ": " in problem:
            # A rule over several fields says itself which one breaks it.
            field, _, problem = problem.partition(": ")
            place = [*place, field]
        return cls(".".join(place) or "input", problem)


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

    domain_code = "not_supported"


class MemoryBackendUnsupportedError(MemoryCapabilityError):
    """The backend of this policy has nothing that the operation works on; asking again changes nothing.

    The reason is one sentence that cannot be changed afterwards; ValueError when it is blank.
    """

    def __init__(self, reason: str) -> None:
        if not reason.strip():
            raise ValueError("reason: must not be blank")
        super().__init__(reason)

    @property
    def reason(self) -> str:
        """Why, in one sentence."""
        return str(self.args[0])


class MemoryQueueFullError(MemoryError):
    """The queue is at its limit: wait, or raise the limit."""

    is_retryable = True


class ApprovalClosedError(MemoryError):
    """The proposal cannot be decided so: somebody decided before, or its time is over.

    The state is approved, rejected, expired or undone; or pending, which cannot be undone.
    """

    def __init__(self, approval_id: str, state: str, *, by: str | None = None, at: "datetime | None" = None) -> None:
        who = f" by {by}" if by else ""
        when = f" at {at:%Y-%m-%d %H:%M:%S} UTC" if at else ""
        super().__init__(f"approval {approval_id} is {state}{who}{when}")
        self.approval_id = approval_id
        self.state = state
        self.by = by
        self.at = at


class SkillLimitError(MemoryError):
    """The limit of skills is reached, with approved ones that are not published yet; the proposal still waits."""

    def __init__(self, published: int, *, limit: int) -> None:
        super().__init__(
            f"memory.procedural.evolver.max_org_entries: is {limit}, and {published} skills stand beside what this one "
            "supersedes; undo the approval of one that nobody applies (`memtend skills list`), or raise the limit"
        )
        self.published = published
        self.limit = limit


class ApprovalLimitError(MemoryError):
    """As many proposals of this kind as may wait do; nothing is filed before a person has decided one."""

    def __init__(self, waiting: int, *, limit: int) -> None:
        super().__init__(
            f"memory.approvals.max_waiting: is {limit}, and {waiting} proposals of this kind wait; decide one "
            "(`memtend approvals list --state pending`), or raise the limit"
        )
        self.waiting = waiting
        self.limit = limit


class LeaseLostError(MemoryError):
    """Another worker took the run over; this one must stop without another write."""


class MaintenancePausedError(MemoryError):
    """Maintenance is paused for this agent or for all, or the switch cannot be read."""


class ProviderError(MemoryError):
    """The language model's server refuses the request and will do so again: look at its address, key and model.

    Args:
        reason: one sentence, without the text of a prompt or an answer.
        tokens: read and written for nothing, by the server's count; None when nobody can know whether there were any.
        status: the HTTP status that refused; None where none came.
        next_step: what a person may do about it, where a status says so.
        kind: the server's type of the error, or ours: ``timeout``, ``connection``, ``unreadable``, ``filtered``,
            ``context_too_small``, ``no_model``; None where it names none.
    """

    def __init__(
        self,
        reason: str,
        *,
        tokens: tuple[int, int] | None = (0, 0),
        status: int | None = None,
        kind: str | None = None,
        next_step: str | None = None,
    ) -> None:
        super().__init__(reason if next_step is None else f"{reason}: {next_step}")
        self.tokens = tokens
        self.status = status
        self.kind = kind
        self.next_step = next_step


class ProviderUnavailableError(ProviderError):
    """The language model's server is in passing trouble: busy, slow, away, or answering what nobody can read.

    ``retry_after`` are the seconds that the server asks to wait, if it does.
    """

    is_retryable = True

    def __init__(
        self,
        reason: str,
        *,
        retry_after: float | None = None,
        tokens: tuple[int, int] | None = (0, 0),
        status: int | None = None,
        kind: str | None = None,
    ) -> None:
        super().__init__(reason, tokens=tokens, status=status, kind=kind)
        self.retry_after = retry_after


class RetryExhaustedError(ProviderError):
    """Every attempt at the language model failed with passing trouble; the last one is the cause."""

    is_retryable = True


class MalformedAnswerError(ProviderError):
    """The language model answered twice: neither answer has the form asked for, or it says what its sources do not."""

    is_retryable = True


class AnswerMissingError(MemoryError):
    """A language model has not answered yet: the part waits, and the rest goes on."""


class BudgetExceededError(MemoryError):
    """The agent's budget of tokens or money is spent; ``until`` the next day's begins."""

    def __init__(self, reason: str, *, until: "datetime") -> None:
        super().__init__(reason)
        self.until = until


class OrgMemoryError(MemoryError):
    """Catch this to catch every error of organisation memory."""


class OrgMemoryConnectionError(OrgMemoryError, MemoryConnectionError):
    """Organisation memory is not connected, or its database was lost: connect first, or retry later."""


class OrgMemoryQueryError(OrgMemoryError, MemoryRetrievalError):
    """Facts could not be read."""


class OrgMemoryWriteError(OrgMemoryError, MemoryStoreError):
    """A fact could not be written; nothing is known to have changed."""


class OrgMemoryAccessDeniedError(OrgMemoryError):
    """The author may not write facts of this ``category``; the ``reason`` says who may. Nothing was written."""

    def __init__(self, category: str, reason: str) -> None:
        super().__init__(reason)
        self.category = category


class FineTuneDependencyError(MemoryError):
    """Fine-tuning needs torch and sentence-transformers: install memtend[finetune]."""


class FineTuneTrainingDataError(MemoryError):
    """There is too little to train on, or to measure by; the message says how much it takes."""


class FineTuneStageError(MemoryError):
    """A stage of a fine-tune run failed; the message says which and why, in one sentence."""


class FineTuneCancelledError(MemoryError):
    """A person cancelled the fine-tune run."""


class FineTuneRunActiveError(MemoryError):
    """Another fine-tune run of the company has not ended; nothing was started."""

    domain_code = "conflict"


class FineTuneRunNotFoundError(MemoryNotFoundError):
    """The id names no fine-tune run of the company."""

    def __init__(self) -> None:
        super().__init__("run_id: names no fine-tune run; see `memtend finetune runs`")


class FineTuneRunNotResumableError(MemoryError):
    """The fine-tune run is complete, or has not ended; only a failed or cancelled one can be resumed."""

    domain_code = "conflict"


class CheckpointNotFoundError(MemoryNotFoundError):
    """The id names no checkpoint of the company."""

    def __init__(self) -> None:
        super().__init__("checkpoint_id: names no checkpoint; see `memtend finetune checkpoints`")


class CheckpointConflictError(MemoryError):
    """As things stand, the checkpoint may not be deployed or deleted; nothing was changed, and the message says why."""

    domain_code = "conflict"


class CheckpointCorruptError(MemoryError):
    """The checkpoint's folder is gone, or not what was registered; what serves goes on, and the message says why."""


class CheckpointRollbackUnavailableError(MemoryError):
    """Nothing is kept that could serve again; what serves goes on, and the message says why."""

    domain_code = "conflict"


class CheckpointRollbackCorruptError(MemoryError):
    """What is kept from before cannot serve again as it was; what serves goes on, and the message says why."""
