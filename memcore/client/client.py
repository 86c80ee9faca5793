"""``MemoryClient``: the one object an agent engine needs to hand memories and jobs to the night crew."""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack
from urllib.parse import urlsplit

from pydantic import TypeAdapter, ValidationError

from memcore import ids
from memcore.client.application_post import post_application, seal_application
from memcore.client.distill_envelope import seal_trace
from memcore.client.envelope import ImportRecord, Scope, checked, pack, seal
from memcore.client.experience_envelope import ExperienceFields, seal_experience
from memcore.client.levels import Levels
from memcore.client.pace import Pace
from memcore.client.posting import Posting
from memcore.client.queue_limit import QueueLimit, WhenFull, check_limit
from memcore.client.receipts import (
    AppliedReceipt,
    DistillReceipt,
    ExperienceReceipt,
    JobReceipt,
    JobStatus,
    StoreReceipt,
)
from memcore.client.run_calls import RunCalls
from memcore.client.trace_post import post_trace
from memcore.clock import Clock, utc_now
from memcore.errors import MemoryInputError
from memcore.execution_trace import ExecutionTrace
from memcore.free_space import FOR_JOBS, refuse_when_low
from memcore.jobs.names import TaskName
from memcore.jobs.payloads import StoreItem
from memcore.jobs.queues import Queue
from memcore.jobs.skill_payloads import ApplicationOutcome
from memcore.jobs.use_payload import Use, UsePayload
from memcore.models import Key, MemoryStoreRequest

if TYPE_CHECKING:
    from memcore.client.sender import Admit, Sender
    from memcore.config.settings import Settings

_COMPANY: TypeAdapter[str] = TypeAdapter(Key)

#: Longest wait for room in a full queue, in seconds: as long as an engine can let a person wait.
BLOCK_SECONDS = 30.0


class MemoryClient(RunCalls):
    """Send memories and maintenance jobs, and ask what became of them. Thread-safe; close it when done.

    Every call validates before anything is sent, and returns once the broker holds the job (at-least-once; ids are
    deterministic, so a job that runs twice writes once).

    Args:
        broker_url: where jobs go, as the workers know it.
        result_url: where outcomes are read; None when nobody asks for a status.
        company: the company whose memories these are.
        max_waiting: most jobs that may wait on a queue before this client sends no more there; None for no limit.
        when_full: what then: ``error`` raises MemoryQueueFullError, ``block`` waits for room and raises it after
            ``block_seconds``.
        block_seconds: longest wait for room, of one call.
        clock: tells the creation time of memories.
        levels: what is known of the agents' levels; None leaves it to the workers to refuse what lacks an id.
        disk: a folder on the broker's disk, where that is this machine's: jobs are refused while it is nearly full.

    Raises:
        MemoryInputError: ``company``, ``max_waiting``, ``when_full`` or ``block_seconds`` is out of range.
    """

    def __init__(
        self,
        broker_url: str,
        *,
        result_url: str | None = None,
        company: str = "default",
        max_waiting: int | None = None,
        when_full: WhenFull = "error",
        block_seconds: float = BLOCK_SECONDS,
        clock: Clock = utc_now,
        levels: Levels | None = None,
        disk: Path | None = None,
    ) -> None:
        try:
            self._company: str = _COMPANY.validate_python(company)
        except ValidationError as error:
            raise MemoryInputError("company", MemoryInputError.of(error).problem) from None
        check_limit(max_waiting=max_waiting or 1, when_full=when_full, block_seconds=block_seconds)
        self._limit: QueueLimit | None = None
        if max_waiting is not None:
            self._limit = QueueLimit(
                self._waiting,
                max_waiting=max_waiting,
                when_full=when_full,
                block_seconds=block_seconds,
            )
        self._broker_url = broker_url
        self._result_url = result_url
        self._clock = clock
        self._levels = levels
        self._disk = disk
        self._pace = Pace(clock=clock)
        self._opened: Sender | None = None
        self._opening = threading.Lock()

    @classmethod
    def from_settings(
        cls,
        settings: "Settings",
        *,
        max_waiting: int | None = None,
        when_full: WhenFull = "error",
        block_seconds: float = BLOCK_SECONDS,
        clock: Clock = utc_now,
    ) -> Self:
        """Return a client for the stack that the settings describe."""
        return cls(
            settings.broker_url,
            result_url=settings.result_url,
            company=settings.company,
            max_waiting=max_waiting,
            when_full=when_full,
            block_seconds=block_seconds,
            clock=clock,
            levels=Levels(settings),
            disk=broker_disk(settings),
        )

    def store(
        self,
        agent_id: str,
        request: MemoryStoreRequest | Mapping[str, Any],
        *,
        scope: Scope | Mapping[str, Any] | None = None,
        track: bool = True,
    ) -> StoreReceipt:
        """Send one memory, or a mapping of its fields, and return its id.

        An agent that sends far more than any agent makes is loading in bulk, and goes over the bulk lane.

        Raises:
            MemoryInputError: a field breaks a limit, or the session or project that the agent's level asks for is
                missing in ``scope``; nothing was sent.
            MemoryConnectionError: the broker cannot be reached; nothing is known to have been sent.
            MemoryQueueFullError: the queue holds ``max_waiting`` jobs; nothing was sent.
            MemoryDiskFullError: the broker's disk has too little room for more jobs; nothing was sent.
        """
        items = [self._seal(agent_id, checked(MemoryStoreRequest, request, name="request"), scope=scope)]
        return self._send_items(items, queue=self._queue_of(items), track=track)

    def store_many(
        self,
        agent_id: str,
        requests: Iterable[MemoryStoreRequest | Mapping[str, Any]],
        *,
        scope: Scope | Mapping[str, Any] | None = None,
        track: bool = True,
    ) -> StoreReceipt:
        """Send many memories of one agent in few jobs, as store does; all are validated before the first is sent.

        More than 32 travel over the bulk lane, so that no other agent's memory waits behind them.

        Raises:
            MemoryInputError: a field breaks a limit; nothing was sent.
            MemoryConnectionError: the broker cannot be reached; some jobs may have been sent, and sending them again
                writes nothing twice.
            MemoryQueueFullError: the queue has no room for these jobs; with ``block`` some may have been sent.
        """
        made = (checked(MemoryStoreRequest, each, name=at, prefix=at) for at, each in _named("requests", requests))
        items = [self._seal(agent_id, request, scope=scope) for request in made]
        return self._send_items(items, queue=self._queue_of(items), track=track)

    def import_many(self, records: Iterable[ImportRecord | Mapping[str, Any]], *, track: bool = True) -> StoreReceipt:
        """Send memories of any agents, with creation times of their own, over the bulk lane.

        Raises:
            MemoryInputError: a field breaks a limit; nothing was sent.
            MemoryConnectionError: the broker cannot be reached; sending again writes nothing twice.
            MemoryQueueFullError: as for store_many.
        """
        now = self._clock()
        made = (checked(ImportRecord, each, name=at, prefix=at) for at, each in _named("records", records))
        dated = (each.dated(now) for each in made)
        items = [
            self._seal(each.agent_id, each.request(), created_at=each.created_at, scope=each.scope()) for each in dated
        ]
        return self._send_items(items, queue=Queue.STORE_BULK, track=track)

    def record_use(self, uses: Iterable[Use], *, batch_id: str | None = None) -> JobReceipt:
        """Tell which memories agents were shown, up to 1,024 in one call; the job's id is the batch's.

        Hand this method to a BufferedUseRecorder, which calls it in batches, off the hot path.

        Args:
            uses: what was shown.
            batch_id: names this telling; telling it again under the same id counts once. A new one when left out.

        Raises:
            MemoryInputError: there are none or too many; nothing was sent.
            MemoryConnectionError: the broker cannot be reached; send again under the same id.
            MemoryQueueFullError: as for store.
        """
        try:
            payload = UsePayload(company=self._company, batch_id=batch_id or ids.new_id(), uses=tuple(uses))
        except ValidationError as error:
            raise MemoryInputError.of(error) from None
        posting = Posting(
            job_id=payload.batch_id,
            queue=str(Queue.CONTROL),
            payload=payload.model_dump_json(),
            summary=f"{len(payload.uses)} uses",
        )
        self._sender.send_many(TaskName.USE, [posting], track=False, admit=self._admit)
        return JobReceipt(job_id=payload.batch_id)

    def record_experience(
        self, agent_id: str, *, track: bool = True, **fields: Unpack[ExperienceFields]
    ) -> ExperienceReceipt:
        """Send what an agent of level persistent went through, to be kept as it is; a night may compress it.

        Args:
            agent_id: who went through it.
            track: whether the job's outcome can be asked for.
            fields: ``prompt`` and ``output``, and what ExperienceFields has beside them.

        Raises:
            MemoryInputError: a field breaks a limit, all together are larger than 1 MiB, or the agent has another
                level; nothing was sent.
            MemoryConnectionError: the broker cannot be reached; sending again keeps nothing twice.
            MemoryQueueFullError: as for store.
        """
        payload = seal_experience(agent_id, fields, company=self._company, now=self._clock())
        made = payload.experience
        if self._levels is not None:
            self._levels.check_experience(made.agent_id)
        job_id = self._sender.send(
            TaskName.RECORD,
            payload.model_dump_json(),
            queue=Queue.DISTILL,
            job_id=ids.new_id(),
            summary=f"1 experience of {made.agent_id}",
            track=track,
            admit=self._admit,
        )
        return ExperienceReceipt(job_id=job_id, experience_id=made.id)

    def distill(
        self,
        agent_id: str,
        trace: ExecutionTrace | Mapping[str, Any],
        *,
        scope: Scope | Mapping[str, Any] | None = None,
        track: bool = True,
    ) -> DistillReceipt | None:
        """Send how a task went; a memory, a raw experience and a trajectory come of it (docs/explanation/learning.md).

        Call it when a task has ended, however it ended. An engine's task never fails for it: None, with a warning in
        the log, when the trace could not be sent. Sending the same trace again writes nothing twice.

        Args:
            agent_id: who worked on the task.
            trace: how it went, or a mapping of its fields.
            scope: the session or project; its task is the trace's.
            track: whether the job's outcome can be asked for.

        Raises:
            MemoryInputError: a field breaks a limit, the trace is larger than 1 MiB, or the session or project that
                the agent's level asks for is missing in ``scope``; nothing was sent.
        """
        payload = seal_trace(agent_id, trace, company=self._company, now=self._clock(), scope=scope)
        if self._levels is not None:
            self._levels.check_trace(payload)
        return post_trace(self._sender, payload, track=track, admit=self._admit)

    def applied(
        self, agent_id: str, skill_id: str, outcome: ApplicationOutcome, *, task_id: str | None = None
    ) -> AppliedReceipt | None:
        """Tell that an agent did as a skill, or a lesson of its own, says (docs/explanation/learning.md).

        An engine's task never fails for it: None, with a warning in the log, when it could not be sent.

        Args:
            agent_id: who did.
            skill_id: the id under which it was found.
            outcome: how it went, ``success`` or ``failure``.
            task_id: the task in which; the same one applies a skill once, and its first outcome counts. Without it
                each call counts.

        Raises:
            MemoryInputError: a field breaks a limit, or no memory can have such an id; nothing was sent.
        """
        payload = seal_application(
            agent_id, skill_id, outcome, task_id=task_id, company=self._company, now=self._clock()
        )
        return post_application(self._sender, payload, admit=self._admit)

    def status(self, job_id: str) -> JobStatus:
        """Return where a job stands. Raises MemoryConnectionError."""
        return self._sender.status(job_id)

    def finished(self, job_ids: Iterable[str]) -> list[JobStatus]:
        """Look once, and return the status of those jobs that have finished; raises MemoryConnectionError."""
        return self._sender.finished(tuple(job_ids))

    def wait(self, job_ids: Iterable[str], *, timeout_seconds: float) -> Iterator[JobStatus]:
        """Yield each job's status as it finishes; raises MemoryConnectionError, TimeoutError."""
        return self._sender.wait(tuple(job_ids), timeout_seconds=timeout_seconds)

    def close(self) -> None:
        """Close the connections; a closed client opens them again when used."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _sender(self) -> "Sender":
        with self._opening:
            if self._opened is None:
                # Celery and kombu take a quarter of a second to import: an engine pays when it first sends.
                from memcore.client.sender import Sender  # noqa: PLC0415  # see above

                self._opened = Sender(self._broker_url, self._result_url)
            return self._opened

    def _waiting(self, queue: str) -> int:
        return self._sender.waiting(queue)

    @property
    def _admit(self) -> "Admit | None":
        if self._disk is not None:
            refuse_when_low(self._disk, least=FOR_JOBS)
        return self._limit.admit if self._limit else None

    def _seal(
        self,
        agent_id: str,
        request: MemoryStoreRequest,
        *,
        created_at: datetime | None = None,
        scope: Scope | Mapping[str, Any] | None = None,
    ) -> StoreItem:
        now = self._clock()
        item = seal(agent_id, request, company=self._company, sent_at=now, created_at=created_at, scope=scope)
        if self._levels is not None:
            self._levels.check(item)
        return item

    def _queue_of(self, items: Sequence[StoreItem]) -> Queue:
        # From the sealed items, whose agent is checked; with none there is nothing to send, over whichever lane.
        return self._pace.queue(items[0].agent_id, count=len(items)) if items else Queue.STORE_BULK

    def _send_items(self, items: list[StoreItem], *, queue: Queue, track: bool) -> StoreReceipt:
        postings = [
            Posting(job_id=ids.new_id(), queue=str(queue), payload=parcel.payload, summary=f"{parcel.count} memories")
            for parcel in pack(self._company, items)
        ]
        self._sender.send_many(TaskName.STORE, postings, track=track, admit=self._admit)
        return StoreReceipt(
            job_ids=tuple(posting.job_id for posting in postings), memory_ids=tuple(item.id for item in items)
        )


def _named(argument: str, values: Iterable[object]) -> Iterator[tuple[str, object]]:
    return ((f"{argument}.{place}", value) for place, value in enumerate(values))


def broker_disk(settings: "Settings") -> Path | None:
    """Return where the embedded stack's broker keeps its jobs, None where the broker is another one."""
    folder = settings.home / "data" / "broker"
    return folder if urlsplit(settings.broker_url).hostname == "127.0.0.1" and folder.is_dir() else None
