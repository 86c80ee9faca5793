"""Agents: who is known, their settings, the pause of their maintenance, their lessons, their ends."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import StrictInt

from memcore.ledger.access.keys import Verb
from memcore.ledger.agents import Agent
from memcore.models.base import Frozen
from memcore.models.memory import MAX_KEY_CHARS, ConsolidationInterval, MemoryCategory, MemoryLevel
from memcore.models.memory_changes import ForgetReceipt
from memcore.service.agents import LessonInfo
from memcore.service.operation import JobAccepted
from ops.http.access import CurrentCaller, ReadAgent, WriteAgent
from ops.http.context import Service
from ops.http.operators import AdminAgent, ConfirmBody, MaintainAgent, PathId, ReasonBody

router = APIRouter(prefix="/v1/agents", tags=["agents"])


class AgentBody(Frozen):
    """The settings of an agent: those that are left out stay, null goes back to the company's value.

    Attributes:
        max_memories: 1 to 2,000,000,000.
        retention_days: 1 to 36,525.
        retention_overrides: days per category, each 1 to 36,525.
    """

    role: str | None = None
    department: str | None = None
    level: MemoryLevel | None = None
    interval: ConsolidationInterval | None = None
    max_memories: StrictInt | None = None
    retention_days: StrictInt | None = None
    retention_overrides: dict[MemoryCategory, StrictInt] | None = None

    def given(self) -> dict[str, object]:
        """Return the settings that the request gave."""
        given = self.model_dump(exclude_unset=True)
        if "retention_overrides" in given:
            given["retention_overrides"] = given["retention_overrides"] or {}
        return given


class AgentPage(Frozen):
    """Agents in the order of their ids.

    Attributes:
        next: the last id, to be given as ``after``; null on the last page.
    """

    agents: tuple[Agent, ...]
    next: str | None


class Lessons(Frozen):
    """The lessons of an agent's tasks, newest first, without their texts."""

    lessons: tuple[LessonInfo, ...]


@router.get("")
async def list_agents(
    caller: CurrentCaller,
    service: Service,
    after: Annotated[str | None, Query(max_length=MAX_KEY_CHARS)] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> AgentPage:
    """Return the agents that the key is for, in the order of their ids."""
    caller.require(Verb.READ, agent_id=next(iter(sorted(caller.agents or ())), None))
    found = await service.agents.list(after=after, limit=limit, among=caller.agents)
    is_last = len(found) < limit
    return AgentPage(agents=found, next=None if is_last else found[-1].agent_id)


@router.get("/{agent_id}")
async def get_agent(agent_id: ReadAgent, service: Service) -> Agent:
    """Return an agent: its settings, and when its next maintenance is due."""
    return await service.agents.get(agent_id)


@router.put("/{agent_id}")
async def put_agent(agent_id: AdminAgent, body: AgentBody, service: Service) -> Agent:
    """Register an agent before its first memory, or change its settings."""
    return await service.agents.add(agent_id, body.given())


@router.patch("/{agent_id}")
async def patch_agent(agent_id: AdminAgent, body: AgentBody, service: Service) -> Agent:
    """Change the settings of an agent that is known."""
    return await service.agents.set(agent_id, body.given())


@router.delete("/{agent_id}")
async def remove(agent_id: AdminAgent, body: ConfirmBody, caller: CurrentCaller, service: Service) -> ForgetReceipt:
    """Forget all memories of the agent in one run, which can be undone, and take it off the schedule."""
    return await service.agents.remove(agent_id, body.confirmation(caller))


@router.post("/{agent_id}/pause", status_code=204)
async def pause(agent_id: MaintainAgent, body: ReasonBody, caller: CurrentCaller, service: Service) -> None:
    """Pause the agent's maintenance: an active run stops before its next removal."""
    await service.agents.pause(agent_id, by=caller.name, reason=body.reason)


@router.post("/{agent_id}/resume", status_code=204)
async def resume(agent_id: MaintainAgent, body: ReasonBody, caller: CurrentCaller, service: Service) -> None:
    """Resume the agent's maintenance."""
    await service.agents.resume(agent_id, by=caller.name, reason=body.reason)


@router.get("/{agent_id}/lessons")
async def lessons(agent_id: ReadAgent, service: Service, limit: Annotated[int, Query(ge=1, le=128)] = 20) -> Lessons:
    """Return the lessons of the agent's tasks, newest first."""
    return Lessons(lessons=await service.agents.lessons(agent_id, limit=limit))


@router.post("/{agent_id}/ends/{scope}/{ended_id}", status_code=202)
async def end(
    agent_id: WriteAgent,
    scope: Literal["session", "project", "task"],
    ended_id: PathId,
    service: Service,
) -> JobAccepted:
    """Say that a session, a project or a task has ended: the memories that end with it go, in a run."""
    return JobAccepted.of(await service.runs.end(scope, agent_id, ended_id))
