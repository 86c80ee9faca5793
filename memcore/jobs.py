"""The jobs on the wire: queues, payloads with their tasks, versions and limits; and a job's outcomes, as types."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal, Self, Unpack

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError, model_validator
from pydantic_core import PydanticSerializationError

from memcore.errors import MemoryInputError
from memcore.models.base import Frozen, NotBlankStr, is_unsaid
from memcore.models.conversation import CrisisLogRecord, SessionFeedbackRecord
from memcore.models.execution import ExecutionTrace
from memcore.models.experience import DetailedExperience, Reported
from memcore.models.memory import (
    AgentId,
    BoundedTime,
    Key,
    MemoryStoreRequest,
    NewMetadata,
    NoNul,
    OneLine,
    StoredKey,
    StoredOwner,
    is_uuid,
    require_past,
)
from memcore.models.origin import Origin


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
    """Not now (a full disk, a newer payload): run the job again after ``delay``; no attempt is used up."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The outcome of a job that does a part of its work, and whether the next part is to be dispatched at once."""

    outcome: Outcome
    goes_on: bool = False


#: Takes a job's stage and the share of it that is done, 0 to 1, None while unknown. It may be called at any rate, takes
#: no text of a memory, and raises nothing.
ProgressCallback = Callable[[str, float | None], None]


def no_progress(_stage: str, _fraction: float | None) -> None:
    """Report nothing."""


class Queue(StrEnum):
    """A queue's name on the broker."""

    #: Store jobs of older clients, and replayed ones.
    STORE = "memory.store"
    #: Memories from engines, first shard; the hash of an agent's id chooses its shard.
    STORE_0 = "memory.store.0"
    #: Memories from engines, second shard.
    STORE_1 = "memory.store.1"
    #: Memories from engines, third shard.
    STORE_2 = "memory.store.2"
    #: Memories from engines, fourth shard.
    STORE_3 = "memory.store.3"
    #: Imports, and calls with more than 32 memories, so that no engine waits behind them.
    STORE_BULK = "memory.store.bulk"
    #: One agent's maintenance run; the undo of a run; the end of a session, project or task; a restore from the
    #: archive; the removal of one memory.
    MAINTENANCE = "memory.maintenance"
    #: Traces of finished tasks, raw experience and turns of conversations, to be recorded, and deliveries to webhooks;
    #: no job of this queue asks a model.
    DISTILL = "memory.distill"
    #: Jobs that ask a language model: groups to summarise, experience to compress, lessons to draw.
    SYNTHESIS = "memory.synthesis"
    #: Turns of conversations, and ends of sessions, about which a language model is asked.
    EXTRACT = "memory.extract"
    #: Cycles of the skill evolver.
    SKILLS = "memory.skills"
    #: Slices of a reindex, which fills a collection for another embedder.
    REINDEX = "memory.reindex"
    #: Stages of fine-tune runs, which take hours and the GPU.
    FINETUNE = "memory.finetune"
    #: Short jobs that ask no model: tick, sweep, counts of uses and applications.
    CONTROL = "memory.control"


#: The queues of engines' memories, in the order of the hash; a longer list moves agents, which harms nothing, since no
#: order is promised between store jobs.
STORE_SHARDS = (Queue.STORE_0, Queue.STORE_1, Queue.STORE_2, Queue.STORE_3)

#: Memories in one call, or one job, above which it counts as a bulk load: far more than one turn of an agent makes, and
#: an eighth of a write batch, so that what is not bulk never takes long.
BULK_ABOVE = 32


def store_queue(agent_id: str, *, count: int = 1) -> Queue:
    """Return the queue for one agent's memories: the agent's shard, or the bulk queue for a large number of them."""
    if count > BULK_ABOVE:
        return Queue.STORE_BULK
    return STORE_SHARDS[int.from_bytes(_digest(agent_id), "big") % len(STORE_SHARDS)]


def job_owner(company: str, agent_id: str | None = None) -> str:
    """Return the header that names a job's company and agent to the broker, where companies and agents take turns."""
    return f"{_digest(company).hex()}/{_digest(agent_id or '').hex()}"


def _digest(name: str) -> bytes:
    # Not hash(): Python salts it per process, and an agent would wait in another queue from every engine.
    return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()


class BasePayload(Frozen):
    """The base of all payloads; each class declares its task's name on the wire, and the queue of its messages.

    ``class CompressPayload(Payload, task="memory.experience.compress", queue=Queue.SYNTHESIS)``
    """

    task: ClassVar[str] = ""
    queue: ClassVar[Queue]

    #: Fields whose texts no dead letter keeps: a person may have asked in them that nothing be kept.
    unkept: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls, *, task: str = "", queue: Queue | None = None, **settings: Unpack[ConfigDict]) -> None:
        super().__init_subclass__(**settings)
        cls.task = task
        if queue is not None:
            cls.queue = queue


class Payload(BasePayload):
    """The base of the payloads of one company's jobs.

    Attributes:
        company: whose job; the worker serves it with that company's context.
    """

    company: Key


def declared_payloads() -> tuple[type[BasePayload], ...]:
    """Return every payload that declares a task, of the modules that are imported."""
    found, waiting = list[type[BasePayload]](), [BasePayload]
    while waiting:
        below = waiting.pop().__subclasses__()
        waiting += below
        found += [payload for payload in below if payload.task]
    return tuple(found)


class TickPayload(BasePayload, task="memory.control.tick", queue=Queue.CONTROL):
    """What beat sends for a tick: nothing."""


class SweepPayload(BasePayload, task="memory.control.sweep", queue=Queue.CONTROL):
    """What beat sends for a sweep: nothing; a sweep sends one for each other company in turn.

    Attributes:
        company: whose open work to finish; None for all that can be done at once, and the installation's own.
    """

    company: Key | None = None


class ExpirePayload(BasePayload, task="memory.control.expire", queue=Queue.CONTROL):
    """What beat sends for an expiry: nothing."""


class CanaryPayload(BasePayload, task="memory.control.canary", queue=Queue.CONTROL):
    """What beat sends once a minute: nothing; the installation's own company sends one for each other company.

    Attributes:
        company: whose canary; None for the installation's own.
    """

    company: Key | None = None


#: The newest version of payloads that this code knows; an older worker requeues a newer one (SPEC Q3). One carries the
#: least that understands it: 2 restores, 3 fine-tune plans and removals, 4 the canary, 5 origins, 6 those of tasks.
VERSION = 6

#: Most memories in one store job; a longer list is cut into several jobs.
MAX_STORE_ITEMS = 256

#: Largest store job on the wire, in bytes (1 MiB): the broker keeps it in memory until it is acknowledged.
MAX_PAYLOAD_BYTES = 1_048_576

#: Largest message that a worker reads, in bytes (8 MiB): a payload makes at most half of it. A larger one is kept, cut.
MAX_MESSAGE_BYTES = 8_388_608


#: The version of runs that workers of the first one do not understand.
_LEAST_VERSION: Mapping[object, Literal[2, 3]] = {"restore": 2, "remove": 3}


class _Envelope(BaseModel):
    model_config = ConfigDict(extra="ignore")
    version: int = 1


def is_newer(payload: str) -> bool:
    """Return whether newer code than this wrote the payload, so that it must wait for a newer worker."""
    try:
        return _Envelope.model_validate_json(payload).version > VERSION
    except ValidationError:
        return False


class _Owned(BaseModel):
    model_config = ConfigDict(extra="ignore")
    company: Key


def company_of(payload: str) -> str | None:
    """Return the company that the payload names; None where it names none, as beat's do."""
    try:
        return _Owned.model_validate_json(payload).company
    except ValidationError:
        return None


def _require_small(name: str, value: BaseModel) -> None:
    try:
        size = len(value.model_dump_json().encode())
    except PydanticSerializationError:
        raise ValueError(f"{name}: must be valid Unicode text") from None
    if size > MAX_PAYLOAD_BYTES:
        raise ValueError(f"{name}: has {size} bytes as JSON; the limit is {MAX_PAYLOAD_BYTES}")


#: Longest text of a person or an assistant in one turn, in characters.
MAX_TURN_CHARS = 32_768
TurnText = Annotated[str, StringConstraints(max_length=MAX_TURN_CHARS), NoNul]


class StoreItem(Frozen):
    """One memory of a store job.

    Attributes:
        id: deterministic (memcore.ids.memory_id), so that a redelivered message writes nothing new.
        agent_id: the agent whose memory this is; or the canary.
        request: the memory as the caller gave it.
        created_at: when the memory was made; an import may carry an old time.
        sent_at: when the client sent it; a removal after this time wins over a late redelivery.
        session_id: the session that ends a session-level memory.
        project_id: the project that ends a project-level memory.
        task_id: the task that ends a working memory.
        origin: by which channel it came, as its door stamped it; None for an agent's in this installation.
    """

    id: NotBlankStr
    agent_id: StoredOwner
    request: MemoryStoreRequest
    created_at: BoundedTime
    sent_at: BoundedTime
    session_id: Key | None = None
    project_id: Key | None = None
    task_id: Key | None = None
    origin: Origin | None = Field(default=None, exclude_if=is_unsaid)

    @model_validator(mode="after")
    def _ordered_times(self) -> Self:
        if self.request.expires_at is not None and self.request.expires_at < self.created_at:
            raise ValueError("expires_at: lies before created_at")
        require_past("created_at", self.created_at, self.sent_at)
        return self


class _FirstVersion(Payload):
    """What payloads share that have changed in no release.

    Attributes:
        version: the version of this payload.
    """

    version: Literal[1] = 1


class StorePayload(Payload, task="memory.store.write", queue=Queue.STORE):
    """Memories to write, of any agents of one company.

    Attributes:
        version: 4 for the canary's, 5 for those with an origin: older workers requeue them instead of refusing them.
        items: the memories.
    """

    version: Literal[1, 4, 5] = 1
    items: tuple[StoreItem, ...] = Field(min_length=1, max_length=MAX_STORE_ITEMS)


class MaintenancePayload(Payload, task="memory.maintenance.run", queue=Queue.MAINTENANCE):
    """One run: maintenance, an undo, the end of a session, project or task, a restore, or a removal.

    Attributes:
        agent_id: the agent whose memories the run may change.
        run_id: the row of the run; the row is the truth.
        kind: what the run does.
        version: 2 for a restore, 3 for a removal, which older workers requeue; 1 for everything else.
        origin: who asked for the run.
        planned_at: the slot for which the run was planned; of an end, the time of the request, and later memories stay.
        undo_of: the run to undo, for kind "undo".
        allow_large: whether a person has approved a large removal before there was a plan.
        scope_id: the session, project or task that ends, or the memory that returns or is removed.
    """

    agent_id: StoredKey
    run_id: NotBlankStr
    kind: Literal["maintenance", "undo", "end_session", "end_project", "end_task", "restore", "remove"] = "maintenance"
    version: Literal[1, 2, 3] = Field(default_factory=lambda fields: _LEAST_VERSION.get(fields.get("kind")) or 1)
    origin: Literal["scheduled", "manual", "engine"] = "scheduled"
    planned_at: BoundedTime
    undo_of: NotBlankStr | None = None
    allow_large: bool = False
    scope_id: StoredKey | None = None


class DistillPayload(Payload, Reported, task="memory.distill.capture", queue=Queue.DISTILL):
    """One trace of a finished task; as JSON it has at most 1 MiB.

    Attributes:
        agent_id: the agent that did the task.
        trace_id: deterministic (memcore.ids.trace_id); it names the memory, the experience and the trajectory.
        trace: the trace.
        sent_at: when the client sent it; a removal after this time wins over a late redelivery.
        session_id: the session that ends the memory, at level session.
        project_id: the project that ends the memory, at level project.
    """

    agent_id: AgentId
    trace_id: Key
    trace: ExecutionTrace
    sent_at: BoundedTime
    session_id: Key | None = None
    project_id: Key | None = None

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        _require_small("trace", self.trace)
        require_past("trace.ended_at", self.trace.ended_at, self.sent_at)
        return self


#: Limits of tables, broker and terminal, which the reference's model leaves open.
_GIVEN: dict[str, TypeAdapter[Any]] = {
    "id": TypeAdapter(Key),
    "agent_id": TypeAdapter(AgentId),
    "source_task_id": TypeAdapter(Key | None),
    "metadata": TypeAdapter(NewMetadata),
}


class ExperiencePayload(Payload, Reported, task="memory.experience.record", queue=Queue.DISTILL):
    """One raw experience; as JSON it has at most 1 MiB."""

    experience: DetailedExperience

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        for name, given in _GIVEN.items():
            try:
                given.validate_python(getattr(self.experience, name))
            except ValidationError as error:
                raise ValueError(str(MemoryInputError.of(error, prefix=name))) from None
        _require_small("experience", self.experience)
        return self


class CompressPayload(_FirstVersion, task="memory.experience.compress", queue=Queue.SYNTHESIS):
    """One agent whose raw experience waits for a language model."""

    agent_id: StoredKey


class SearchNotesPayload(_FirstVersion, task="memory.notes.write", queue=Queue.SYNTHESIS):
    """One agent whose memories wait for search notes."""

    agent_id: StoredKey


class ChangesPayload(_FirstVersion, task="memory.changes.find", queue=Queue.SYNTHESIS):
    """One agent whose memories wait to be compared with older ones."""

    agent_id: StoredKey


class FineTunePayload(Payload, task="memory.finetune.stage", queue=Queue.FINETUNE):
    """One stage of a fine-tune run.

    Attributes:
        run_id: the run; its row names the next stage.
        plan: the plan as JSON, where an engine starts the run and its row is missing; None for a run that has its row.
        version: 3 with a plan, which older workers requeue; 1 without.
    """

    run_id: Key
    plan: dict[str, Any] | None = None
    version: Literal[1, 3] = Field(default_factory=lambda fields: 1 if fields.get("plan") is None else 3)

    @model_validator(mode="after")
    def _names_a_folder(self) -> Self:
        # A run's files lie in a folder of its name.
        if self.plan is not None and not is_uuid(self.run_id):
            raise ValueError("run_id: must be a UUID where a plan comes with it")
        return self


class ReindexPayload(_FirstVersion, task="memory.reindex.run", queue=Queue.REINDEX):
    """One slice of the company's reindex; the ledger knows which."""


#: How the application of a skill went.
ApplicationOutcome = Literal["success", "failure"]


class LessonPayload(_FirstVersion, task="memory.lessons.draw", queue=Queue.SYNTHESIS):
    """One task whose lesson waits for a language model.

    Attributes:
        agent_id: the agent that did the task.
        lesson_id: the id of the lesson, which is the id of its trajectory.
    """

    agent_id: StoredKey
    lesson_id: StoredKey


class EvolvePayload(_FirstVersion, task="memory.skills.evolve", queue=Queue.SKILLS):
    """One cycle of the skill evolver; its row in the ledger is the truth, and is made from this where it is missing.

    Attributes:
        cycle_id: deterministic (memcore.ids.cycle_id), from the company and the time.
        origin: who asked for the cycle.
        planned_at: the slot, or the time at which a person asked.
    """

    cycle_id: Key
    origin: Literal["scheduled", "manual"] = "scheduled"
    planned_at: BoundedTime


class AppliedPayload(_FirstVersion, task="memory.skills.applied", queue=Queue.CONTROL):
    """One application of a skill, or of an agent's own lesson.

    Attributes:
        agent_id: the agent that applied it.
        application_id: deterministic (memcore.ids.application_id), so that it counts once.
        skill_id: the id under which the agent found it.
        outcome: whether it helped.
        applied_at: when it was applied.
    """

    agent_id: AgentId
    application_id: Key
    skill_id: Key
    outcome: ApplicationOutcome
    applied_at: BoundedTime


class SynthesisPayload(_FirstVersion, task="memory.synthesis.ask", queue=Queue.SYNTHESIS):
    """One group of memories about which a language model is asked.

    Attributes:
        agent_id: the agent whose memories these are.
        run_id: the maintenance run.
        place: the number of the group in its run.
    """

    agent_id: StoredKey
    run_id: NotBlankStr
    place: int = Field(ge=0)


#: Most memories in one job, about 150 KB of JSON.
MAX_USES = 1_024


class Use(Frozen):
    """How often an agent was shown a memory since the last report.

    Attributes:
        agent_id: the agent that was shown the memory; of shared knowledge, not the publisher.
        memory_id: the memory.
        uses: how often.
        last_used_at: when it was shown last.
    """

    agent_id: AgentId
    memory_id: Key
    uses: int = Field(ge=1, le=2**31 - 1)
    last_used_at: BoundedTime


class UsePayload(_FirstVersion, task="memory.use.record", queue=Queue.CONTROL):
    """Uses of memories by any agents of one company.

    Attributes:
        batch_id: the id of this report, so that a job that runs twice counts once.
        uses: the uses.
    """

    batch_id: Key
    uses: tuple[Use, ...] = Field(min_length=1, max_length=MAX_USES)


#: Longest question that is recorded, in characters; a longer one is a document, and no question that comes again.
MAX_QUESTION_CHARS = 1_000

#: Most memories that are recorded of a question, the best ones.
MAX_SHOWN = 40

#: Most questions in one job, about 700 KB of JSON at most.
MAX_QUERIES = 64


class RecordedQuery(Frozen):
    """A question that was asked of an agent's memories, and what was shown.

    Attributes:
        agent_id: the agent.
        question: the question, in one line.
        memory_ids: the memories that were shown, the best ones first; of an archived one its summary too.
        asked_at: when it was asked last.
    """

    agent_id: AgentId
    question: Annotated[NotBlankStr, StringConstraints(max_length=MAX_QUESTION_CHARS), OneLine] = Field(repr=False)
    memory_ids: tuple[Key, ...] = Field(min_length=1, max_length=MAX_SHOWN)
    asked_at: BoundedTime


class QueryPayload(_FirstVersion, task="memory.query.record", queue=Queue.CONTROL):
    """Questions that were asked of any agents of one company."""

    queries: tuple[RecordedQuery, ...] = Field(min_length=1, max_length=MAX_QUERIES)


class TurnPayload(Payload, task="memory.conversation.turn", queue=Queue.DISTILL):
    """One turn of a conversation, to be recorded; no model is asked here.

    Attributes:
        agent_id: the agent that answered.
        subject: whose memory it is (memcore.models.conversation.resolve_owner_id).
        session_id: the session.
        turn_id: deterministic (memcore.ids.turn_id), so that a redelivered message records it once.
        user_text: what the person said.
        assistant_text: what the agent answered; blank where it did not.
        at: when the person said it.
        origin: by which channel the person's words came, as the door stamped it; None for a person's own.
        version: 5 with an origin, which older workers requeue; 1 without.
    """

    agent_id: AgentId
    subject: Key
    session_id: Key
    turn_id: Key
    user_text: TurnText = Field(repr=False)
    assistant_text: TurnText = Field(default="", repr=False)
    at: BoundedTime
    origin: Origin | None = None
    version: Literal[1, 5] = Field(default_factory=lambda fields: 1 if fields.get("origin") is None else 5)

    unkept = frozenset({"user_text", "assistant_text"})


class CloseSessionPayload(_FirstVersion, task="memory.conversation.close", queue=Queue.DISTILL):
    """A session that somebody ends; its work item is made ready, and ends it.

    Attributes:
        agent_id: the agent that the person talked to.
        subject: whose memory it is.
        session_id: the session.
        at: when it was ended.
        is_shutdown: whether nobody asked for the end, and the engine was shut down; the outcome says so.
    """

    agent_id: AgentId
    subject: Key
    session_id: Key
    at: BoundedTime
    is_shutdown: bool = False


class ExtractPayload(_FirstVersion, task="memory.conversation.extract", queue=Queue.EXTRACT):
    """One recorded turn about which a language model is asked.

    Attributes:
        agent_id: the agent.
        turn_id: the turn; its row has the text.
    """

    agent_id: StoredKey
    turn_id: StoredKey


class EndSessionPayload(_FirstVersion, task="memory.conversation.end", queue=Queue.EXTRACT):
    """One session that has ended, by request or because nothing was said for a while.

    Attributes:
        agent_id: the agent.
        session_key: the session (memcore.ids.session_key).
    """

    agent_id: StoredKey
    session_key: StoredKey


class ConversationRecordPayload(_FirstVersion, task="memory.conversation.record", queue=Queue.DISTILL):
    """A crisis that an engine detected, or what somebody thought of a session: exactly one of them.

    Attributes:
        crisis: the record of a crisis.
        feedback: what somebody thought.
    """

    crisis: CrisisLogRecord | None = Field(default=None, repr=False)
    feedback: SessionFeedbackRecord | None = Field(default=None, repr=False)

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.crisis is None) == (self.feedback is None):
            raise ValueError("crisis: give it or feedback, and not both")
        return self


class ErasePayload(_FirstVersion, task="memory.erase.run", queue=Queue.MAINTENANCE):
    """The erasure of an agent, or of a person of its conversations; its work item says which.

    Attributes:
        agent_id: the agent.
        erasure_id: the erasure.
        retire_checkpoints: whether embedders that were trained on agents' memories go, too.
    """

    agent_id: StoredKey
    erasure_id: StoredKey
    retire_checkpoints: bool = False


class DeliverPayload(_FirstVersion, task="memory.webhooks.deliver", queue=Queue.DISTILL):
    """A delivery of an event to a webhook; its row says what is sent to whom.

    Attributes:
        delivery_id: the delivery.
    """

    delivery_id: StoredKey
