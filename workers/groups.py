"""Worker groups: the queues of each, its pool, and how soon its lost jobs are redelivered."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

from memcore.jobs import STORE_SHARDS, Queue

#: How long a worker may take to end after it was told to, in seconds: above the soft shutdown and the hard limit of a
#: store job (25), and below the 40 after which supervisor and compose kill it.
STOP_SECONDS = 35.0


#: What kombu puts behind a queue's name for each step of priority; no client of ours sends one, others may.
_PRIORITY_STEPS = ("", "\x06\x163", "\x06\x166", "\x06\x169")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerGroup:
    """The configuration of one kind of worker.

    Attributes:
        pool: threads for jobs that mostly wait; prefork isolates long work and enforces hard limits.
        at_most: most messages that a worker holds of a queue, for queues whose jobs are heavy.
        visibility: how long a fetched job may go unacknowledged before another worker gets it; above every hard limit.
        opens_early: whether the context opens when the worker starts, not with the first job (threads).
        on_demand: whether it is started only where a person asks for it.
        needs_model: whether its jobs only wait where no language model is connected.
        recycle_after: jobs after which a child process is replaced (prefork), against slow leaks; None for never.
    """

    name: str
    queues: tuple[Queue, ...]
    pool: Literal["threads", "prefork"]
    concurrency: int
    visibility: timedelta
    at_most: Mapping[Queue, int] = field(default_factory=dict)
    opens_early: bool = True
    recycle_after: int | None = None
    on_demand: bool = False
    needs_model: bool = False

    @property
    def unacked_key(self) -> str:
        """The broker's key of the messages that its workers hold, where the broker is Redis or Valkey.

        Long and short jobs must not share one: the shortest ``visibility`` among them would win for all.
        """
        return f"unacked.{self.name}"

    @property
    def waiting_keys(self) -> tuple[str, ...]:
        """The broker's lists of the jobs that wait for it: of each queue one, and one for each step of priority."""
        return tuple(f"{queue}{step}" for step in _PRIORITY_STEPS for queue in self.queues)

    @property
    def is_scaled(self) -> bool:
        """Whether it has only as many children as its jobs need, ``concurrency`` at most."""
        return self.pool == "prefork" and self.concurrency > 1


#: Bulk jobs that a store worker holds: a quarter of its threads, so that engines' stores always find one free.
BULK_IN_HAND = 16

#: Traces that a store worker holds: each takes two writes in the ledger, which on SQLite has one writer at a time.
TRACES_IN_HAND = 8

#: Engines' memories on their way to the store. Threads, because each job only waits for its batch.
STORE = WorkerGroup(
    name="store",
    queues=(Queue.STORE, *STORE_SHARDS, Queue.STORE_BULK, Queue.DISTILL),
    pool="threads",
    concurrency=64,
    at_most={Queue.STORE_BULK: BULK_IN_HAND, Queue.DISTILL: TRACES_IN_HAND},
    # Live workers renew their leases: this is how long the memories of a killed one wait.
    visibility=timedelta(seconds=30),
)

#: The agents' runs, the scheduler's short jobs, the evolver's cycles, and slices of a reindex.
MAINTENANCE_RUN = WorkerGroup(
    name="night",
    queues=(Queue.MAINTENANCE, Queue.CONTROL, Queue.SKILLS, Queue.REINDEX),
    pool="prefork",
    concurrency=2,
    visibility=timedelta(minutes=65),
    recycle_after=200,
)

#: Everything that waits for a model: threads, because it only waits.
LLM = WorkerGroup(
    name="llm",
    queues=(Queue.SYNTHESIS, Queue.EXTRACT),
    pool="threads",
    concurrency=8,
    visibility=timedelta(minutes=65),
    # Most installations have no model most of the time, and its context takes 100 MB.
    opens_early=False,
    needs_model=True,
)

#: Stages of fine-tune runs, one at a time: each takes the GPU, or every core, for minutes to hours.
FINETUNE = WorkerGroup(
    name="finetune",
    queues=(Queue.FINETUNE,),
    pool="prefork",
    concurrency=1,
    # The ledger's lease brings a dead worker's stage back within minutes; this is above what a live one may take.
    visibility=timedelta(hours=13),
    on_demand=True,
)

#: Every group.
GROUPS = {group.name: group for group in (STORE, MAINTENANCE_RUN, LLM, FINETUNE)}
