"""Conversations: turns, ends of sessions, what is remembered of a person; and traces of tasks."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel
from starlette.responses import Response

from memcore.errors import MemoryConnectionError
from memcore.models.conversation import LayerCounts
from memcore.models.memory import MAX_KEY_CHARS
from ops.http.access import ReadAgent, WriteAgent
from ops.http.context import Service, Serving
from ops.http.idempotency import Repeated
from ops.http.models import (
    Accepted,
    LoadBody,
    Loaded,
    RecallBody,
    SessionBody,
    TraceAccepted,
    TraceBody,
    TurnAccepted,
    TurnBody,
    utc_or,
)

router = APIRouter(prefix="/v1/agents/{agent_id}", tags=["conversations"])

#: An id in a query.
Id = Annotated[str | None, Query(min_length=1, max_length=MAX_KEY_CHARS)]


@router.post("/conversations/turns", status_code=202, response_model=TurnAccepted)
async def add_turn(
    agent_id: WriteAgent, body: TurnBody, service: Service, serving: Serving, repeated: Repeated
) -> Response:
    """Send a turn, after the reply; a language model draws from it what is worth keeping."""

    async def act(at: datetime) -> tuple[int, BaseModel]:
        fields = body.model_dump(exclude={"at"})
        receipt = await service.engine.extract_turn(agent_id, **fields, at=utc_or(body.at, at))
        if receipt is None:
            raise MemoryConnectionError("the turn could not be sent")
        operation_id = serving.operations.issue(service.company, agent_id, [receipt.job_id])
        return 202, TurnAccepted(operation_id=operation_id, turn_id=receipt.turn_id)

    return await repeated.answer(act)


@router.post("/conversations/sessions/end", status_code=202, response_model=Accepted)
async def end_session(
    agent_id: WriteAgent, body: SessionBody, service: Service, serving: Serving, repeated: Repeated
) -> Response:
    """Say that a session has ended, under the user of its turns; ending it twice does nothing."""

    async def act(at: datetime) -> tuple[int, BaseModel]:
        receipt = await service.engine.end_conversation(
            agent_id, session_id=body.session_id, user_id=body.user_id, at=utc_or(body.at, at)
        )
        if receipt is None:
            raise MemoryConnectionError("the end of the session could not be sent")
        return 202, Accepted(operation_id=serving.operations.issue(service.company, agent_id, [receipt.job_id]))

    return await repeated.answer(act)


@router.post("/conversations/load")
async def load(agent_id: ReadAgent, body: LoadBody, service: Service) -> Loaded:
    """Return what is remembered of the person that the agent talks to, before it answers."""
    found = await service.engine.load_turn(agent_id, **body.model_dump())
    return Loaded(messages=found.messages(), reasons=tuple(map(str, found.reasons)), degraded=found.degraded)


@router.get("/conversations/status")
async def status(agent_id: ReadAgent, service: Service, user_id: Id = None, session_id: Id = None) -> LayerCounts:
    """Return how many facts, sessions and rules the agent has of a person, and what waits."""
    counts: LayerCounts = await service.engine.conversation_status(agent_id, user_id=user_id, session_id=session_id)
    return counts


@router.put("/conversations/recall", status_code=204)
async def set_recall(agent_id: WriteAgent, body: RecallBody, service: Service) -> None:
    """Turn on or off that the agent is shown what is remembered of a person; nothing is deleted."""
    await service.engine.set_recall(agent_id, body.is_on, user_id=body.user_id, session_id=body.session_id)


@router.post("/distill", status_code=202, response_model=TraceAccepted, tags=["learning"])
async def distill(
    agent_id: WriteAgent, body: TraceBody, service: Service, serving: Serving, repeated: Repeated
) -> Response:
    """Send how a task went, when it has ended; a memory, an experience and a trajectory come of it."""

    async def act(_at: datetime) -> tuple[int, BaseModel]:
        receipt = await service.engine.distill(
            agent_id, body.trace, session_id=body.session_id, project_id=body.project_id
        )
        if receipt is None:
            raise MemoryConnectionError("the trace could not be sent")
        operation_id = serving.operations.issue(service.company, agent_id, [receipt.job_id])
        return 202, TraceAccepted(operation_id=operation_id, trace_id=receipt.trace_id)

    return await repeated.answer(act)
