"""Receipts of sent jobs, the states of jobs, and the jobs that a wait has pending."""

import time
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Self

from pydantic import Field

from memcore.errors import MemoryRefusedError, MemoryStoreError
from memcore.models.base import Frozen


class JobState(StrEnum):
    """The state of a job."""

    PENDING = "pending"
    """Queued, or unknown: never sent, or its result has expired."""
    RUNNING = "running"
    DONE = "done"
    SKIPPED = "skipped"
    SNOOZED = "snoozed"
    RETRYING = "retrying"
    DEAD = "dead"


class JobReceipt(Frozen):
    """Proof that the broker holds a job; ``MemoryClient.status(job_id)`` returns its status."""

    job_id: str


class StoreReceipt(Frozen):
    """Proof that the broker holds these memories, in jobs of up to 256.

    They will have these ids, in the order given; the same text of the same agent has the same id.

    Attributes:
        unknown_supersedes: how many ids of ``supersedes`` name no memory of the agent; known to who waited.
    """

    job_ids: tuple[str, ...]
    memory_ids: tuple[str, ...]
    unknown_supersedes: int | None = None

    def written(self, statuses: "Iterable[JobStatus]") -> Self:
        """Return it with what its ended jobs counted. Raises MemoryStoreError when one of them wrote nothing."""
        unknown = 0
        for status in statuses:
            if status.state is not JobState.DONE:
                kind = MemoryRefusedError if status.state is JobState.SKIPPED else MemoryStoreError
                raise kind(f"job {status.job_id} wrote nothing: it is {status.state}: {status.reason}")
            unknown += status.facts.get("unknown_supersedes", 0)
        return self.model_copy(update={"unknown_supersedes": unknown})


class JobStatus(Frozen):
    """The status of a job.

    Attributes:
        facts: small counts that the job reported, such as ``stored``.
        reason: why it was skipped, snoozed, retried or given up.
        stage: the stage of a long job, as it last reported.
        fraction: the share of the stage, or of a reindex, that is done, 0 to 1.
    """

    job_id: str
    state: JobState
    facts: dict[str, int] = Field(default_factory=dict)
    reason: str | None = None
    stage: str | None = None
    fraction: float | None = Field(default=None, ge=0.0, le=1.0)

    @property
    def is_finished(self) -> bool:
        """Whether the job has ended."""
        return self.state in {JobState.DONE, JobState.SKIPPED, JobState.DEAD}


class ExperienceReceipt(JobReceipt):
    """Proof that the broker holds an experience; the same texts of the same task of the same agent have the same id."""

    experience_id: str


class AppliedReceipt(Frozen):
    """Proof that the broker holds an application of a skill; the same skill, agent and task have the same id.

    The outcome of its job is not kept, so ``wait`` would time out.
    """

    job_id: str
    application_id: str


class DistillReceipt(JobReceipt):
    """Proof that the broker holds a trace; its memory, its experience and its trajectory will have its id."""

    trace_id: str


class TurnReceipt(JobReceipt):
    """Proof that the broker holds a turn of a conversation, which will have this id."""

    turn_id: str


#: Seconds between two polls of the outcomes that a caller waits for.
POLL_SECONDS = 0.05


class PendingJobs:
    """The jobs of one wait that have not finished; the caller polls and sleeps. A job given twice counts once."""

    def __init__(
        self, job_ids: Sequence[str], *, timeout_seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._out = dict.fromkeys(job_ids)
        self._count = len(self._out)
        self._clock = clock
        self._timeout_seconds = timeout_seconds
        self._until = clock() + timeout_seconds

    @property
    def waiting(self) -> tuple[str, ...]:
        """The ids of the jobs that have not finished."""
        return tuple(self._out)

    def mark_finished(self, finished: Sequence[JobStatus]) -> Sequence[JobStatus]:
        """Take these jobs off the list and return them."""
        for status in finished:
            self._out.pop(status.job_id, None)
        return finished

    def poll_delay(self) -> float:
        """Return the seconds to sleep until the next poll; raises TimeoutError when time is up."""
        if self._clock() > self._until:
            left, limit = len(self._out), self._timeout_seconds
            raise TimeoutError(f"{left} of {self._count} jobs had not finished after {limit:g} seconds")
        return POLL_SECONDS
