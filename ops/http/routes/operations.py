"""Operations: how far the jobs of a request are, as an answer or as events."""

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, Path
from fastapi.sse import EventSourceResponse, ServerSentEvent

from memcore.errors import MemoryCapabilityError, MemoryNotFoundError
from memcore.ledger.access.keys import Verb
from ops.http.access import CurrentCaller
from ops.http.context import Service, Serving
from ops.http.operations import Operation, OperationStatus, progress_of, status_of

router = APIRouter(prefix="/v1/operations", tags=["operations"])

#: Longest id of an operation, in characters: 255 jobs and the longest agent.
_LONGEST_ID = 8_192


async def known_operation(
    operation_id: Annotated[str, Path(min_length=1, max_length=_LONGEST_ID)], caller: CurrentCaller, serving: Serving
) -> Operation:
    """Return the operation of a path; MemoryNotFoundError when it is another company's or agent's."""
    operation = serving.operations.known(caller.company, operation_id)
    if not caller.sees(operation.agent_id):
        raise MemoryNotFoundError("operation_id: names no operation of this company")
    return operation


async def readable_operation(
    operation: Annotated[Operation, Depends(known_operation)], caller: CurrentCaller
) -> Operation:
    """Return the operation of a path, which the caller may read."""
    caller.require(Verb.READ, agent_id=operation.agent_id)
    return operation


async def writable_operation(
    operation: Annotated[Operation, Depends(known_operation)], caller: CurrentCaller
) -> Operation:
    """Return the operation of a path, which the caller may change."""
    caller.require(Verb.WRITE, agent_id=operation.agent_id)
    return operation


Readable = Annotated[Operation, Depends(readable_operation)]


@router.get("/{operation_id}")
async def status(operation: Readable, service: Service) -> OperationStatus:
    """Return how far an operation is."""
    return await status_of(service.client, operation)


@router.get("/{operation_id}/events", response_class=EventSourceResponse)
async def events(operation: Readable, service: Service, serving: Serving) -> AsyncIterator[ServerSentEvent]:
    """Send the status of an operation now and whenever it changes, as events; the last one says that it has ended.

    After five minutes, and when the server stops, the events end without it: ask again.
    """
    async for now in progress_of(service.client, operation, stopping=serving.stopping):
        yield ServerSentEvent(event="status", data=now)


@router.delete("/{operation_id}", status_code=204)
async def cancel(operation: Annotated[Operation, Depends(writable_operation)], service: Service) -> None:
    """Cancel an operation: not supported for those that only store, for the job holds the one copy of the memory."""
    now = await status_of(service.client, operation)
    if not now.is_finished:
        raise MemoryCapabilityError("a job that stores cannot be cancelled; forget what it has stored")
