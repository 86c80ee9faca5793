"""Which agents a caller of the console sees, and which one a page is about."""

from typing import Annotated

from fastapi import Depends, Query

from memcore.errors import MemoryInputError
from memcore.ledger.access.keys import Verb
from memcore.ledger.agents import Agent
from memcore.models.memory import MAX_KEY_CHARS, require_agent_id
from ops.http.access import Caller, CurrentCaller
from ops.http.context import CompanyService

#: Most agents that a page offers to choose from; of more, one types the id.
MOST_OFFERED = 2_000


async def seen_by(caller: Caller, service: CompanyService) -> tuple[Agent, ...]:
    """Return the agents that a caller may read, in the order of their ids. Raises MemoryForbiddenError."""
    caller.require(Verb.READ, agent_id=next(iter(sorted(caller.agents or ())), None))
    if caller.agents is None:
        return await service.agents.every()
    return await service.agents.known(sorted(caller.agents))


async def chosen_agent(
    caller: CurrentCaller, agent: Annotated[str | None, Query(max_length=MAX_KEY_CHARS)] = None
) -> str | None:
    """Return the agent that a page's address names, once the caller may read it; None where it names none."""
    if not agent:
        return None
    caller.require(Verb.READ, agent_id=agent)
    return require_agent_id(agent)


async def named_agent(chosen: Annotated[str | None, Depends(chosen_agent)]) -> str:
    """Return the agent that a page's address must name. Raises MemoryInputError."""
    if chosen is None:
        raise MemoryInputError("agent", "must be given")
    return chosen


#: The agent of a page that may go without one, and of one that may not.
ChosenAgent = Annotated[str | None, Depends(chosen_agent)]
NamedAgent = Annotated[str, Depends(named_agent)]
