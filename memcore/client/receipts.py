"""What the client hands back: receipts for jobs that were sent, and what became of them."""

from enum import StrEnum

from pydantic import Field

from memcore.frozen import Frozen


class JobState(StrEnum):
    """Where a job stands."""

    PENDING = "pending"
    """On its way, or not known here: never sent, or its result has expired."""
    RUNNING = "running"
    DONE = "done"
    SKIPPED = "skipped"
    SNOOZED = "snoozed"
    RETRYING = "retrying"
    DEAD = "dead"


class JobReceipt(Frozen):
    """Proof that the broker holds a job; ask ``MemoryClient.status(job_id)`` what became of it."""

    job_id: str


class StoreReceipt(Frozen):
    """Proof that the broker holds these memories.

    Attributes:
        job_ids: one job for up to 256 memories.
        memory_ids: the ids they will have, in the order given; the same text of the same agent has the same id.
    """

    job_ids: tuple[str, ...]
    memory_ids: tuple[str, ...]


class JobStatus(Frozen):
    """What became of a job.

    Attributes:
        facts: small counts that the job reported, such as ``stored``.
        reason: why it was skipped, snoozed, retried or given up.
        stage: what a long job is at, as far as it has said.
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
        """Whether the job will do no more."""
        return self.state in {JobState.DONE, JobState.SKIPPED, JobState.DEAD}


class ExperienceReceipt(Frozen):
    """Proof that the broker holds an experience.

    Attributes:
        job_id: its job.
        experience_id: the id it will have; the same texts of the same task of the same agent have the same id.
    """

    job_id: str
    experience_id: str


class AppliedReceipt(Frozen):
    """Proof that the broker holds an application of a skill.

    Attributes:
        job_id: its job, as logs and dead letters name it; its outcome is not kept, so ``wait`` would wait in vain.
        application_id: the id by which it counts once; the same skill, agent and task have the same id.
    """

    job_id: str
    application_id: str


class DistillReceipt(Frozen):
    """Proof that the broker holds a trace.

    Attributes:
        job_id: its job.
        trace_id: the id that its memory, its experience and its trajectory will have; the same trace has the same id.
    """

    job_id: str
    trace_id: str
