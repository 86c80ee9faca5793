"""What a job is: a payload, limits, and a function from payload and context to an outcome; and where jobs are found."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from importlib import import_module
from pkgutil import walk_packages
from typing import TypeVar, overload

from memcore.company import CompanyService
from memcore.errors import MemoryConfigError
from memcore.jobs import BasePayload, Outcome, Queue
from tasks.context import JobContext, Service

#: Workers that may die while they run a job. One more than a chain of accidents: a harmless job may die with one that
#: kills its worker, then beside it again, then by an operator's kill.
DEATHS = 4

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


@dataclass(frozen=True, kw_only=True)
class Job:
    """The declaration of a job; ``workers.celery_task`` runs it.

    Attributes:
        needs: the company's service that the function gets behind the payload; None for a function without one.
        retry_after: wait before it is tried again after a passing error; a job of the store worker that waits for only
            seconds does so in its thread for a while, before its message goes behind all that came meanwhile.
        is_repeated: a message that is given up becomes no dead letter: a ledger row or beat sends the job again, or it
            holds a person's questions, which nobody misses.
    """

    payload: type[BasePayload]
    limits: Limits
    needs: type[CompanyService] | None = None
    retry_after: timedelta = RETRY_DELAY
    is_repeated: bool = False
    run: Callable[..., Outcome]

    def __post_init__(self) -> None:
        if not self.payload.task or not hasattr(self.payload, "queue"):
            name = self.payload.__name__
            raise MemoryConfigError(
                f"{name}: declares no task or queue; write class {name}(Payload, task=..., queue=...)"
            )

    @cached_property
    def name(self) -> str:
        """Its task's name on the wire."""
        return self.payload.task

    @cached_property
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
    """Declare a job whose function gets its validated payload, the company's service that it needs, and the context."""

    def declare(run: Callable[..., Outcome]) -> Job:
        return Job(payload=model, limits=limits, needs=needs, retry_after=retry_after, is_repeated=is_repeated, run=run)

    return declare
