"""Agents: who is known, their settings, the pause of their maintenance, their lessons, their ends."""

from typing import Annotated

from fastapi import Query
from pydantic import StrictInt

from memcore.ledger.access.keys import Verb
from memcore.ledger.agents import Agent
from memcore.models.base import Frozen
from memcore.models.memory import MAX_KEY_CHARS, ConsolidationInterval, MemoryCategory, MemoryLevel
from memcore.service.agents import AgentOperations
from ops.http.access import CurrentCaller
from ops.http.context import Service
from ops.http.declared import router_of
from ops.http.operators import AdminAgent

router = router_of("agents", AgentOperations)


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


@router.get("/agents")
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


@router.put("/agents/{agent_id}")
async def put_agent(agent_id: AdminAgent, body: AgentBody, service: Service) -> Agent:
    """Register an agent before its first memory, or change its settings."""
    return await service.agents.add(agent_id, body.given())


@router.patch("/agents/{agent_id}")
async def patch_agent(agent_id: AdminAgent, body: AgentBody, service: Service) -> Agent:
    """Change the settings of an agent that is known."""
    return await service.agents.set(agent_id, body.given())
