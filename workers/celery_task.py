"""Runs jobs as Celery tasks: errors become outcomes, and outcomes results, retries, requeues and dead letters.

Redelivered jobs of dead workers run again a limited number of times, and from the second time one at a time.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from datetime import timedelta
from functools import partial
from heapq import heappop, heappush
from traceback import extract_tb
from typing import Any, Never, TypeVar

from celery import Celery, Task
from celery.exceptions import Ignore, Reject, TaskPredicate
from celery.exceptions import Retry as Requeued
from celery.result import denied_join_result
from pydantic import ValidationError

from memcore import errors
from memcore.client.publisher import SNOOZED
from memcore.free_space import is_disk_full
from memcore.jobs import (
    BasePayload,
    Dead,
    Deferred,
    Done,
    ErasePayload,
    Outcome,
    Retry,
    Skipped,
    Snooze,
    company_of,
    is_newer,
)
from memcore.ledger.dead_letters import Attempts, NewDeadLetter, kept_of
from memcore.ledger.erasure.shared_rows import payload_without
from memcore.ledger.ledger import Ledger
from memcore.telemetry import tracing
from memcore.telemetry.events import Event
from memcore.telemetry.tracing import Attribute
from tasks.context import JobContext
from tasks.job import Job
from workers.context import WorkerContexts
from workers.deliveries import is_stale

#: Longest delay that a message spends in the broker; longer waits belong in the ledger (STACK, Settings).
MAX_COUNTDOWN = timedelta(seconds=60)

#: Delay while workers are being upgraded, as often as needed: a half-done upgrade must lose nothing. Below every
#: group's visibility timeout.
NEWER_DELAY = timedelta(seconds=20)

#: Delay before a job checks the disk again: long enough that waiting jobs write little themselves.
FULL_DELAY = timedelta(seconds=30)

#: Delay after an unexpected error.
FAILED_DELAY = timedelta(seconds=5)

#: How long a job waits in its thread for what is away: longer than a part takes to be back, shorter than a worker that
#: stops waits for it.
IN_HAND = timedelta(seconds=10)

#: ``denied_join_result`` sets a flag of the process: the first thread to leave would clear it for the others.
_requeueing = threading.Lock()

#: Errors that the payload or the code causes: a retry would fail the same way, so the job is dead at once.
#: Any other unexpected error may come from a machine or a library, and costs an attempt.
NOT_RETRYABLE = (ArithmeticError, AssertionError, AttributeError, LookupError, NameError, TypeError, ValueError)

log = logging.getLogger("memtend.jobs")

Result = TypeVar("Result")

#: How long a job waits for others for each death beyond its second: enough for those redelivered with it to arrive and
#: run, so that kills from outside do not hit the same job in its turn each time.
YIELD_TIME = timedelta(seconds=1)


class SerialGate:
    """A gate that one redelivered job passes at a time, those with the fewest deaths first.

    A broker redelivers a message when its worker died with it. Nobody can tell whether the job killed the worker or
    ran beside the one that did: in a pool of threads, dozens die together. So the first redelivery runs as usual,
    counted. Later ones run one at a time in their process: the job that kills again is counted, those that wait are
    not. The more deaths a job has, the later its turn, so that harmless jobs finish first.
    One gate serves the jobs of all kinds, since a job of one kind dies with a killer of another; each fork gets its
    own copy.

    ``yield_time`` is the wait before asking for a turn, for each death beyond the second.
    """

    def __init__(self, *, yield_time: timedelta = YIELD_TIME) -> None:
        self._yield_seconds = yield_time.total_seconds()
        self._changed = threading.Condition()
        self._waiting: list[int] = []
        self._is_taken = False

    @contextmanager
    def acquire(self, deaths: int) -> Iterator[None]:
        """Wait for a turn and keep it as long as the context is open; at least two workers died with the job."""
        # A child process runs jobs in its main thread, one at a time and against the clock: nobody else waits.
        if threading.current_thread() is not threading.main_thread():
            time.sleep(max(0, deaths - 2) * self._yield_seconds)
        with self._changed:
            heappush(self._waiting, deaths)
            self._changed.wait_for(lambda: not self._is_taken and self._waiting[0] == deaths)
            heappop(self._waiting)
            self._is_taken = True
        try:
            yield
        finally:
            with self._changed:
                self._is_taken = False
                self._changed.notify_all()

    def run(
        self,
        job_id: str,
        run: Callable[[int], Result],
        attempts: Attempts,
        *,
        check: Callable[[], None] = lambda: None,
    ) -> Result:
        """Run a redelivered job in its turn; ``run`` gets the number of workers that died with it.

        The turn lasts until ``run`` returns, which deletes the count: a job that has run and is still counted must not
        run beside the next one.

        Raises MemoryError: the ledger cannot count; the job did not run. What ``check`` raises, once it is the job's
        turn, ends it uncounted.
        """
        starts = attempts.count(job_id)
        with self.acquire(starts + 1) if starts else nullcontext():
            check()
            # This start is not over, and that of the new message left no row: as many starts as deaths.
            return run(attempts.begin(job_id))


def build_tasks(app: Celery, jobs: Iterable[Job], contexts: WorkerContexts) -> None:
    """Register the jobs with the app under their names and limits."""
    gate = SerialGate()
    for job in jobs:
        _build_task(app, job, contexts, gate)


def _build_task(app: Celery, job: Job, contexts: WorkerContexts, gate: SerialGate) -> None:
    def run(self: Task, payload: str | dict[str, Any] = "{}") -> dict[str, Any]:
        company: str | None = None
        waits_in_hand = job.retry_after < IN_HAND
        self.request.in_hand_until = time.monotonic() + IN_HAND.total_seconds() if waits_in_hand else 0.0
        while True:
            _pass_over_stale(self)
            try:
                # Another client than ours may send an object.
                text = payload if isinstance(payload, str) else json.dumps(payload)
                company = company_of(text)
                return _process(self, job, contexts, gate, payload=text, company=company)
            except _StaysInHandError:
                pass
            except TaskPredicate:
                raise  # the message is settled
            except BaseException as error:
                if _ends_process(error):
                    raise
                # Celery would acknowledge a message that nobody keeps: the job has not begun, or its outcome is not
                # kept.
                if not (isinstance(error, errors.MemoryConnectionError) and _may_wait(self, job.retry_after)):
                    about = {"job_id": self.request.id, "error": type(error).__name__, "at": _places(error)}
                    log.warning(Event.CREW_ABSENT, extra=about)
                    delay = max(FAILED_DELAY, timedelta(seconds=contexts.refused_seconds(company)))
                    _put_back(self, delay, attempt=self.request.retries)
            time.sleep(job.retry_after.total_seconds())

    app.task(
        run,
        name=job.name,
        bind=True,
        # Otherwise Celery shares the task with every other app of this process, which runs it with this context.
        shared=False,
        # Read at delivery: only such a job may be dropped unread when it expires.
        is_repeated=job.is_repeated,
        max_retries=job.limits.attempts - 1,
        soft_time_limit=job.limits.soft.total_seconds(),
        time_limit=job.limits.hard.total_seconds(),
    )


def _process(
    task: Task, job: Job, contexts: WorkerContexts, gate: SerialGate, *, payload: str, company: str | None
) -> dict[str, Any]:
    with ExitStack() as held:
        try:
            current = held.enter_context(contexts.of(company))
        except errors.MemoryNotFoundError as error:
            shared = contexts.shared
            letter = _new_letter(task, job, str(error), payload=payload, company=company or shared.settings.company)
            return _dead_letter(task, letter, shared.ledger)
        if job.is_repeated or not is_redelivered(task):
            outcome = _attempt(task, job, payload, current)
            return apply_outcome(task, job, outcome, payload=payload, job_context=current)
        return run_guarded(task, job, gate, payload=payload, job_context=current)


def _pass_over_stale(task: Task) -> None:
    """End a task whose message comes again, instead of running it twice while others wait for its thread."""
    if is_stale(task.request):
        raise Ignore


def _ends_process(error: BaseException) -> bool:
    """Tell whether the error ends a child of the pool, whose message then goes back by itself."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    return in_main_thread and isinstance(error, SystemExit | KeyboardInterrupt)


def _places(error: BaseException) -> str:
    """Return where an error was raised; its text may quote a memory."""
    return " < ".join(f"{at.name}:{at.lineno}" for at in reversed(extract_tb(error.__traceback__)))


def is_redelivered(task: Task) -> bool:
    """Tell whether the broker redelivers this message, because a worker died or requeued it."""
    return bool((task.request.delivery_info or {}).get("redelivered"))


def run_guarded(task: Task, job: Job, gate: SerialGate, *, payload: str, job_context: JobContext) -> dict[str, Any]:
    """Run a redelivered job, unless too many workers died with it; its count is deleted once it is settled.

    That of a job given up for its deaths stays as long as its dead letter: a worker that dies before the message is
    acknowledged would otherwise begin to count, and to die, anew.
    """
    job_id, attempts = task.request.id, job_context.ledger.attempts

    def run(died: int) -> dict[str, Any]:
        is_given_up = died >= job.limits.deaths
        if is_given_up:
            outcome: Outcome = Dead(reason=f"{died} workers died while they ran it")
        else:
            # Outside the try below: a child that is killed at its hard limit leaves here, and must stay counted.
            outcome = _attempt(task, job, payload, job_context)
        try:
            return apply_outcome(task, job, outcome, payload=payload, job_context=job_context)
        finally:
            if not is_given_up:
                _forget(job_id, attempts)

    try:
        return gate.run(job_id, run, attempts, check=partial(_pass_over_stale, task))
    except errors.MemoryError as error:
        # It must not run uncounted: it might kill this worker too, again and again.
        log.warning(Event.JOB_UNCOUNTED, extra={"job_id": job_id, "error": type(error).__name__})
        _requeue(task, FAILED_DELAY, attempt=task.request.retries)


def _forget(job_id: str, attempts: Attempts) -> None:
    try:
        attempts.end(job_id)
    except errors.MemoryError as error:
        # The row that stays costs a place in a table, and counts as a death at this job's next redelivery.
        log.warning(Event.JOB_COUNT_STAYS, extra={"job_id": job_id, "error": type(error).__name__})


def _attempt(task: Task, job: Job, payload: str, job_context: JobContext) -> Outcome:
    """Run the job as a part of the trace in which it was sent."""
    about = {
        Attribute.QUEUE: str(job.queue),
        Attribute.JOB_ID: task.request.id,
        Attribute.STORE: job_context.company,
    }
    with (
        tracing.continued(task.request.get(tracing.HEADER)),
        tracing.trace(f"process {job.name}", about, kind="consumer") as step,
    ):
        outcome = run_job(job, payload, job_context)
        became = type(outcome).__name__.lower()
        step.set({Attribute.OUTCOME: became})
        if isinstance(outcome, Retry | Dead):
            step.fail(became)
    return outcome


def run_job(job: Job, payload: str, job_context: JobContext) -> Outcome:
    """Run the job; an unexpected error becomes an outcome, because Celery would drop the message with it."""
    try:
        return perform(job, payload, job_context)
    except BaseException as error:
        if _ends_process(error):
            raise
        if is_disk_full(error):
            log.warning(Event.JOB_DISK_FULL, extra={"job": job.name})
            return _wait_for_space(error)
        about = {"job": job.name, "error": type(error).__name__, "at": _places(error)}
        log.error(Event.JOB_FAILED, extra=about)  # noqa: TRY400  # the error's text may quote a memory
        if isinstance(error, NOT_RETRYABLE):
            return Dead(reason=f"failed with {type(error).__name__}; another try would too")
        return Retry(reason=f"failed with {type(error).__name__}", delay=FAILED_DELAY)


def perform(job: Job, text: str, job_context: JobContext) -> Outcome:
    """Read the payload and run the job; a memory error becomes an outcome.

    A payload of a newer version waits for a newer worker; fields that are not known in an older one are passed over.
    A payload that breaks a limit becomes a dead letter that names the field. On a full disk a job waits. Other memory
    errors become a retry where it may help, else a dead letter that says why.
    """
    try:
        payload = _read(job, text)
    except ValidationError as error:
        if is_newer(text):
            return Snooze(reason="the payload is of a newer version than this worker", delay=NEWER_DELAY)
        return Dead(reason=str(errors.MemoryInputError.of(error)))
    try:
        return _run(job, payload, job_context)
    except errors.MemoryDiskFullError as error:
        return _wait_for_space(error)
    except errors.MemoryError as error:
        is_passing = error.is_retryable
        return Retry(reason=type(error).__name__, delay=job.retry_after) if is_passing else Dead(reason=str(error))


def _read(job: Job, text: str) -> BasePayload:
    try:
        return job.payload.model_validate_json(text)
    except (ValidationError, errors.MemoryInputError):
        # Fields that an older worker must not pass over come with a newer version.
        payload = job.payload.model_validate_json(text, extra="ignore")
    log.warning(Event.JOB_FIELDS_UNKNOWN, extra={"job": job.name})
    return payload


def _run(job: Job, payload: BasePayload, job_context: JobContext) -> Outcome:
    own, listed = _agents_of(payload)
    if job.payload is ErasePayload or not own | listed:
        return _called(job, payload, job_context)
    erasures = job_context.ledger.erasures
    watched = erasures.watch(job_context.company, own | listed)
    if not own.isdisjoint(watched.barred):
        return Skipped(reason="the agent is being erased")
    try:
        return _called(job, payload, job_context)
    finally:
        # Also behind an error: a part may be written.
        text = payload.model_dump_json
        erasures.end_write(watched, lambda each: each.subject is None or payload_without(text(), each) != text())


def _called(job: Job, payload: BasePayload, job_context: JobContext) -> Outcome:
    if job.needs is None:
        return job.run(payload, job_context)
    return job.run(payload, job_context.service(job.needs), job_context)


def _agents_of(payload: BasePayload) -> tuple[frozenset[str], frozenset[str]]:
    """Return the agents whose job it is, and those of which it reports; the batch writer looks at those of memories."""
    own = (payload, *(getattr(payload, name, None) for name in ("experience", "crisis", "feedback")))
    listed = (each for name in ("uses", "queries") for each in getattr(payload, name, ()))
    agents, others = (
        frozenset(agent_id for part in parts if isinstance(agent_id := getattr(part, "agent_id", None), str))
        for parts in (own, listed)
    )
    return agents, others


def _wait_for_space(error: BaseException) -> Snooze:
    # It uses up no attempt.
    return Snooze(reason=f"the disk is full ({type(error).__name__})", delay=FULL_DELAY)


def apply_outcome(  # the cases are all there are
    task: Task, job: Job, outcome: Outcome, *, payload: str, job_context: JobContext
) -> dict[str, Any]:
    """Return the outcome as the job's result, requeue the job, or keep it as a dead letter."""
    about = {"job": job.name, "job_id": task.request.id}
    match outcome:
        case Done(facts=facts):
            return {"outcome": "done", "facts": facts}
        case Skipped(reason=reason):
            return {"outcome": "skipped", "reason": reason}
        case Deferred(reason=reason):
            log.info(Event.JOB_PARKED, extra={**about, "reason": reason})
            _defer_message(task, reason)
        case Snooze(reason=reason, delay=delay):
            log.info(Event.JOB_SNOOZED, extra={**about, "reason": reason})
            _requeue(task, delay, attempt=task.request.retries)
        case Retry(reason=reason, delay=delay):
            attempt = task.request.retries + 1
            if attempt < job.limits.attempts:
                log.warning(Event.JOB_RETRY, extra={**about, "reason": reason, "attempt": attempt})
                _requeue(task, delay, attempt=attempt)
            reason = f"gave up after {attempt} attempts: {reason}"
        case Dead(reason=reason):
            pass
    letter = _new_letter(task, job, reason, payload=payload, company=job_context.company)
    return _dead_letter(task, letter, None if job.is_repeated else job_context.ledger)


def _new_letter(task: Task, job: Job, reason: str, *, payload: str, company: str) -> NewDeadLetter:
    return NewDeadLetter(
        job_id=task.request.id,
        company=company,
        job=job.name,
        # Where it came from: a bulk load that is replayed must not stand before the engines.
        queue=(task.request.delivery_info or {}).get("routing_key") or str(job.queue),
        payload=kept_of(job.payload, payload),
        reason=reason,
        attempts=task.request.retries + 1,
    )


def _dead_letter(task: Task, letter: NewDeadLetter, ledger: Ledger | None) -> dict[str, Any]:
    """Give the job up; without a ledger nothing is kept, because a row or beat sends it again."""
    log.error(Event.JOB_DEAD, extra={"job": letter.job, "job_id": letter.job_id, "reason": letter.reason})
    if ledger is not None:
        try:
            ledger.dead_letters.put(letter)
        except errors.MemoryError:
            # Nobody keeps it but the broker: giving it up now would lose it.
            _requeue(task, FAILED_DELAY, attempt=task.request.retries)
    return {"outcome": "dead", "reason": letter.reason}


class _StaysInHandError(Exception):
    """The job waits in its thread and is tried again there."""


def _may_wait(task: Task, delay: timedelta) -> bool:
    """Tell whether the job may wait so long in its thread."""
    return bool(time.monotonic() + delay.total_seconds() < getattr(task.request, "in_hand_until", 0.0))


def _requeue(task: Task, delay: timedelta, *, attempt: int) -> Never:
    """Try the job again after the delay: in its thread, for a while, where it keeps its place; then as a message."""
    if delay <= FAILED_DELAY and _may_wait(task, delay):
        raise _StaysInHandError
    _put_back(task, delay, attempt=attempt)


def _put_back(task: Task, delay: timedelta, *, attempt: int) -> Never:
    # Not task.retry: it counts every requeue as an attempt, and quotes the arguments to monitoring again.
    request, seconds = task.request, min(delay, MAX_COUNTDOWN).total_seconds()
    # Nobody waits for it here: without this the app subscribes to its result.
    with _requeueing, denied_join_result():
        try:
            # Other clients than ours may leave them out.
            shown = {name: getattr(request, name, None) for name in ("argsrepr", "kwargsrepr")}
            again: Any = task.signature_from_request(request, countdown=seconds, retries=attempt, **shown)
            again.apply_async()
        except Exception as error:
            # The broker did not take it: as a failure the message would be acknowledged, and the job be gone.
            raise Reject(type(error).__name__, requeue=True) from error
    raise Requeued(when=seconds)


def _defer_message(task: Task, reason: str) -> Never:
    # In a state of its own: a success is final, and what the row's next message reports would never be seen.
    if not task.request.ignore_result:
        task.backend.store_result(task.request.id, {"reason": reason}, SNOOZED, request=task.request)
    raise Ignore
