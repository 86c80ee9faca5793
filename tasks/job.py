"""The job type: a payload, limits, and a function from payload and context to an outcome; and where jobs are found."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from pkgutil import walk_packages
from typing import TypeVar, overload

from pydantic import ValidationError

from memcore.company import CompanyService
from memcore.errors import (
    MemoryConfigError,
    MemoryDiskFullError,
    MemoryError,  # noqa: A004  # the reference fixes the name
    MemoryInputError,
)
from memcore.jobs import BasePayload, Dead, Outcome, Queue, Retry, Snooze, is_newer
from tasks.context import JobContext, Service

#: Workers that may die while they run a job. One more than a chain of accidents: a harmless job may die with one that
#: kills its worker, then beside it again, then by an operator's kill.
DEATHS = 4

#: Delay while workers are being upgraded, as often as needed: a half-done upgrade must lose nothing. Below every
#: group's visibility timeout.
NEWER_DELAY = timedelta(seconds=20)

#: Delay before a job checks the disk again: long enough that waiting jobs write little themselves.
FULL_DELAY = timedelta(seconds=30)


#: Wait before a retry: a store or a database that was down is back by then.
RETRY_DELAY = timedelta(seconds=10)

#: The same of jobs that count something: nobody waits for it.
COUNT_RETRY_DELAY = timedelta(seconds=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long and how often a job may run; soft < hard < the broker's visibility timeout, checked by a test.

    Attributes:
        soft: after this the job is asked to stop.
        hard: after this its process is killed (prefork), or the job has bounded itself (threads).
        attempts: runs in all before it is given up.
        deaths: workers that may die while they run it before it is given up; those of a run are its attempts.
    """

    soft: timedelta
    hard: timedelta
    attempts: int
    deaths: int = DEATHS


#: Of jobs that carry the only copy of a memory or an experience; they end within seconds, and are tried for long.
WRITE_LIMITS = Limits(soft=timedelta(seconds=20), hard=timedelta(seconds=25), attempts=200)

#: Of jobs that count something.
COUNT_LIMITS = Limits(soft=timedelta(seconds=20), hard=timedelta(seconds=25), attempts=20)

#: Of the scheduler's jobs: beat sends the next one anyway.
CONTROL_LIMITS = Limits(soft=timedelta(seconds=50), hard=timedelta(seconds=55), attempts=1)

#: Of jobs that take what time they need: the runs of agents, and whatever asks a model.
LONG_LIMITS = Limits(soft=timedelta(minutes=50), hard=timedelta(minutes=55), attempts=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job definition; called with a payload's JSON and the context of the process, it returns an outcome.

    Attributes:
        is_repeated: a ledger row or beat sends the job again, so that a message that is given up loses nothing.
    """

    payload: type[BasePayload]
    limits: Limits
    is_repeated: bool = False
    run: Callable[[str, JobContext], Outcome]

    def __post_init__(self) -> None:
        if not self.payload.task or not hasattr(self.payload, "queue"):
            name = self.payload.__name__
            raise MemoryConfigError(
                f"{name}: declares no task or queue; write class {name}(Payload, task=..., queue=...)"
            )

    def __call__(self, payload: str, job_context: JobContext) -> Outcome:
        """Run it."""
        return self.run(payload, job_context)

    @property
    def name(self) -> str:
        """Its task's name on the wire."""
        return self.payload.task

    @property
    def queue(self) -> Queue:
        """The queue of its messages."""
        return self.payload.queue


#: Where jobs are declared; the scheduler is loaded by name, so that no worker imports it.
PACKAGES = ("tasks", "scheduler")


def all_jobs(packages: Iterable[str] = PACKAGES) -> tuple[Job, ...]:
    """Return every job that a module of these packages declares. Raises MemoryConfigError where two have one name."""
    found: dict[str, Job] = {}
    for package in packages:
        for module in walk_packages(import_module(package).__path__, f"{package}."):
            for value in vars(import_module(module.name)).values():
                if isinstance(value, Job) and found.setdefault(value.name, value) is not value:
                    raise MemoryConfigError(f"{module.name}: another job is named {value.name}, too; rename one")
    return tuple(found.values())


P = TypeVar("P", bound=BasePayload)


@overload
def job(
    model: type[P],
    limits: Limits,
    *,
    needs: type[Service],
    retry_after: timedelta = RETRY_DELAY,
    is_repeated: bool = False,
) -> Callable[[Callable[[P, Service, JobContext], Outcome]], Job]: ...


@overload
def job(
    model: type[P], limits: Limits, *, retry_after: timedelta = RETRY_DELAY, is_repeated: bool = False
) -> Callable[[Callable[[P, JobContext], Outcome]], Job]: ...


def job(
    model: type[P],
    limits: Limits,
    *,
    needs: type[CompanyService] | None = None,
    retry_after: timedelta = RETRY_DELAY,
    is_repeated: bool = False,
) -> Callable[[Callable[..., Outcome]], Job]:
    """Make a job of a function of its validated payload, of the company's service that it needs, and of the context.

    A payload of newer code waits for a newer worker; one that breaks a limit becomes a dead letter that names the
    field. On a full disk a job waits. Other memory errors become a retry where it may help, else a dead letter that
    says why.
    """

    def declare(work: Callable[..., Outcome]) -> Job:
        def run(text: str, job_context: JobContext) -> Outcome:
            try:
                payload = model.model_validate_json(text)
            except ValidationError as error:
                if is_newer(text):
                    return Snooze(reason="the payload is of a newer version than this worker", delay=NEWER_DELAY)
                return Dead(reason=str(MemoryInputError.of(error)))
            try:
                if needs is None:
                    return work(payload, job_context)
                return work(payload, job_context.service(needs), job_context)
            except MemoryError as error:
                return _after(error, retry_after)

        return Job(payload=model, limits=limits, is_repeated=is_repeated, run=run)

    return declare


def _after(error: MemoryError, retry_after: timedelta) -> Outcome:
    if isinstance(error, MemoryDiskFullError):
        return refuse_when_full(error)
    return Retry(reason=type(error).__name__, delay=retry_after) if error.is_retryable else Dead(reason=str(error))


def refuse_when_full(error: BaseException) -> Snooze:
    """Return the outcome of a job that found the disk full: it waits, and uses up no attempt."""
    return Snooze(reason=f"the disk is full ({type(error).__name__})", delay=FULL_DELAY)
