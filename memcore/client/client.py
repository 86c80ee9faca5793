"""``MemoryClient``: sends memories, runs, cycles, fine-tune runs, traces, turns and applications of skills."""

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack
from urllib.parse import urlsplit

from pydantic import TypeAdapter

from memcore import ids
from memcore.client.envelopes import (
    UNNAMED,
    CrisisFields,
    ExperienceFields,
    FeedbackFields,
    ImportRecord,
    LevelChecker,
    OutgoingJob,
    Scope,
    TurnFields,
    build_application_payload,
    build_close_payload,
    build_experience_payload,
    build_payload,
    build_record,
    build_trace_payload,
    build_turn_payload,
    checked,
    store_jobs,
)
from memcore.client.results import (
    AppliedReceipt,
    DistillReceipt,
    ExperienceReceipt,
    JobReceipt,
    JobStatus,
    PendingJobs,
    StoreReceipt,
    TurnReceipt,
)
from memcore.client.throttling import QueueLimit, StoreRateLimiter, WhenFull
from memcore.clock import Clock, utc_now
from memcore.errors import (
    MemoryError,  # noqa: A004  # the reference fixes the name
    MemoryInputError,
)
from memcore.free_space import FOR_JOBS, refuse_when_low
from memcore.jobs import (
    ApplicationOutcome,
    ConversationRecordPayload,
    DistillPayload,
    EvolvePayload,
    ExperiencePayload,
    FineTunePayload,
    MaintenancePayload,
    Payload,
    QueryPayload,
    Queue,
    RecordedQuery,
    StoreItem,
    StorePayload,
    TurnPayload,
    Use,
    UsePayload,
    job_owner,
)
from memcore.models.base import naming_fields
from memcore.models.execution import ExecutionTrace
from memcore.models.finetune import FineTunePlan
from memcore.models.memory import Key, KnownAgentId, MemoryStoreRequest, NewAgentId, require_text
from memcore.models.origin import Origin, current_writer
from memcore.telemetry import tracing
from memcore.telemetry.events import Event
from memcore.telemetry.tracing import Attribute, Attributes

if TYPE_CHECKING:
    from memcore.client.publisher import Admit, JobResults
    from memcore.config.settings import Settings

_log = logging.getLogger(__name__)

_COMPANY: TypeAdapter[str] = TypeAdapter(Key)
_NEW_AGENT: TypeAdapter[str] = TypeAdapter(NewAgentId)
_KNOWN_AGENT: TypeAdapter[str] = TypeAdapter(KnownAgentId)

#: Longest wait for room in a full queue, in seconds: as long as an engine can let a person wait.
BLOCK_SECONDS = 30.0


#: What OpenTelemetry calls the storing of memories, and of what may become one or change one.
CREATE, UPSERT = "create_memory", "upsert_memory"

#: The operation of each job that is an engine's call on memories.
_OPERATIONS = {ExperiencePayload.task: CREATE, DistillPayload.task: UPSERT, TurnPayload.task: UPSERT}


class ClientLimits(TypedDict, total=False):
    """The limits of a client's sending, and its clock, as MemoryClient describes them."""

    max_waiting: int | None
    when_full: WhenFull
    block_seconds: float
    clock: Clock


class ClientOptions(ClientLimits, total=False):
    """What a client takes beside the broker's address, as MemoryClient describes it."""

    broker_may_lose: bool
    result_url: str | None
    company: str
    levels: LevelChecker | None
    disk: Path | None


class MemoryClient:
    """Sends memories and maintenance jobs, and reads their outcomes. Thread-safe; close it when done.

    Every call validates before anything is sent, and returns once the broker holds the job (at-least-once; ids are
    deterministic, so a job that runs twice writes once).

    Args:
        broker_url: where jobs go, as the workers know it.
        broker_may_lose: allow a Redis or Valkey that evicts keys or keeps no append-only file; refused otherwise.
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
        broker_may_lose: bool = False,
        result_url: str | None = None,
        company: str = "default",
        max_waiting: int | None = None,
        when_full: WhenFull = "error",
        block_seconds: float = BLOCK_SECONDS,
        clock: Clock = utc_now,
        levels: LevelChecker | None = None,
        disk: Path | None = None,
    ) -> None:
        with naming_fields(name="company"):
            self._company: str = _COMPANY.validate_python(company)
        # Made without a limit too: it refuses values out of range.
        limit = QueueLimit(
            self._waiting,
            max_waiting=1 if max_waiting is None else max_waiting,
            when_full=when_full,
            block_seconds=block_seconds,
        )
        self._limit = None if max_waiting is None else limit
        self._broker_url = broker_url
        self._broker_may_lose = broker_may_lose
        self._result_url = result_url
        self._clock = clock
        self._levels = levels
        self._disk = disk
        self._rate_limiter = StoreRateLimiter(clock=clock)
        self._opened: JobResults | None = None
        self._opening = threading.Lock()

    @classmethod
    def from_settings(cls, settings: "Settings", **limits: Unpack[ClientLimits]) -> Self:
        """Return a client for the stack that the settings describe."""
        tracing.start(settings.traces, service="engine")
        return cls(
            settings.broker_url,
            broker_may_lose=settings.broker_may_lose,
            result_url=settings.result_url,
            company=settings.company,
            levels=LevelChecker(settings),
            disk=broker_disk(settings),
            **limits,
        )

    def store(
        self,
        agent_id: str,
        request: MemoryStoreRequest | Mapping[str, Any],
        *,
        scope: Scope | Mapping[str, Any] | None = None,
        track: bool = True,
        sent_at: datetime | None = None,
    ) -> StoreReceipt:
        """Send one memory, or a mapping of its fields, and return its id.

        The rate limiter sends the memories of an agent above 16 a second over the bulk queue. With ``track`` the job's
        outcome can be asked for. ``sent_at`` is when it was sent first, where it is sent again: now when left out.

        Raises:
            MemoryInputError: a field breaks a limit, or the session or project that the agent's level asks for is
                missing in ``scope``; nothing was sent.
            MemoryConnectionError: the broker cannot be reached; nothing is known to have been sent.
            MemoryQueueFullError: the queue holds ``max_waiting`` jobs; nothing was sent.
            MemoryDiskFullError: the broker's disk has too little room for more jobs; nothing was sent.
            MemoryBrokerUnsafeError: the broker may lose what it accepts; nothing was sent.
            MemoryBrokerFullError: the broker's memory is full.
        """
        wanted = checked(MemoryStoreRequest, request, name="request")
        items = [self._build_payload(agent_id, wanted, scope=scope, sent_at=sent_at)]
        return self._send_items(items, queue=self._queue_of(items), track=track)

    def store_many(
        self,
        agent_id: str,
        requests: Iterable[MemoryStoreRequest | Mapping[str, Any]],
        *,
        scope: Scope | Mapping[str, Any] | None = None,
        track: bool = True,
        sent_at: datetime | None = None,
    ) -> StoreReceipt:
        """Send many memories of one agent in few jobs, as store does; all are validated before the first is sent.

        More than 32 travel over the bulk queue, so that no other agent's memory waits behind them.

        Raises:
            MemoryInputError: a field breaks a limit; nothing was sent.
            MemoryConnectionError: the broker cannot be reached; some jobs may have been sent, and sending them again
                writes nothing twice.
            MemoryQueueFullError: the queue has no room for these jobs; with ``block`` some may have been sent.
        """
        made = (checked(MemoryStoreRequest, each, name=at, prefix=at) for at, each in _named("requests", requests))
        items = [self._build_payload(agent_id, request, scope=scope, sent_at=sent_at) for request in made]
        return self._send_items(items, queue=self._queue_of(items), track=track)

    def import_many(self, records: Iterable[ImportRecord | Mapping[str, Any]], *, track: bool = True) -> StoreReceipt:
        """Send memories of any agents, with creation times of their own, over the bulk queue; raises as store_many.

        MemoryChannelError for one that names a channel above the writer's; nothing was sent.
        """
        now = self._clock()
        made = (checked(ImportRecord, each, name=at, prefix=at) for at, each in _named("records", records))
        dated = (each.dated(now) for each in made)
        writer = current_writer()
        items = [
            self._build_payload(
                each.agent_id,
                each.request(),
                created_at=each.created_at,
                scope=each.scope(),
                origin=each.stamped(writer),
            )
            for each in dated
        ]
        return self._send_items(items, queue=Queue.STORE_BULK, track=track)

    def maintain_now(self, agent_id: str, *, allow_large: bool = False) -> JobReceipt:
        """Ask for one agent's maintenance now, beside its schedule; the job's id is the run's id.

        ``allow_large`` lets the run merge and remove a large share of the memories without asking a person.
        """
        return self._run(agent_id, allow_large=allow_large)

    def undo(self, agent_id: str, run_id: str) -> JobReceipt:
        """Ask for a run to be undone: what it removed comes back, what it made goes; the job has the undo's run id."""
        return self._run(agent_id, kind="undo", undo_of=require_text(run_id, field="run_id"))

    def restore(self, agent_id: str, entry_id: str) -> JobReceipt:
        """Ask for a memory, by its archival id or its own, to be brought back as it was; the job's id is the run's id.

        The next runs leave it alone for a while, and the run can be undone. A memory that is in the store already
        is left as it is: the job ends as skipped.
        """
        return self._run(agent_id, kind="restore", scope_id=require_text(entry_id, field="entry_id"))

    def end_session(self, agent_id: str, session_id: str) -> JobReceipt:
        """Say that a session has ended: memories that end with it go, and `memtend runs undo` brings it back.

        At level session that is every memory stored in it before this call, also one that is still in the queue; at
        other levels the working ones. Ending it twice, or an unknown one, does nothing.
        """
        return self._run(agent_id, kind="end_session", scope_id=require_text(session_id, field="session_id"))

    def end_project(self, agent_id: str, project_id: str) -> JobReceipt:
        """Say that a project has ended: as end_session, of every memory at the levels session and project."""
        return self._run(agent_id, kind="end_project", scope_id=require_text(project_id, field="project_id"))

    def end_task(self, agent_id: str, task_id: str) -> JobReceipt:
        """Say that a task has ended: its working memories go, whatever the agent's level."""
        return self._run(agent_id, kind="end_task", scope_id=require_text(task_id, field="task_id"))

    def evolve_now(self) -> JobReceipt:
        """Request a cycle of the skill evolver now, beside its schedule; the job's id is the cycle's id.

        It files proposals that wait for a person (docs/explanation/learning.md). While it is switched off, the cycle
        is empty.
        """
        now = self._clock()
        cycle_id = ids.cycle_id(company=self._company, planned_at=now.astimezone(UTC).isoformat())
        payload = EvolvePayload(company=self._company, cycle_id=cycle_id, origin="manual", planned_at=now)
        return self.send(payload, "a cycle of the skill evolver", job_id=cycle_id)

    def finetune(self, plan: FineTunePlan | Mapping[str, Any], *, request_id: str | None = None) -> JobReceipt:
        """Ask for the embedder to be trained on the fleet's own texts; the job's id is the run's id.

        A worker of the group finetune starts the run and carries it out (docs/how-to/fine-tune.md); paths in the plan
        are those of its machine. A client that has only the broker's address sees no other run: the job then ends as
        skipped, and says so. Sending again under the same ``request_id`` starts no second run.

        Raises FineTuneRunActiveError when another run has not ended, and else as store; nothing was sent.
        """
        wanted = checked(FineTunePlan, plan, name="plan")
        if request_id is not None and not require_text(request_id, field="request_id").strip():
            raise MemoryInputError("request_id", "must not be blank")
        with naming_fields():
            run_id = ids.finetune_run_id(company=self._company, cause=request_id or ids.new_id())
            # Without the defaults: a worker of another release has its own, and may not know a field.
            said = wanted.model_dump(mode="json", exclude_defaults=True)
            payload = FineTunePayload(company=self._company, run_id=run_id, plan=said)
        if self._levels is not None:
            self._levels.check_finetune(run_id)
        return self.send(payload, "a fine-tune run", job_id=run_id)

    def record_use(self, uses: Iterable[Use], *, batch_id: str | None = None) -> JobReceipt:
        """Report the memories that agents were shown, up to 1,024 in one call; the job's id is the batch's.

        Hand this method to a BufferedUseRecorder, which calls it in batches, off the hot path. Raises what store
        raises; sending again under the same ``batch_id`` counts nothing twice.
        """
        with naming_fields():
            payload = UsePayload(company=self._company, batch_id=batch_id or ids.new_id(), uses=tuple(uses))
        return self.send(payload, f"{len(payload.uses)} uses", job_id=payload.batch_id, track=False)

    def record_queries(self, queries: Iterable[RecordedQuery]) -> JobReceipt:
        """Report questions that were asked of memories, up to 64 in one call; workers keep them if their policy does.

        Hand this method to a BufferedUseRecorder, as :meth:`record_use`. Raises what store raises; sending the same
        ones again keeps nothing twice.
        """
        with naming_fields():
            payload = QueryPayload(company=self._company, queries=tuple(queries))
        return self.send(payload, f"{len(payload.queries)} questions", track=False)

    def record_experience(
        self, agent_id: str, *, track: bool = True, **fields: Unpack[ExperienceFields]
    ) -> ExperienceReceipt:
        """Send a raw experience of an agent of level persistent, to be kept unchanged; a run may compress it.

        All fields together have at most 1 MiB. Raises what store raises; sending again keeps nothing twice.
        """
        payload = build_experience_payload(agent_id, fields, company=self._company, now=self._clock())
        made = payload.experience
        if self._levels is not None:
            self._levels.check_experience(made.agent_id)
        job_id = self.send(payload, f"1 experience of {made.agent_id}", track=track).job_id
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

        Raises:
            MemoryInputError: a field breaks a limit, the trace is larger than 1 MiB, or the session or project that
                the agent's level asks for is missing in ``scope``; nothing was sent.
        """
        payload = build_trace_payload(agent_id, trace, company=self._company, now=self._clock(), scope=scope)
        if self._levels is not None:
            self._levels.check(payload)
        try:
            job_id = self.send(payload, f"1 trace of {payload.agent_id}", track=track).job_id
        except MemoryError as error:
            _warn(Event.MEMORY_DISTILL_LOST, error, agent_id=payload.agent_id, trace_id=payload.trace_id)
            return None
        return DistillReceipt(job_id=job_id, trace_id=payload.trace_id)

    def applied(
        self, agent_id: str, skill_id: str, outcome: ApplicationOutcome, *, task_id: str | None = None
    ) -> AppliedReceipt | None:
        """Report that an agent applied a skill, or a lesson of its own (docs/explanation/learning.md).

        The same task applies a skill once, and its first outcome counts; without a task each call counts. An engine's
        task never fails for it: None, with a warning in the log, when it could not be sent. Raises MemoryInputError
        when a field breaks a limit, or no memory can have such an id.
        """
        payload = build_application_payload(
            agent_id, skill_id, outcome, task_id=task_id, company=self._company, now=self._clock()
        )
        try:
            job_id = self.send(payload, f"1 application by {payload.agent_id}", track=False).job_id
        except MemoryError as error:
            _warn(Event.MEMORY_SKILLS_APPLIED_LOST, error, agent_id=payload.agent_id, skill_id=skill_id)
            return None
        return AppliedReceipt(job_id=job_id, application_id=payload.application_id)

    def extract_turn(self, agent_id: str, **turn: Unpack[TurnFields]) -> TurnReceipt | None:
        """Send a turn of a conversation, after the reply; a language model draws from it what is worth keeping.

        The memory is that of the user, or of the session where none is named. Sending a turn again under its name
        (``turn``, in its session), or with the same time and texts, keeps nothing twice. Where the person asks not to
        keep something, nothing is kept of it. An engine's reply never fails for it: None, with a warning in the log,
        when it could not be sent.

        Raises:
            MemoryInputError: a field breaks a limit, such as 32,768 characters of a text; nothing was sent.
        """
        payload = build_turn_payload(agent_id, company=self._company, now=self._clock(), **turn)
        try:
            job_id = self.send(payload, f"1 turn of {payload.agent_id}").job_id
        except MemoryError as error:
            _warn(Event.MEMORY_CONVERSATION_TURN_LOST, error, agent_id=payload.agent_id, turn_id=payload.turn_id)
            return None
        return TurnReceipt(job_id=job_id, turn_id=payload.turn_id)

    def end_conversation(
        self,
        agent_id: str,
        *,
        session_id: str,
        user_id: str | None = None,
        at: datetime | None = None,
        is_shutdown: bool = False,
    ) -> JobReceipt | None:
        """Say that a session of a conversation has ended: what it held back is decided, and it gets its summary.

        Give the ``user_id`` that its turns had. A session that nobody ends does so by itself after a while without a
        turn (memory.conversation.idle_minutes); ending it twice does nothing. None, with a warning in the log, when it
        could not be sent. ``is_shutdown`` says that the engine is shut down, and nobody asked for the end. Raises
        MemoryInputError when a field breaks a limit.
        """
        payload = build_close_payload(
            agent_id,
            company=self._company,
            session_id=session_id,
            user_id=user_id,
            at=at or self._clock(),
            is_shutdown=is_shutdown,
        )
        try:
            return self.send(payload, f"the end of a session of {payload.agent_id}")
        except MemoryError as error:
            _warn(Event.MEMORY_CONVERSATION_END_LOST, error, agent_id=payload.agent_id)
            return None

    def record_crisis(self, agent_id: str, **fields: Unpack[CrisisFields]) -> JobReceipt:
        """Send a record of a crisis that the engine detected: it is kept apart from memory, and no prompt shows it.

        ``level`` is concern, high or imminent, ``path`` keyword, model or person, ``action`` what the engine did. It is
        kept whatever the person's recall says. Raises what store raises; sending again under the same ``record_id``
        keeps nothing twice.
        """
        return self._send_record(build_record("crisis", agent_id, company=self._company, now=self._clock(), **fields))

    def record_feedback(self, agent_id: str, **fields: Unpack[FeedbackFields]) -> JobReceipt:
        """Send what somebody thought of a session: kept as record_crisis says, and raises the same.

        ``label`` is helpful, neutral or unhelpful, ``source`` person or engine.
        """
        return self._send_record(build_record("feedback", agent_id, company=self._company, now=self._clock(), **fields))

    def _send_record(self, payload: ConversationRecordPayload) -> JobReceipt:
        kind, made = ("crisis", payload.crisis) if payload.crisis is not None else ("feedback", payload.feedback)
        return self.send(payload, f"1 {kind} record of {'' if made is None else made.agent_id}")

    def send(self, payload: Payload, summary: str = "", *, job_id: str | None = None, track: bool = True) -> JobReceipt:
        """Send the job of a payload on its queue; the other calls build the payloads of memtend's own jobs.

        Monitoring shows the ``summary``, so it holds no text of an agent. Another job under the same ``job_id`` has the
        same outcome. Raises MemoryConnectionError, MemoryQueueFullError, MemoryDiskFullError as store.
        """
        job = OutgoingJob(
            job_id=job_id or ids.new_id(),
            queue=str(payload.queue),
            payload=payload.model_dump_json(),
            summary=summary or payload.task,
            owner=job_owner(payload.company, getattr(payload, "agent_id", None)),
        )
        about = {Attribute.STORE: payload.company, Attribute.QUEUE: job.queue, Attribute.JOB_ID: job.job_id}
        operation = _OPERATIONS.get(payload.task)
        about |= {} if operation is None else {Attribute.OPERATION: operation}
        with tracing.trace(operation or f"send {payload.task}", about, kind="client"):
            self._sender.send_many(payload.task, [job], track=track, admit=self._admit)
        return JobReceipt(job_id=job.job_id)

    def status(self, job_id: str) -> JobStatus:
        """Return the status of a job. Raises MemoryConnectionError."""
        require_text(job_id, field="job_id")
        return self._sender.status(job_id)

    def finished(self, job_ids: Iterable[str]) -> list[JobStatus]:
        """Poll once, and return the status of the jobs that have finished; raises MemoryConnectionError."""
        return [status for status in map(self.status, job_ids) if status.is_finished]

    def wait(self, job_ids: Iterable[str], *, timeout_seconds: float) -> Iterator[JobStatus]:
        """Yield each job's status as it finishes; raises MemoryConnectionError, TimeoutError."""
        pending_jobs = PendingJobs(tuple(job_ids), timeout_seconds=timeout_seconds)
        while pending_jobs.waiting:
            yield from pending_jobs.mark_finished(self.finished(pending_jobs.waiting))
            if pending_jobs.waiting:
                time.sleep(pending_jobs.poll_delay())

    def close(self) -> None:
        """Close the connections; a closed client opens them again when used."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    @property
    def _sender(self) -> "JobResults":
        with self._opening:
            if self._opened is None:
                # Celery and kombu take a quarter of a second to import: an engine pays when it first sends.
                from memcore.client.publisher import JobResults  # noqa: PLC0415  # see above

                self._opened = JobResults(self._broker_url, self._result_url, may_lose=self._broker_may_lose)
            return self._opened

    def _waiting(self, queue: str) -> int:
        return self._sender.waiting(queue)

    @property
    def _admit(self) -> "Admit | None":
        if self._disk is not None:
            refuse_when_low(self._disk, least=FOR_JOBS)
        return self._limit.admit if self._limit else None

    def _run(self, agent_id: str, **wanted: Any) -> JobReceipt:
        """Send one run of an agent; the job's id is the run's id."""
        # A run may give an agent its first row. All other ids name existing things, and an older release took control
        # characters.
        with naming_fields(name="agent_id"):
            (_NEW_AGENT if "kind" not in wanted else _KNOWN_AGENT).validate_python(agent_id)
        now = self._clock()
        with naming_fields():
            payload = MaintenancePayload(
                company=self._company, agent_id=agent_id, run_id=UNNAMED, origin="manual", planned_at=now, **wanted
            )
        # An agent may end two sessions at one moment, and each is a run.
        job = payload.kind if payload.scope_id is None else f"{payload.kind} {payload.scope_id}"
        run_id = ids.run_id(company=self._company, agent_id=payload.agent_id, job=job, planned_at=now.isoformat())
        payload = payload.model_copy(update={"run_id": run_id})
        return self.send(payload, f"{payload.kind} of {payload.agent_id}", job_id=run_id)

    def _build_payload(
        self,
        agent_id: str,
        request: MemoryStoreRequest,
        *,
        created_at: datetime | None = None,
        scope: Scope | Mapping[str, Any] | None = None,
        sent_at: datetime | None = None,
        origin: Origin | None = None,
    ) -> StoreItem:
        item = build_payload(
            agent_id,
            request,
            company=self._company,
            sent_at=sent_at or self._clock(),
            created_at=created_at,
            scope=scope,
            origin=origin,
        )
        if self._levels is not None:
            self._levels.check(item)
        return item

    def _queue_of(self, items: Sequence[StoreItem]) -> Queue:
        # From the built items, whose agent is checked; with none there is nothing to send, over whichever queue.
        return self._rate_limiter.queue(items[0].agent_id, count=len(items)) if items else Queue.STORE_BULK

    def _send_items(self, items: list[StoreItem], *, queue: Queue, track: bool) -> StoreReceipt:
        about: Attributes = {
            Attribute.OPERATION: CREATE,
            Attribute.STORE: self._company,
            Attribute.MEMORIES: len(items),
            Attribute.QUEUE: str(queue),
        }
        with tracing.trace(CREATE, about, kind="client"):
            jobs = list(store_jobs(self._company, items, queue=queue))
            self._sender.send_many(StorePayload.task, jobs, track=track, admit=self._admit)
        return StoreReceipt(job_ids=tuple(job.job_id for job in jobs), memory_ids=tuple(item.id for item in items))


def _warn(lost: Event, error: MemoryError, **about: str) -> None:
    _log.warning(lost, extra={**about, "error": type(error).__name__})


def _named(argument: str, values: Iterable[object]) -> Iterator[tuple[str, object]]:
    return ((f"{argument}.{place}", value) for place, value in enumerate(values))


def broker_disk(settings: "Settings") -> Path | None:
    """Return where the embedded stack's broker keeps its jobs; None where the broker is another one."""
    folder = settings.home / "data" / "broker"
    return folder if urlsplit(settings.broker_url).hostname == "127.0.0.1" and folder.is_dir() else None
