"""Memories of an agent: store, search, prepare a prompt, get."""

from collections.abc import Awaitable
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel
from starlette.responses import Response

from memcore.client.results import JobState, JobStatus, StoreReceipt
from memcore.errors import MemoryNotFoundError, MemoryStoreError
from memcore.memory.fields import WAIT_SECONDS
from memcore.models.memory import MAX_KEY_CHARS, MemoryQuery
from ops.http.access import ReadAgent, WriteAgent
from ops.http.context import CompanyService, Service, Serving
from ops.http.idempotency import Repeated
from ops.http.models import BatchBody, ContextBody, Found, MemoryView, Prepared, StoreBody, Stored

router = APIRouter(prefix="/v1/agents/{agent_id}", tags=["memories"])

#: Whether to answer once what was stored can be found.
Wait = Annotated[bool, Query(description="Answer 201 once it can be found, instead of 202 at once.")]

#: A memory's id in a path.
MemoryId = Annotated[str, Path(min_length=1, max_length=MAX_KEY_CHARS, description="The memory's id.")]


@router.post("/memories", status_code=202, response_model=Stored, responses={201: {"model": Stored}})
async def store(
    agent_id: WriteAgent, body: StoreBody, service: Service, serving: Serving, repeated: Repeated, *, wait: Wait = False
) -> Response:
    """Store a memory: a worker writes it within milliseconds. The same text of the same agent is written once."""

    async def act(_at: datetime) -> tuple[int, BaseModel]:
        receipt = await service.engine.store(agent_id, body.content, **body.given())
        return await _stored(receipt, agent_id, service, serving, wait=wait)

    return await repeated.answer(act)


@router.post("/memories:batch", status_code=202, response_model=Stored, responses={201: {"model": Stored}})
async def store_many(
    agent_id: WriteAgent, body: BatchBody, service: Service, serving: Serving, repeated: Repeated, *, wait: Wait = False
) -> Response:
    """Store up to 256 memories of the agent; all are checked before the first is sent."""
    scope = body.model_dump(exclude_unset=True, exclude={"memories"})
    requests = [_request(each.content, each.given()) for each in body.memories]

    async def act(_at: datetime) -> tuple[int, BaseModel]:
        receipt = await service.engine.store_many(agent_id, requests, **scope)
        return await _stored(receipt, agent_id, service, serving, wait=wait)

    return await repeated.answer(act)


@router.post("/search")
async def search(agent_id: ReadAgent, body: MemoryQuery, service: Service) -> Found:
    """Return the memories that match by meaning and by words, best first; without a text the newest first."""
    given = body.model_dump(exclude={"text"}, exclude_unset=True)
    found = await service.engine.search(agent_id, body.text, **given)
    return Found(memories=tuple(map(MemoryView.of, found)))


@router.post("/context")
async def context(agent_id: ReadAgent, body: ContextBody, service: Service) -> Prepared:
    """Return the messages to put between the system prompt and the task: policies, directive, memories."""
    messages = await service.engine.prepare(
        agent_id, body.text, token_budget=body.token_budget, categories=body.categories
    )
    return Prepared(messages=messages)


@router.get("/memories/{memory_id}")
async def get(agent_id: ReadAgent, memory_id: MemoryId, service: Service) -> MemoryView:
    """Return one memory."""
    return MemoryView.of(await known(service.engine.get(agent_id, memory_id)))


async def known(found: Awaitable[Any]) -> Any:
    """Return what was found; MemoryNotFoundError for None."""
    entry = await found
    if entry is None:
        raise MemoryNotFoundError("memory_id: the agent has no memory with this id")
    return entry


def _request(content: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return a memory as store_many takes it."""
    metadata = {name: given.pop(name) for name in ("source", "confidence", "tags") if name in given}
    return {"category": "semantic", **given, "content": content, "metadata": metadata}


async def _stored(
    receipt: StoreReceipt, agent_id: str, service: CompanyService, serving: Serving, *, wait: bool
) -> tuple[int, Stored]:
    stored = Stored(
        operation_id=serving.operations.issue(service.company, agent_id, receipt.job_ids),
        memory_ids=receipt.memory_ids,
    )
    if not wait:
        return 202, stored
    _require_written(await service.engine.wait(receipt, timeout_seconds=WAIT_SECONDS))
    return 201, stored


def _require_written(statuses: tuple[JobStatus, ...]) -> None:
    for status in statuses:
        if status.state is not JobState.DONE:
            raise MemoryStoreError(f"job {status.job_id} is {status.state}: {status.reason}")
