"""The outcomes of a job, as types: a reader never has to look up what a boolean means."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The job did its work; ``facts`` are small counts for people and monitoring, never memory text."""

    facts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """There was nothing to do, and ``reason`` says why."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """A transient error: run the job again after ``delay``; an attempt is used up."""

    reason: str
    delay: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Snooze:
    """Not now (paused, over budget, newer payload): run the job again after ``delay``; no attempt is used up."""

    reason: str
    delay: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Deferred:
    """The job waits as a row of the ledger: this message is done, and the sweep dispatches the row in time."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dead:
    """The job can never succeed as it is: it becomes a dead letter, and a person decides."""

    reason: str


#: Every way a job can end.
Outcome = Done | Skipped | Retry | Snooze | Deferred | Dead


#: Takes a job's stage and the share of it that is done, 0 to 1, None while unknown. It may be called at any rate, takes
#: no text of a memory, and raises nothing.
ProgressCallback = Callable[[str, float | None], None]


def no_progress(_stage: str, _fraction: float | None) -> None:
    """Report nothing."""
