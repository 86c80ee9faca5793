"""The builders of payloads: they fix ids, times and scope once, and refuse at once what every worker would refuse.

What depends on an agent's level, ``LevelChecker`` refuses.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, Required, TypedDict, TypeVar, Unpack

from pydantic import Field, TypeAdapter

from memcore import ids
from memcore.errors import (
    FineTuneRunActiveError,
    MemoryError,  # noqa: A004  # the reference fixes the name
    MemoryInputError,
)
from memcore.jobs import (
    MAX_PAYLOAD_BYTES,
    MAX_STORE_ITEMS,
    ApplicationOutcome,
    AppliedPayload,
    CloseSessionPayload,
    ConversationRecordPayload,
    DistillPayload,
    ExperiencePayload,
    Queue,
    StoreItem,
    TurnPayload,
    job_owner,
)
from memcore.models.base import Frozen, is_unsaid, naming_fields
from memcore.models.conversation import (
    ClassifierPath,
    CrisisLevel,
    CrisisLogRecord,
    FeedbackLabel,
    FeedbackSource,
    SessionFeedbackRecord,
    resolve_owner_id,
)
from memcore.models.execution import ExecutionTrace
from memcore.models.experience import DetailedExperience
from memcore.models.memory import (
    DETAILED_TAG,
    BoundedTime,
    Key,
    MemoryCategory,
    MemoryLevel,
    MemoryMetadata,
    MemoryStoreRequest,
    NewAgentId,
    experience_refusal,
    is_uuid,
    missing_id,
    refusal,
    require_past,
)
from memcore.models.origin import Channel, Origin, Writer, current_writer

if TYPE_CHECKING:
    from memcore.config.settings import Settings
    from memcore.ledger.ledger import Ledger

#: Bytes that a payload takes beside its items: brackets, version, and a company of 256 characters, each escaped.
_FRAME_BYTES = 2_048

#: Stands for an id until the fields that it is derived from have been checked.
UNNAMED = "unnamed"

#: The name that an engine gives a turn.
_NAME: TypeAdapter[str] = TypeAdapter(Key)

#: The agent whose memory a caller stores.
_AGENT: TypeAdapter[str] = TypeAdapter(NewAgentId)

#: The steps of a model's reasoning.
_TRACE: TypeAdapter[tuple[str, ...]] = TypeAdapter(tuple[str, ...])

Value = TypeVar("Value", bound=Frozen)
Item = TypeVar("Item")


class Scope(Frozen):
    """The session, project and task in which a memory was made; what is not persistent ends with them."""

    session_id: Key | None = None
    project_id: Key | None = None
    task_id: Key | None = None


def _require_past(name: str, at: datetime | None, now: datetime) -> None:
    try:
        require_past(name, at or now, now)
    except ValueError as error:
        raise MemoryInputError(name, str(error).removeprefix(f"{name}: ")) from None


class ImportRecord(MemoryStoreRequest):
    """A memory with its owner and its own creation time: one line of an import file.

    Attributes:
        id: the id that it had where it comes from, by which others of the file may name it in ``supersedes``.
        origin: by which channels it came there; one that the writer may not claim is refused.
    """

    id: Key | None = None
    agent_id: NewAgentId
    created_at: BoundedTime | None = None
    session_id: Key | None = None
    project_id: Key | None = None
    task_id: Key | None = None
    origin: Origin | None = Field(default=None, exclude_if=is_unsaid)

    def dated(self, now: datetime) -> "ImportRecord":
        """Return the record with a creation time, its own or else this one; MemoryInputError when it expires before."""
        made = self if self.created_at else self.model_copy(update={"created_at": now})
        _require_past("created_at", made.created_at, now)
        if self.expires_at is not None and self.expires_at < (made.created_at or now):
            raise MemoryInputError("expires_at", "lies before created_at")
        return made

    def request(self) -> MemoryStoreRequest:
        """Return the part that an agent would have sent."""
        return MemoryStoreRequest.model_construct(
            **{name: getattr(self, name) for name in MemoryStoreRequest.model_fields}
        )

    def stamped(self, writer: Writer) -> Origin:
        """Return the origin that it has once this writer has imported it. Raises MemoryChannelError."""
        return writer.imported(self.origin) if self.channel is None else writer.origin(self.channel)

    def scope(self) -> Scope:
        """Return the session, project and task it was made in."""
        return Scope(session_id=self.session_id, project_id=self.project_id, task_id=self.task_id)


def checked(model: type[Value], given: object, *, name: str, prefix: str = "") -> Value:
    """Return the caller's argument ``name``, or mapping of fields, as the model; raises MemoryInputError."""
    if isinstance(given, model):
        return given
    if not isinstance(given, Mapping):
        problem = f"must be a {model.__name__} or a mapping of its fields, and is of type {type(given).__name__}"
        raise MemoryInputError(name, problem)
    with naming_fields(prefix=prefix):
        return model.model_validate(dict(given))


def checked_scope(given: Scope | Mapping[str, Any] | None) -> Scope:
    """Return the scope that a caller gave, if any; raises as ``checked`` does."""
    return Scope() if given is None else checked(Scope, given, name="scope", prefix="scope")


def _new_agent(agent_id: str) -> str:
    # Not in the jobs themselves: a worker takes what an older engine has sent.
    with naming_fields(name="agent_id"):
        return _AGENT.validate_python(agent_id)


def build_payload(
    agent_id: str,
    request: MemoryStoreRequest,
    *,
    company: str,
    sent_at: datetime,
    created_at: datetime | None = None,
    scope: Scope | Mapping[str, Any] | None = None,
    origin: Origin | None = None,
) -> StoreItem:
    """Return the memory in its envelope, with its deterministic id; raises MemoryInputError, as all builders here.

    Its origin is that of the current writer, or the given one of an import. Raises MemoryChannelError for a channel
    that the writer may not claim.
    """
    origin = current_writer().origin(request.channel) if origin is None else origin
    ends_with = checked_scope(scope).model_dump()
    # An envelope may hold the canary's memory, too; no caller sends one.
    agent_id = _new_agent(agent_id)
    with naming_fields():
        item = StoreItem(
            id=UNNAMED,
            agent_id=agent_id,
            request=request.model_copy(update={"channel": None}) if request.channel is not None else request,
            created_at=created_at or sent_at,
            sent_at=sent_at,
            # An older worker takes no job that names one.
            origin=None if origin.is_own else origin,
            **ends_with,
        )
    # A version of a keyed memory is one by its time, too: a value that comes back is no redelivery of the first.
    version = () if request.key is None else (f"sent {sent_at.timestamp()!r}",)
    # From the checked fields: " ada" and "ada" are one agent, and must not have two ids for one text.
    memory_id = ids.memory_id(
        company=company,
        agent_id=item.agent_id,
        category=request.category,
        namespace=request.namespace,
        content=request.content,
        source=request.metadata.source,
        holding=(*request.holding, *version, *origin.part_of_id),
    )
    return item.model_copy(update={"id": memory_id})


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingJob:
    """A job to publish: its payload as JSON, its summary for monitoring, its owner as ``job_owner`` writes it."""

    job_id: str
    queue: str
    payload: str = field(repr=False)
    summary: str
    owner: str = ""


def portions(items: Iterable[Item], *, size: Callable[[Item], int], most: int, most_size: int) -> Iterator[list[Item]]:
    """Cut the items into portions that keep both limits; the order stays, and a giant goes alone."""
    portion: list[Item] = []
    taken = 0
    for item in items:
        own = size(item)
        if portion and (len(portion) == most or taken + own > most_size):
            yield portion
            portion, taken = [], 0
        portion.append(item)
        taken += own
    if portion:
        yield portion


def store_jobs(company: str, items: Iterable[StoreItem], *, queue: Queue) -> Iterator[OutgoingJob]:
    """Cut the items into jobs whose payloads keep the limits on count and bytes; the order stays."""
    # The size of the JSON counts, and its comma: it includes tags, and a control character takes six bytes.
    texts = ((item.agent_id, item.model_dump_json(), item.origin is not None) for item in items)
    room = MAX_PAYLOAD_BYTES - _FRAME_BYTES
    for batch in portions(texts, size=lambda text: len(text[1].encode()) + 1, most=MAX_STORE_ITEMS, most_size=room):
        version = 5 if any(has_origin for _, _, has_origin in batch) else 1
        texts_of = ",".join(text for _, text, _ in batch)
        payload = f'{{"version":{version},"company":{json.dumps(company)},"items":[{texts_of}]}}'
        yield OutgoingJob(
            job_id=ids.new_id(),
            queue=str(queue),
            payload=payload,
            summary=f"{len(batch)} memories",
            # An import's job may hold memories of many agents, and any of them will do.
            owner=job_owner(company, batch[0][0]),
        )


def build_trace_payload(
    agent_id: str,
    trace: ExecutionTrace | Mapping[str, Any],
    *,
    company: str,
    now: datetime,
    scope: Scope | Mapping[str, Any] | None = None,
) -> DistillPayload:
    """Return the trace in its envelope, with its deterministic id; its task is its own, not the scope's.

    Raises MemoryChannelError for a key that may claim less than an agent's: memories and lessons come of a trace.
    """
    origin = current_writer().origin(Channel.AGENT)
    ends_with = checked_scope(scope).model_dump(exclude={"task_id"})
    trace = checked(ExecutionTrace, trace, name="trace", prefix="trace")
    agent_id = _new_agent(agent_id)
    with naming_fields():
        payload = DistillPayload(
            company=company,
            agent_id=agent_id,
            trace_id=UNNAMED,
            trace=trace,
            sent_at=now,
            origin=None if origin.is_own else origin,
            **ends_with,
        )
    trace_id = ids.trace_id(
        company=payload.company,
        agent_id=payload.agent_id,
        # Without what was left out, so that a field of a later release changes no id.
        trace=trace.model_dump_json(exclude_defaults=True),
        holding=origin.part_of_id,
    )
    return payload.model_copy(update={"trace_id": trace_id})


def build_application_payload(
    agent_id: str, skill_id: str, outcome: ApplicationOutcome, *, task_id: str | None, company: str, now: datetime
) -> AppliedPayload:
    """Return the application in its envelope; the same task of the same agent applies a skill once."""
    if not is_uuid(skill_id):
        raise MemoryInputError("skill_id", "must be the id under which the skill or lesson was found: a UUID")
    agent_id = _new_agent(agent_id)
    with naming_fields():
        cause = Scope(task_id=task_id).task_id or ids.new_id()
        payload = AppliedPayload(
            company=company,
            agent_id=agent_id,
            application_id=UNNAMED,
            skill_id=skill_id,
            outcome=outcome,
            applied_at=now,
        )
    application_id = ids.application_id(
        company=payload.company, agent_id=payload.agent_id, skill_id=skill_id, cause=cause
    )
    return payload.model_copy(update={"application_id": application_id})


class TurnFields(TypedDict, total=False):
    """A turn of a conversation.

    Attributes:
        session_id: the session it is of.
        user_text: what the person said.
        assistant_text: what the agent answered.
        user_id: the person; the session stands for one where nobody is named.
        turn: the engine's name for it, under which it counts once.
        at: when it was; now when left out.
    """

    session_id: Required[str]
    user_text: Required[str]
    assistant_text: str
    user_id: str | None
    turn: str | None
    at: datetime | None


def build_turn_payload(agent_id: str, *, company: str, now: datetime, **turn: Unpack[TurnFields]) -> TurnPayload:
    """Return the turn in its envelope; its id is made of its name, or else of its time and its texts.

    Raises MemoryChannelError for a key that may claim less than an agent's, who says what a person said.
    """
    origin = current_writer().spoken()
    for missing in sorted(TurnFields.__required_keys__ - turn.keys()):
        raise MemoryInputError(missing, "is missing")
    for unknown in turn.keys() - TurnFields.__annotations__.keys():
        raise MemoryInputError(unknown, "is not a field of a turn")
    agent_id = _new_agent(agent_id)
    at, user_id, name = turn.get("at") or now, turn.get("user_id"), turn.get("turn")
    close = build_close_payload(agent_id, company=company, session_id=turn["session_id"], user_id=user_id, at=at)
    with naming_fields(name="turn"):
        named = None if name is None else _NAME.validate_python(name)
    with naming_fields():
        payload = TurnPayload(
            **close.model_dump(exclude={"version", "is_shutdown"}),
            turn_id=UNNAMED,
            user_text=turn["user_text"],
            assistant_text=turn.get("assistant_text", ""),
            origin=origin,
        )
    if not payload.user_text.strip():
        raise MemoryInputError("user_text", "must not be blank")
    said = "\n".join((payload.at.astimezone(UTC).isoformat(), payload.user_text, payload.assistant_text))
    turn_id = ids.turn_id(
        company=payload.company,
        agent_id=payload.agent_id,
        subject=payload.subject,
        session_id=payload.session_id,
        turn=named or said,
    )
    return payload.model_copy(update={"turn_id": turn_id})


def build_close_payload(
    agent_id: str, *, company: str, session_id: str, user_id: str | None, at: datetime, is_shutdown: bool = False
) -> CloseSessionPayload:
    """Return the end of a session in its envelope."""
    with naming_fields():
        # The session stands alone where nobody is named, and is checked in either case.
        session = Scope(session_id=session_id).session_id or ""
        subject = resolve_owner_id(user_id=user_id, session_id=session)
        return CloseSessionPayload(
            company=company,
            agent_id=agent_id,
            subject=subject,
            session_id=session,
            at=at,
            is_shutdown=is_shutdown,
        )


class _RecordFields(TypedDict, total=False):
    session_id: Required[str]
    user_id: str | None
    at: datetime | None
    record_id: str | None


class CrisisFields(_RecordFields):
    """What an engine says of a crisis that it detected, as CrisisLogRecord names it."""

    level: CrisisLevel | str
    path: ClassifierPath | str
    action: str


class FeedbackFields(_RecordFields, total=False):
    """What somebody thought of a session, as SessionFeedbackRecord names it."""

    label: Required[FeedbackLabel | str]
    source: Required[FeedbackSource | str]
    comment: str


def build_record(
    kind: Literal["crisis", "feedback"],
    agent_id: str,
    *,
    company: str,
    now: datetime,
    session_id: str,
    user_id: str | None = None,
    at: datetime | None = None,
    record_id: str | None = None,
    **fields: Any,
) -> ConversationRecordPayload:
    """Return a crisis, or what somebody thought of a session, in its envelope; the fields are those of its kind."""
    close = build_close_payload(agent_id, company=company, session_id=session_id, user_id=user_id, at=at or now)
    return build_record_payload(kind, fields, close, record_id=record_id)


def build_record_payload(
    kind: Literal["crisis", "feedback"],
    fields: Mapping[str, Any],
    close: CloseSessionPayload,
    *,
    record_id: str | None,
) -> ConversationRecordPayload:
    """Return a record of a session in its envelope."""
    of = {name: getattr(close, name) for name in ("agent_id", "subject", "session_id", "at")}
    with naming_fields():
        given = {"record_id": record_id or ids.new_id(), **of, **fields}
        model = CrisisLogRecord if kind == "crisis" else SessionFeedbackRecord
        record = model.model_validate(given)
        payload = ConversationRecordPayload.model_validate({"company": close.company, kind: record})
    _require_past("at", record.at, close.at)
    return payload


class ExperienceFields(TypedDict, total=False):
    """The fields of an experience, as an engine gives them, with the meaning that DetailedExperience names."""

    prompt: Required[str]
    output: Required[str]
    verification_feedback: str | None
    reasoning_trace: Iterable[str]
    task_id: str | None
    metadata: MemoryMetadata
    created_at: datetime


def build_experience_payload(
    agent_id: str, fields: ExperienceFields, *, company: str, now: datetime
) -> ExperiencePayload:
    """Return the experience in its envelope, tagged, with its deterministic id; MemoryChannelError as a trace's."""
    origin = current_writer().origin(Channel.AGENT)
    for name in fields.keys() - ExperienceFields.__annotations__.keys():
        raise MemoryInputError(name, "is not a known field")
    for name in ExperienceFields.__required_keys__ - fields.keys():
        raise MemoryInputError(name, "is missing")
    metadata = checked(MemoryMetadata, fields.get("metadata", {}), name="metadata", prefix="metadata")
    tags = (DETAILED_TAG, *(tag for tag in metadata.tags if tag != DETAILED_TAG))
    with naming_fields(name="reasoning_trace"):
        trace = _TRACE.validate_python(fields.get("reasoning_trace", ()))
    agent_id = _new_agent(agent_id)
    with naming_fields():
        made = DetailedExperience(
            id=UNNAMED,
            agent_id=agent_id,
            prompt=fields["prompt"],
            output=fields["output"],
            verification_feedback=fields.get("verification_feedback"),
            reasoning_trace=trace,
            metadata=metadata.model_copy(update={"tags": tags}),
            created_at=fields.get("created_at", now),
            source_task_id=fields.get("task_id"),
        )
        payload = ExperiencePayload(company=company, experience=made, origin=None if origin.is_own else origin)
    _require_past("created_at", made.created_at, now)
    # From the checked fields, as a memory's id.
    experience_id = ids.experience_id(
        company=company,
        agent_id=made.agent_id,
        task_id=made.source_task_id,
        texts=(made.prompt, made.output, made.verification_feedback or "", *made.reasoning_trace, *origin.part_of_id),
    )
    return payload.model_copy(update={"experience": made.model_copy(update={"id": experience_id})})


#: Seconds for which a level is cached: a changed level takes effect within this time.
REMEMBERED_SECONDS = 60.0


class LevelChecker:
    """Refuses memories without the id that their agent's level requires, and a second fine-tune run.

    The policy holds the company's level, and the ledger an agent's own, which wins. The ledger is asked only about
    memories that the company's level refuses: no engine waits for a database with each memory. A memory of an agent
    whose level is unknown is sent: the worker decides, and keeps as a dead letter what it may not store; ``wait`` says
    why.
    """

    def __init__(self, settings: "Settings", *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._monotonic = monotonic
        # Until when each agent's level is believed, and the level; None stands for the company.
        self._known: dict[str | None, tuple[float, MemoryLevel | None]] = {}

    def check(self, scoped: StoreItem | DistillPayload) -> None:
        """Return if the memory, or that of the trace, may be sent. Raises MemoryInputError naming the missing id."""
        if scoped.session_id is not None and scoped.project_id is not None:
            return
        category = scoped.request.category if isinstance(scoped, StoreItem) else MemoryCategory.EPISODIC

        def missing(level: MemoryLevel) -> str | None:
            return missing_id(level, category=category, session_id=scoped.session_id, project_id=scoped.project_id)

        field = self._refused(scoped.agent_id, missing)
        if field:
            raise MemoryInputError(field, refusal(field))

    def check_experience(self, agent_id: str) -> None:
        """Return if an experience of this agent may be sent. Raises MemoryInputError, saying what to change."""
        refused = self._refused(agent_id, experience_refusal)
        if refused:
            field, _, problem = refused.partition(": ")
            raise MemoryInputError(field, problem)

    def check_finetune(self, run_id: str) -> None:
        """Return if a fine-tune run may be asked for. Raises FineTuneRunActiveError while another has not ended."""
        try:
            with self._ledger() as ledger:
                rows, company = ledger.finetune_runs, self._settings.company
                is_refused = rows.active(company) is not None and rows.get(company, run_id) is None
        except MemoryError:
            return
        if is_refused:
            raise FineTuneRunActiveError("a run has not ended: see `memtend finetune status`, or cancel it")

    def _refused(self, agent_id: str, why: Callable[[MemoryLevel], str | None]) -> str | None:
        level = self._level(None, self._read_company)
        if level is None or why(level) is None:
            return None
        own = self._level(agent_id, lambda: self._read_agent(agent_id, level))
        return None if own is None else why(own)

    def _level(self, agent_id: str | None, read: Callable[[], MemoryLevel | None]) -> MemoryLevel | None:
        now = self._monotonic()
        known = self._known.get(agent_id)
        if known is None or known[0] <= now:
            # Agents that are no longer asked about must not be kept for as long as the engine lives.
            self._known = {key: value for key, value in self._known.items() if value[0] > now}
            known = self._known[agent_id] = (now + REMEMBERED_SECONDS, read())
        return known[1]

    def _read_company(self) -> MemoryLevel | None:
        try:
            # An engine imports YAML when it first sends, or not at all: it may be installed without it.
            from memcore.config.loader import effective_policy  # noqa: PLC0415  # see above

            return effective_policy(self._settings.policy_path).memory.level
        except (MemoryError, ImportError):
            return None

    def _read_agent(self, agent_id: str, otherwise: MemoryLevel) -> MemoryLevel | None:
        try:
            with self._ledger() as ledger:
                own = ledger.agents.levels(self._settings.company, [agent_id])
        except (MemoryError, ImportError):
            return None
        return own.get(agent_id, otherwise)

    def _ledger(self) -> "closing[Ledger]":
        from memcore.ledger.ledger import Ledger  # noqa: PLC0415  # few engines need a database, or have its library

        return closing(Ledger.open(self._settings.ledger_urls))
