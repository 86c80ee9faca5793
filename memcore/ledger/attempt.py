"""One attempt at a work item: claims it, holds its lease, and turns each error into a state and an outcome.

The lease is renewed in the background, and checked before every write together with the kill switch.
"""

import logging
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from memcore.errors import (
    AnswerMissingError,
    BudgetExceededError,
    LeaseLostError,
    MaintenancePausedError,
    MemoryDiskFullError,
    MemoryError,  # noqa: A004  # the reference fixes the name
    MemoryNotFoundError,
)
from memcore.jobs import Dead, Deferred, Done, Outcome, Retry, Skipped, Step
from memcore.ledger.agents import Agents, check_kill_switch
from memcore.ledger.work_items import PlainWork, Work, WorkItem, WorkRecord
from memcore.telemetry.events import Event

#: How long a worker owns an item after its last renewal: the work of a dead one is free within a minute.
LEASE_LENGTH = timedelta(seconds=45)

#: How often the lease is renewed: three renewals may fail before it ends.
LEASE_RENEWAL = timedelta(seconds=10)

#: Wait of an item that met the kill switch or a full disk: a person who resumes waits no longer than this.
PAUSE_DELAY = timedelta(minutes=1)

#: Wait of an item whose question another worker asks: by then it is answered, or free.
ANSWER_DELAY = LEASE_LENGTH

#: More doublings than any delay has room for.
_DELAY_DOUBLINGS = 32

_log = logging.getLogger(__name__)


class Lease:
    """The lease of a claimed item, as a context manager; a thread renews it.

    The holder counts the lease's seconds on its own monotonic clock from before the renewal was sent. So it stops
    before another worker can claim the item, however long the database's answer took.

    Args:
        work: the repository of the item's kind.
        token: the fencing token that the claim returned.
        since: reading of ``monotonic`` taken before the claim.
        switch: checks the kill switch; None for an undo or a restore: a person who paused everything because a run went
            wrong must be able to reverse it, or to restore a memory, even when the switch cannot be read.
        monotonic: seconds on a clock that never goes back.
        releases: whether an error makes the item available again at once, as if it had not been claimed.
    """

    def __init__(
        self,
        work: Work[Any],
        company: str,
        key: str,
        token: str,
        *,
        since: float,
        switch: Callable[[], None] | None = None,
        length: timedelta = LEASE_LENGTH,
        renewal: timedelta = LEASE_RENEWAL,
        monotonic: Callable[[], float] = time.monotonic,
        releases: bool = False,
    ) -> None:
        self.token = token
        self._key = key
        self._renew_row = partial(work.renew, company, key, token, lease=length)
        self._release = partial(work.release, company, key, token, is_unused=True) if releases else None
        self._switch = switch
        self._length = length
        self._renewal_seconds = renewal.total_seconds()
        self._monotonic = monotonic
        self._ends = since + length.total_seconds()
        self._lost = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._renew_until_end, name=f"lease-{key}", daemon=True)

    def __enter__(self) -> Self:
        """Start the renewals."""
        self._thread.start()
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """Stop the renewals; the lease lasts until the item is moved on or its time is over."""
        self._stop.set()
        self._thread.join()
        if self._release is not None and isinstance(error, Exception):
            with suppress(MemoryError):
                self._release()

    def enter(self) -> None:
        """Check lease and switch before something new is decided. Raises LeaseLostError, MaintenancePausedError."""
        self.check()
        if self._switch is not None:
            self._switch()

    def check(self) -> None:
        """Check the lease alone, by this process's own clock: a pause leaves no journal entry half done.

        Raises LeaseLostError.
        """
        if self._lost or self._monotonic() >= self._ends:
            raise LeaseLostError(f"{self._key}: the lease has ended or belongs to another worker")

    def confirm(self, *, fresh: timedelta = timedelta(0)) -> None:
        """Renew now, so that the database confirms the owner; a renewal that was sent so lately is enough.

        Raises LeaseLostError.
        """
        self.check()
        if self._ends - self._monotonic() <= (self._length - fresh).total_seconds():
            self._renew()

    def _renew(self) -> None:
        asked = self._monotonic()
        try:
            self._renew_row()
        except LeaseLostError:
            self._lost = True
            raise
        self._ends = asked + self._length.total_seconds()

    def _renew_until_end(self) -> None:
        while not self._stop.wait(self._renewal_seconds):
            try:
                self._renew()
            except LeaseLostError:
                _log.warning(Event.WORK_LEASE_LOST, extra={"key": self._key})
                return
            except Exception as error:  # noqa: BLE001  # a busy database must not end the renewals
                _log.warning(Event.WORK_LEASE_UNCERTAIN, extra={"key": self._key, "error_type": type(error).__name__})


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
        return min(self.first_delay * (1 << min(attempt - 1, _DELAY_DOUBLINGS)), self.longest_delay)


_Record = TypeVar("_Record", bound=WorkRecord)


class _NotFreeError(Exception):
    """The item could not be claimed."""


class _WornOutError(MemoryError):
    """The item was attempted as often as its kind allows."""


async def worked_slice(
    work: PlainWork,
    company: str,
    key: str,
    *,
    agents: Agents,
    is_enabled: bool,
    refusal: Callable[[], str | None],
    walk: Callable[[Lease], Awaitable[tuple[Mapping[str, int], bool]]],
) -> Step:
    """Do one slice of an item's work, and return whether another one is to be dispatched at once.

    Args:
        work: the repository of its kind.
        company: whose item.
        key: the item's.
        agents: tells whether the item's agent is paused.
        is_enabled: whether the policy lets maintenance run.
        refusal: says why there is nothing to do, if so.
        walk: works; returns counts, and whether more is left.
    """
    goes_on = False

    def check_switch(item: WorkItem) -> None:
        check_kill_switch(agents, company, item.agent_id, is_enabled=is_enabled)

    with Attempt(work, company, key, switch=check_switch) as attempt:
        attempt.claim()
        reason = refusal()
        if reason is not None:
            work.skip(company, key, attempt.token, reason)
            attempt.outcome = Skipped(reason=reason)
        else:
            counts, goes_on = await walk(attempt.lease)
            if goes_on:
                work.release(company, key, attempt.token, is_unused=True)
            else:
                work.finish(company, key, attempt.token)
            attempt.outcome = Done(facts=dict(counts))
    return Step(outcome=attempt.outcome, goes_on=goes_on)


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
        if record is None or record.token is None:
            raise _NotFreeError
        self._record = record
        self._lease = Lease(
            self._work,
            self._company,
            self._key,
            record.token,
            since=since,
            switch=None if self._switch is None else partial(self._switch, record),
            renewal=self._renewal,
            monotonic=self._monotonic,
        )
        self._renewals.enter_context(self._lease)
        most = self._retry.attempts
        if most is not None and record.attempt > most:
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
                return self._failed(record, error)
            case _:
                return self._released(error, record.attempt)

    def wait(self, reason: str, until: datetime | timedelta) -> Outcome:
        """Let the claimed item wait until a time, or for so long, without using up the attempt; return the outcome."""
        self._work.wait(self._company, self._key, self.token, until=until, reason=reason, is_unused=True)
        return Deferred(reason=reason)

    def _failed(self, record: _Record, error: MemoryError) -> Outcome:
        reason = str(error)
        if self._fail is None:
            self._work.fail(self._company, self._key, self.token, reason)
        else:
            self._fail(record, self.token, reason)
        # Not the reason: the text of an error may quote what is stored.
        about = {"company": self._company, "key": self._key, "error": type(error).__name__}
        _log.error(Event.WORK_ATTEMPT_FAILED, extra=about)
        return Dead(reason=reason)

    def _released(self, error: Exception, attempt: int) -> Outcome:
        reason = None
        if self._retry.attempts is None:
            # Nobody learns it from a failure. Another error's own text may quote what is stored.
            reason = str(error) if isinstance(error, MemoryError) else type(error).__name__
        self._work.release(self._company, self._key, self.token, after=self._retry.delay(attempt), reason=reason)
        about = {"company": self._company, "key": self._key, "attempt": attempt, "error": type(error).__name__}
        _log.warning(Event.WORK_ATTEMPT_TROUBLE, extra=about)
        return Deferred(reason=type(error).__name__)
