"""What engines do beside memories and conversations: call tools, count memories, report applied skills."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Path
from pydantic import BaseModel, Field, JsonValue
from starlette.responses import Response

from memcore.client.results import AppliedReceipt
from memcore.errors import MemoryConnectionError
from memcore.jobs import ApplicationOutcome
from memcore.ledger.access.keys import Verb
from memcore.models.base import Frozen
from memcore.models.execution import ToolDefinition
from memcore.models.memory import MAX_KEY_CHARS, MemoryCategory
from ops.http.access import CurrentCaller, ReadAgent, WriteAgent, agent_for
from ops.http.context import Service
from ops.http.idempotency import Repeated
from ops.http.models import Name

router = APIRouter(tags=["engines"])


class Counted(Frozen):
    """How many memories an agent has."""

    count: int


class AppliedBody(Frozen):
    """How the application of a skill or lesson went.

    Attributes:
        task_id: the same task applies a skill once, and its first outcome counts.
    """

    outcome: ApplicationOutcome
    task_id: Name | None = None


class Tools(Frozen):
    """Definitions of tools."""

    tools: tuple[ToolDefinition, ...]


class ToolBody(Frozen):
    """A tool that a model calls.

    Attributes:
        arguments: an object, or the JSON text that the model wrote.
        writes: whether tools of all kinds may be called, or those of the policy's strategy alone.
    """

    name: str = Field(min_length=1, max_length=64)
    arguments: dict[str, JsonValue] | str | None = None
    writes: bool = False


class ToolAnswer(Frozen):
    """What the tool answers."""

    answer: str


@router.get("/v1/agents/{agent_id}/memories:count")
async def count(agent_id: ReadAgent, service: Service, category: MemoryCategory | None = None) -> Counted:
    """Return how many memories the agent has, of a category or in all."""
    return Counted(count=await service.engine.count(agent_id, category=category))


@router.get("/v1/agents/{agent_id}/tools", dependencies=[Depends(agent_for(Verb.READ))])
async def tools(service: Service, *, writes: bool = False) -> Tools:
    """Return the tools of the policy's strategy for the agent's model; with ``writes`` every tool there is."""
    return Tools(tools=await service.engine.tools(writes=writes))


@router.post("/v1/agents/{agent_id}/tools:call")
async def call_tool(agent_id: ReadAgent, body: ToolBody, caller: CurrentCaller, service: Service) -> ToolAnswer:
    """Call a tool as a model asks for it, and return the text for the model; what goes wrong is a text, too."""
    known = {each.name: each for each in await service.engine.tools(writes=body.writes)}
    if body.name in known and not known[body.name].read_only:
        caller.require(Verb.WRITE, agent_id=agent_id)
    # Not by an Idempotency-Key, whose answers are kept: this one holds texts of memories.
    answer = await service.engine.call_tool(agent_id, body.name, body.arguments, writes=body.writes)
    return ToolAnswer(answer=answer)


@router.post("/v1/agents/{agent_id}/skills/{skill_id}/applied", status_code=202, response_model=AppliedReceipt)
async def applied(
    agent_id: WriteAgent,
    skill_id: Annotated[str, Path(min_length=1, max_length=MAX_KEY_CHARS)],
    body: AppliedBody,
    service: Service,
    repeated: Repeated,
) -> Response:
    """Report that the agent applied a skill, or a lesson of its own, and how it went."""

    async def act(_at: datetime) -> tuple[int, BaseModel]:
        receipt = await service.engine.applied(agent_id, skill_id, body.outcome, task_id=body.task_id)
        if receipt is None:
            raise MemoryConnectionError("the application could not be sent")
        return 202, receipt

    return await repeated.answer(act)
