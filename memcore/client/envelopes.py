"""The builders of payloads: they fix ids, times and scope once, before anything is sent."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Required, TypedDict, TypeVar

from pydantic import ValidationError

from memcore import ids
from memcore.errors import MemoryInputError
from memcore.jobs.payloads import MAX_PAYLOAD_BYTES, MAX_STORE_ITEMS, DistillPayload, ExperiencePayload, StoreItem
from memcore.models.base import Frozen
from memcore.models.execution import ExecutionTrace
from memcore.models.experience import DetailedExperience
from memcore.models.memory import DETAILED_TAG, AgentId, BoundedTime, Key, MemoryMetadata, MemoryStoreRequest

#: Bytes that a payload takes beside its items: brackets, version, and a company of 256 characters, each escaped.
_FRAME_BYTES = 2_048

Value = TypeVar("Value", bound=Frozen)


class Scope(Frozen):
    """The session, project and task in which a memory was made; what is not persistent ends with them."""

    session_id: Key | None = None
    project_id: Key | None = None
    task_id: Key | None = None


class ImportRecord(MemoryStoreRequest):
    """A memory with its owner and its own creation time: one line of an import file."""

    agent_id: AgentId
    created_at: BoundedTime | None = None
    session_id: Key | None = None
    project_id: Key | None = None
    task_id: Key | None = None

    def dated(self, now: datetime) -> "ImportRecord":
        """Return the record with a creation time, its own or else this one.

        Raises:
            MemoryInputError: it expires before it was created.
        """
        made = self if self.created_at else self.model_copy(update={"created_at": now})
        if self.expires_at is not None and self.expires_at < (made.created_at or now):
            raise MemoryInputError("expires_at", "lies before created_at")
        return made

    def request(self) -> MemoryStoreRequest:
        """Return the part that an agent would have sent."""
        return MemoryStoreRequest.model_construct(
            category=self.category,
            namespace=self.namespace,
            content=self.content,
            metadata=self.metadata,
            expires_at=self.expires_at,
        )

    def scope(self) -> Scope:
        """Return the session, project and task it was made in."""
        return Scope(session_id=self.session_id, project_id=self.project_id, task_id=self.task_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadChunk:
    """A store job on the wire: its payload as JSON, and how many memories it holds."""

    payload: str
    count: int


def checked(model: type[Value], given: object, *, name: str, prefix: str = "") -> Value:
    """Return the caller's value, or mapping of fields, as the model.

    Args:
        model: the model.
        given: a value of it, or a mapping of its fields.
        name: the argument that holds it.
        prefix: stands before the field in an error.

    Raises:
        MemoryInputError: naming the field and the limit.
    """
    if isinstance(given, model):
        return given
    if not isinstance(given, Mapping):
        problem = f"must be a {model.__name__} or a mapping of its fields, and is of type {type(given).__name__}"
        raise MemoryInputError(name, problem)
    try:
        return model.model_validate(dict(given))
    except ValidationError as error:
        raise MemoryInputError.of(error, prefix=prefix) from None


def checked_scope(given: Scope | Mapping[str, Any] | None) -> Scope:
    """Return the scope that a caller gave, if any; raises as ``checked`` does."""
    return Scope() if given is None else checked(Scope, given, name="scope", prefix="scope")


def build_payload(
    agent_id: str,
    request: MemoryStoreRequest,
    *,
    company: str,
    sent_at: datetime,
    created_at: datetime | None = None,
    scope: Scope | Mapping[str, Any] | None = None,
) -> StoreItem:
    """Return the memory in its envelope, with its deterministic id.

    Raises:
        MemoryInputError: naming the field and the limit.
    """
    scope = checked_scope(scope)
    try:
        item = StoreItem(
            id="sealed below",
            agent_id=agent_id,
            request=request,
            created_at=created_at or sent_at,
            sent_at=sent_at,
            session_id=scope.session_id,
            project_id=scope.project_id,
            task_id=scope.task_id,
        )
    except ValidationError as error:
        raise MemoryInputError.of(error) from None
    # From the checked fields: " ada" and "ada" are one agent, and must not have two ids for one text.
    memory_id = ids.memory_id(
        company=company,
        agent_id=item.agent_id,
        category=request.category,
        namespace=request.namespace,
        content=request.content,
        source=request.metadata.source,
    )
    return item.model_copy(update={"id": memory_id})


def chunk_payloads(company: str, items: Iterable[StoreItem]) -> Iterator[PayloadChunk]:
    """Cut the items into payloads that keep the limits on count and bytes; the order stays."""
    batch: list[str] = []
    size = _FRAME_BYTES
    for item in items:
        # The size of the JSON counts: it includes tags, and a control character takes six bytes.
        text = item.model_dump_json()
        weight = len(text.encode()) + 1
        if batch and (len(batch) == MAX_STORE_ITEMS or size + weight > MAX_PAYLOAD_BYTES):
            yield _payload_chunk(company, batch)
            batch, size = [], _FRAME_BYTES
        batch.append(text)
        size += weight
    if batch:
        yield _payload_chunk(company, batch)


def _payload_chunk(company: str, items: Sequence[str]) -> PayloadChunk:
    payload = f'{{"version":1,"company":{json.dumps(company)},"items":[{",".join(items)}]}}'
    return PayloadChunk(payload=payload, count=len(items))


#: Stands for the id until the other fields have been checked.
_UNNAMED = "unnamed"


def build_trace_payload(
    agent_id: str,
    trace: ExecutionTrace | Mapping[str, Any],
    *,
    company: str,
    now: datetime,
    scope: Scope | Mapping[str, Any] | None = None,
) -> DistillPayload:
    """Return the trace in its envelope, with its deterministic id.

    Raises:
        MemoryInputError: naming the field and the limit.
    """
    scope = checked_scope(scope)
    trace = checked(ExecutionTrace, trace, name="trace", prefix="trace")
    try:
        payload = DistillPayload(
            company=company,
            agent_id=agent_id,
            trace_id=_UNNAMED,
            trace=trace,
            sent_at=now,
            session_id=scope.session_id,
            project_id=scope.project_id,
        )
    except ValidationError as error:
        raise MemoryInputError.of(error) from None
    # Without what was left out, so that a field of a later release changes no id.
    trace_id = ids.trace_id(
        company=payload.company, agent_id=payload.agent_id, trace=trace.model_dump_json(exclude_defaults=True)
    )
    return payload.model_copy(update={"trace_id": trace_id})


class ExperienceFields(TypedDict, total=False):
    """The fields of an experience, as an engine gives them.

    Attributes:
        prompt: what the agent was asked.
        output: what it answered.
        verification_feedback: what a check said of the answer.
        reasoning_trace: the steps between, in order.
        task_id: the task it belongs to.
        metadata: source, confidence, tags.
        created_at: when it happened; now when left out.
    """

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
    """Return the experience in its envelope, tagged, with its deterministic id.

    Raises:
        MemoryInputError: naming the field and the limit.
    """
    metadata = fields.get("metadata", MemoryMetadata())
    tags = (DETAILED_TAG, *(tag for tag in metadata.tags if tag != DETAILED_TAG))
    try:
        made = DetailedExperience(
            id=_UNNAMED,
            agent_id=agent_id,
            prompt=fields["prompt"],
            output=fields["output"],
            verification_feedback=fields.get("verification_feedback"),
            reasoning_trace=tuple(fields.get("reasoning_trace", ())),
            metadata=metadata.model_copy(update={"tags": tags}),
            created_at=fields.get("created_at", now),
            source_task_id=fields.get("task_id"),
        )
        payload = ExperiencePayload(company=company, experience=made)
    except ValidationError as error:
        raise MemoryInputError.of(error) from None
    # From the checked fields, as a memory's id.
    experience_id = ids.experience_id(
        company=company,
        agent_id=made.agent_id,
        task_id=made.source_task_id,
        texts=(made.prompt, made.output, made.verification_feedback or "", *made.reasoning_trace),
    )
    return payload.model_copy(update={"experience": made.model_copy(update={"id": experience_id})})


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingJob:
    """A job to publish.

    Attributes:
        queue: where it goes.
        payload: its JSON; never shown in a repr.
        summary: the arguments as monitoring shows them.
    """

    job_id: str
    queue: str
    payload: str = field(repr=False)
    summary: str
