"""How a job ended, as a type: a reader never has to look up what a boolean means."""

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
    """Something passing went wrong: do it again after ``delay``; an attempt is used up."""

    reason: str
    delay: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Snooze:
    """The time is wrong (paused, over budget, newer payload): look again after ``delay``; no attempt is used up."""

    reason: str
    delay: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Deferred:
    """A row in the ledger waits for its time: this message is done, and the sweep dispatches the row."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dead:
    """It will never work as it stands; a person decides."""

    reason: str


#: Every way a job can end.
Outcome = Done | Skipped | Retry | Snooze | Deferred | Dead


#: Takes the stage that a job is in, and the share of it that is done, 0 to 1, None while nobody knows it. It may be
#: called as often as one likes, takes no text of a memory, and raises nothing.
ProgressCallback = Callable[[str, float | None], None]


def no_progress(_stage: str, _fraction: float | None) -> None:
    """Tell nobody."""
