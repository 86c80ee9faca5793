"""Memories of an agent: store and search them, prepare a prompt; list, read, change and forget single ones."""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Path, Query
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import AwareDatetime, BaseModel, TypeAdapter
from starlette.responses import Response

from memcore.backends.protocol import MAX_PAGE
from memcore.client.envelopes import build_payload, checked
from memcore.client.results import StoreReceipt
from memcore.errors import MemoryNotFoundError
from memcore.memory.fields import WAIT_SECONDS, named_as_given, split_fields
from memcore.models.asking import EVENT_OF, Answer, AskEvent
from memcore.models.attributes import MAX_ATTRIBUTE_BYTES, AttributeFilter
from memcore.models.base import naming_fields
from memcore.models.memory import MAX_KEY_CHARS, MemoryCategory, MemoryStoreRequest
from memcore.models.memory_changes import ForgetReceipt
from ops.http.access import CurrentCaller, ReadAgent, WriteAgent
from ops.http.context import CompanyService, Service, Serving
from ops.http.idempotency import Repeated
from ops.http.models import (
    AskBody,
    BatchBody,
    ContextBody,
    ForgetBody,
    Found,
    MemoryView,
    Name,
    Namespaces,
    Page,
    Prepared,
    SearchBody,
    StoreBody,
    Stored,
    UpdateBody,
    Versions,
)

router = APIRouter(prefix="/v1/agents/{agent_id}", tags=["memories"])

_FILTER: TypeAdapter[AttributeFilter] = TypeAdapter(AttributeFilter)

#: Whether to answer once what was stored can be found.
Wait = Annotated[bool, Query(description="Answer 201 once it can be found, instead of 202 at once.")]

#: A memory's id in a path.
MemoryId = Annotated[
    str, Path(min_length=1, max_length=MAX_KEY_CHARS, description="The memory's id, or that of an older version.")
]

#: The version that is to be changed.
IfMatch = Annotated[
    str | None, Header(max_length=MAX_KEY_CHARS, description="The id of the version that is meant, or * for any.")
]

#: The page to go on with.
Cursor = Annotated[str | None, Query(max_length=4_096, description="The cursor of the page before.")]

#: Any of several values of a filter.
AnyOf = Annotated[list[Name] | None, Query(description="Any of these; give it again for more.")]


@router.post("/memories", status_code=202, response_model=Stored, responses={201: {"model": Stored}})
async def store(
    agent_id: WriteAgent,
    body: StoreBody,
    service: Service,
    serving: Serving,
    repeated: Repeated,
    *,
    wait: Wait = False,
    if_none_match: Annotated[
        Literal["*"] | None, Header(description="With a key: 409 where it has a memory already.")
    ] = None,
) -> Response:
    """Store a memory: a worker writes it within milliseconds. The same text of the same agent is written once."""
    request, scope = split_fields(body.given())

    async def act(at: datetime) -> tuple[int, BaseModel]:
        with named_as_given():
            wanted = {**request, "content": body.content}
            if if_none_match is not None:
                new = checked(MemoryStoreRequest, wanted, name="request")
                item = build_payload(agent_id, new, company=service.company, sent_at=at, scope=scope)
                await (await service.memories.kept()).reserve(item)
            receipt = await service.client.store(agent_id, wanted, scope=scope, sent_at=at)
        return await _stored(receipt, agent_id, service, serving, wait=wait)

    return await repeated.answer(act)


@router.post("/memories:batch", status_code=202, response_model=Stored, responses={201: {"model": Stored}})
async def store_many(
    agent_id: WriteAgent, body: BatchBody, service: Service, serving: Serving, repeated: Repeated, *, wait: Wait = False
) -> Response:
    """Store up to 256 memories of the agent; all are checked before the first is sent."""
    scope = body.model_dump(exclude_unset=True, exclude={"memories"})
    requests = [{**split_fields(each.given())[0], "content": each.content} for each in body.memories]

    async def act(at: datetime) -> tuple[int, BaseModel]:
        with named_as_given():
            receipt = await service.client.store_many(agent_id, requests, scope=scope, sent_at=at)
        return await _stored(receipt, agent_id, service, serving, wait=wait)

    return await repeated.answer(act)


@router.post("/search")
async def search(agent_id: ReadAgent, body: SearchBody, service: Service) -> Found:
    """Return the memories that match by meaning and by words, best first; without a text the newest first."""
    given = body.model_dump(exclude={"text"}, exclude_unset=True)
    found = await service.engine.search(agent_id, body.text, **given)
    return Found(memories=tuple(map(MemoryView.of, found)))


@router.post("/ask")
async def ask(agent_id: ReadAgent, body: AskBody, service: Service) -> Answer:
    """Answer a question in a few sentences, each with the ids of the memories that bear it out.

    ``answered_by`` is ``passages`` where no model answered, and ``nothing`` where it is not known; ``reason`` says why.
    """
    return await service.engine.ask(agent_id, body.question, **body.fields())


async def answer_parts(agent_id: ReadAgent, body: AskBody, service: Service) -> AsyncIterator[AskEvent]:
    """Return the parts of an answer; what cannot be found is a problem, before the first event."""
    return await service.engine.ask_stream(agent_id, body.question, **body.fields())


@router.post("/ask/events", response_class=EventSourceResponse)
async def ask_events(
    parts: Annotated[AsyncIterator[AskEvent], Depends(answer_parts)],
) -> AsyncIterator[ServerSentEvent]:
    """Answer as ``/ask`` does, in events: ``passages`` once they are found, each ``sentence``, and the ``answer``."""
    async for part in parts:
        yield ServerSentEvent(event=EVENT_OF[type(part)], data=part)


@router.post("/context")
async def context(agent_id: ReadAgent, body: ContextBody, service: Service) -> Prepared:
    """Return the messages to put between the system prompt and the task: policies, directive, memories."""
    messages = await service.engine.prepare(agent_id, **body.model_dump())
    return Prepared(messages=messages, degraded=messages.degraded)


@router.get("/memories")
async def list_memories(
    agent_id: ReadAgent,
    service: Service,
    *,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 100,
    cursor: Cursor = None,
    namespace: AnyOf = None,
    category: Annotated[list[MemoryCategory] | None, Query(description="Any of these.")] = None,
    tag: Annotated[list[Name] | None, Query(description="All of these.")] = None,
    key: AnyOf = None,
    attributes: Annotated[
        str | None, Query(max_length=MAX_ATTRIBUTE_BYTES, description="Values that attributes must have, as JSON.")
    ] = None,
    since: Annotated[AwareDatetime | None, Query(description="Created then or later.")] = None,
    until: Annotated[AwareDatetime | None, Query(description="Created before then.")] = None,
    expires_by: Annotated[AwareDatetime | None, Query(description="Expires then or earlier.")] = None,
    session_id: Annotated[Name | None, Query(description="Stored in this session.")] = None,
) -> Page:
    """Return memories that meet all filters, oldest first, a page at a time."""
    with naming_fields(name="attributes"):
        values = None if attributes is None else _FILTER.validate_json(attributes)
    page = await service.engine.list(
        agent_id,
        limit=limit,
        cursor=cursor,
        namespaces=namespace,
        categories=category,
        tags=tag or (),
        keys=key,
        attributes=values,
        since=since,
        until=until,
        expires_by=expires_by,
        session_id=session_id,
    )
    return Page(memories=tuple(map(MemoryView.of, page.entries)), cursor=page.cursor)


@router.get("/namespaces")
async def namespaces(agent_id: ReadAgent, service: Service) -> Namespaces:
    """Return the namespaces in which the agent has memories."""
    return Namespaces(namespaces=await service.engine.namespaces(agent_id))


@router.get("/memories/{memory_id}")
async def get(agent_id: ReadAgent, memory_id: MemoryId, service: Service, response: Response) -> MemoryView:
    """Return one memory; the id of an old version leads to the one of today. The ETag is the version's id."""
    found = await service.engine.get(agent_id, memory_id)
    if found is None:
        raise _unknown()
    response.headers["ETag"] = f'"{found.id}"'
    return MemoryView.of(found)


@router.patch("/memories/{memory_id}")
async def update(
    agent_id: WriteAgent,
    memory_id: MemoryId,
    body: UpdateBody,
    service: Service,
    response: Response,
    if_match: IfMatch = None,
) -> MemoryView:
    """Change a memory at once, and return its new version; the one before is journaled, and can be undone.

    409 where another version is there than If-Match names; without it, than the path names.
    """
    fields: dict[str, Any] = body.model_dump(exclude_unset=True)
    with named_as_given():
        entry = await service.engine.update(agent_id, memory_id, expected=_version(if_match), **fields)
    response.headers["ETag"] = f'"{entry.id}"'
    return MemoryView.of(entry)


@router.delete("/memories/{memory_id}")
async def forget_one(
    agent_id: WriteAgent, memory_id: MemoryId, service: Service, caller: CurrentCaller, if_match: IfMatch = None
) -> ForgetReceipt:
    """Forget a memory: it is journaled, never written again, and undone by its run."""
    receipt = await service.memories.forget(agent_id, memory_id, by=caller.name, expected=_version(if_match))
    if not receipt.forgotten:
        raise _unknown()
    return receipt


@router.post("/memories:forget", response_model=ForgetReceipt)
async def forget(
    agent_id: WriteAgent, body: ForgetBody, service: Service, caller: CurrentCaller, repeated: Repeated
) -> Response:
    """Forget memories by their ids, by filters, or all of the agent, in one run that can be undone."""
    filters: dict[str, Any] = body.model_dump(exclude_none=True, exclude={"memory_ids", "everything", "expected"})

    async def act(at: datetime) -> tuple[int, BaseModel]:
        if filters:
            # Done again after a crash, it must not forget what was stored since.
            filters["until"] = min(filters.get("until", at), at)
        receipt = await service.memories.forget(
            agent_id,
            body.memory_ids,
            everything=body.everything is not None,
            expected=body.expected,
            by=caller.name,
            **filters,
        )
        return 200, receipt

    return await repeated.answer(act)


@router.get("/memories/{memory_id}/history")
async def history(agent_id: ReadAgent, memory_id: MemoryId, service: Service) -> Versions:
    """Return what became of a memory, oldest first, by the id of any of its versions."""
    return Versions(versions=await service.engine.history(agent_id, memory_id))


def _version(if_match: str | None) -> str | None:
    return None if if_match is None else if_match.removeprefix("W/").strip('"')


def _unknown() -> MemoryNotFoundError:
    return MemoryNotFoundError("memory_id: the agent has no memory with this id")


async def _stored(
    receipt: StoreReceipt, agent_id: str, service: CompanyService, serving: Serving, *, wait: bool
) -> tuple[int, Stored]:
    if wait:
        receipt = receipt.written(await service.engine.wait(receipt, timeout_seconds=WAIT_SECONDS))
    stored = Stored(
        operation_id=serving.operations.issue(service.company, agent_id, receipt.job_ids),
        memory_ids=receipt.memory_ids,
        unknown_supersedes=receipt.unknown_supersedes,
    )
    return 201 if wait else 202, stored
