"""What a job is: a name, a queue, limits, and a plain function from payload and crew to an outcome."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from memcore.jobs.names import TaskName
from memcore.jobs.outcomes import Outcome
from memcore.jobs.queues import Queue
from tasks.crew import Crew

#: Workers that may die while they run a job. One more than a chain of accidents: a job that dies with another's killer,
#: then again beside it, then by an operator's hand, is innocent.
DEATHS = 4


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as a worker sees it.

    Attributes:
        is_repeated: a ledger row or beat brings the job again, so that nothing is lost when its message is given up.
        run: the work: payload's JSON and the crew of the process in, outcome out.
    """

    name: TaskName
    queue: Queue
    limits: Limits
    is_repeated: bool = False
    run: Callable[[str, Crew], Outcome]
