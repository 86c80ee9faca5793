"""One attempt at a work item: claims it, holds its lease, and turns each error into a state and an outcome."""

import logging
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar, cast

from pydantic import BaseModel

from memcore.errors import (
    AnswerMissingError,
    BudgetExceededError,
    LeaseLostError,
    MaintenancePausedError,
    MemoryDiskFullError,
    MemoryError,  # noqa: A004  # the reference fixes the name
    MemoryNotFoundError,
)
from memcore.jobs import Dead, Deferred, Done, Outcome, Retry, Skipped
from memcore.ledger.lease import LEASE_LENGTH, LEASE_RENEWAL, Lease
from memcore.ledger.work_items import Work

#: Wait of an item that met the kill switch or a full disk: a person who resumes waits no longer than this.
PAUSE_DELAY = timedelta(minutes=1)

#: Wait of an item whose question another worker asks: by then it is answered, or free.
ANSWER_DELAY = LEASE_LENGTH

#: More doublings than any delay has room for.
_DOUBLINGS = 32

_log = logging.getLogger(__name__)


class AttemptEvent(StrEnum):
    """A log event of an attempt."""

    #: A passing error, or an unexpected one: the item is attempted again after a delay.
    TROUBLE = "work.attempt.trouble"
    #: The item is failed: nobody attempts it again unless a person replays it.
    FAILED = "work.attempt.failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often the items of a kind are attempted, and how long they rest between two attempts.

    Attributes:
        attempts: after so many an item fails, since one that kills its worker must not do so for ever; None for a kind
            that only a person ends.
        first_delay: the delay after the first attempt; it doubles with each further one.
        longest_delay: the longest delay.
    """

    attempts: int | None = 10
    first_delay: timedelta = timedelta(seconds=5)
    longest_delay: timedelta = timedelta(minutes=10)

    def delay(self, attempt: int) -> timedelta:
        """Return the delay after so many attempts, 1 or more."""
        return min(self.first_delay * (1 << min(attempt - 1, _DOUBLINGS)), self.longest_delay)


_Record = TypeVar("_Record", bound=BaseModel)


class _Claimed(Protocol):
    """What the records of all kinds tell of their items."""

    @property
    def attempt(self) -> int: ...

    @property
    def token(self) -> str | None: ...


class _NotFreeError(Exception):
    """The item could not be claimed."""


class _WornOutError(MemoryError):
    """The item was attempted as often as its kind allows."""


class Attempt(Generic[_Record]):
    """One attempt at a work item, as a context manager; a service does its work inside.

    ::

        with Attempt(ledger.lessons, company, lesson_id) as attempt:
            lesson = attempt.claim()
            ...  # the work; its last statement moves the item on
            attempt.outcome = Done(facts={"stored": 1})
        return attempt.outcome

    A memory error that leaves the block, also one of ``claim``, becomes the outcome:

    - the item is unknown: dead; it is not free, or its lease was lost: skipped, and nothing is written;
    - the kill switch, a full disk, a spent budget, a question that another worker asks: the item waits, and this
      attempt does not count;
    - a passing error: the item is released, and attempted again after a delay that doubles;
    - another error, or one attempt too many: the item fails;
    - the ledger is away: the lease ends by itself, and the message is tried again then.

    Any other error releases the item and is raised. A process that is killed leaves the item leased until its lease
    ends.

    Args:
        work: the repository of the item's kind.
        retry: how often it is attempted.
        switch: checks the kill switch for the claimed record; left out, there is none.
        fail: ends a claimed item as failed, for a reason; left out, its row alone says so.
        renewal: how often the lease is renewed.
        monotonic: seconds on a clock that never goes back.
    """

    def __init__(
        self,
        work: Work[_Record],
        company: str,
        key: str,
        *,
        retry: RetryPolicy = RetryPolicy(),
        switch: Callable[[_Record], None] | None = None,
        fail: Callable[[_Record, str, str], object] | None = None,
        renewal: timedelta = LEASE_RENEWAL,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.outcome: Outcome = Done()
        self._work = work
        self._company = company
        self._key = key
        self._retry = retry
        self._switch = switch
        self._fail = fail
        self._renewal = renewal
        self._monotonic = monotonic
        self._renewals = ExitStack()
        self._record: _Record | None = None
        self._lease: Lease | None = None

    @property
    def lease(self) -> Lease:
        """The lease of the claimed item."""
        if self._lease is None:
            raise LeaseLostError(f"{self._key}: is not claimed yet")
        return self._lease

    @property
    def token(self) -> str:
        """The fencing token of the claimed item."""
        return self.lease.token

    def __enter__(self) -> Self:
        """Begin; nothing is claimed yet."""
        return self

    def claim(self) -> _Record:
        """Claim the item, check the kill switch, and return its record; call it first, within the block."""
        since = self._monotonic()
        record = self._work.claim(self._company, self._key, lease=LEASE_LENGTH)
        token = None if record is None else _claimed(record).token
        if record is None or token is None:
            raise _NotFreeError
        self._record = record
        self._lease = Lease(
            self._work,
            self._company,
            self._key,
            token,
            since=since,
            switch=None if self._switch is None else partial(self._switch, record),
            renewal=self._renewal,
            monotonic=self._monotonic,
        )
        self._renewals.enter_context(self._lease)
        most = self._retry.attempts
        if most is not None and _claimed(record).attempt > most:
            raise _WornOutError(f"was attempted {most} times without reaching its end")
        self._lease.enter()
        return record

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> bool:
        """Stop the renewals; of an error make the outcome, and let the item go."""
        self._renewals.close()
        if isinstance(error, _NotFreeError):
            self.outcome = self._not_free()
            return True
        if self._record is None or not isinstance(error, Exception):
            return False
        is_known = isinstance(error, MemoryError)
        try:
            self.outcome = self._after(error, self._record)
        except (LeaseLostError, MemoryNotFoundError) as lost:
            self.outcome = Skipped(reason=str(lost))
        except MemoryError as second:
            self.outcome = Retry(reason=type(second).__name__, delay=LEASE_LENGTH)
        return is_known

    def _not_free(self) -> Outcome:
        try:
            item = self._work.item(self._company, self._key)
        except MemoryNotFoundError as error:
            return Dead(reason=str(error))
        return Skipped(reason=f"{item.kind} {item.key} is {item.state} and not free to be taken")

    def _after(self, error: Exception, record: _Record) -> Outcome:
        match error:
            case LeaseLostError():
                return Skipped(reason=str(error))
            case MaintenancePausedError() | MemoryDiskFullError():
                return self.wait(str(error), PAUSE_DELAY)
            case AnswerMissingError():
                return self.wait(str(error), ANSWER_DELAY)
            case BudgetExceededError():
                return self.wait(str(error), error.until)
            case MemoryError() if not error.is_retryable:
                return self._failed(record, str(error))
            case _:
                return self._released(error, _claimed(record).attempt)

    def wait(self, reason: str, until: datetime | timedelta) -> Outcome:
        """Let the claimed item wait until a time, or for so long, without using up the attempt; return the outcome."""
        self._work.wait(self._company, self._key, self.token, until=until, reason=reason, is_unused=True)
        return Deferred(reason=reason)

    def _failed(self, record: _Record, reason: str) -> Outcome:
        if self._fail is None:
            self._work.fail(self._company, self._key, self.token, reason)
        else:
            self._fail(record, self.token, reason)
        _log.error(AttemptEvent.FAILED, extra={"company": self._company, "key": self._key, "reason": reason})
        return Dead(reason=reason)

    def _released(self, error: Exception, attempt: int) -> Outcome:
        self._work.release(self._company, self._key, self.token, after=self._retry.delay(attempt))
        # The text of such an error may quote what is stored.
        about = {"company": self._company, "key": self._key, "attempt": attempt, "error": type(error).__name__}
        _log.warning(AttemptEvent.TROUBLE, extra=about)
        return Deferred(reason=type(error).__name__)


def _claimed(record: BaseModel) -> _Claimed:
    return cast("_Claimed", record)
