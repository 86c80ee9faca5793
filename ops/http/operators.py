"""What the operators' routes share: who may, who confirms what, and what is shown of runs and checkpoints."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import Depends, Path, Query
from pydantic import AfterValidator

from memcore.ledger.access.keys import Verb
from memcore.ledger.organization.audit import Confirmation, Confirmed
from memcore.ledger.runs import Run
from memcore.models.approval import Name as PersonName
from memcore.models.approval import Reason
from memcore.models.base import Frozen
from memcore.models.memory import MAX_KEY_CHARS
from memcore.service.operation import said
from memcore.service.runs import found_run
from ops.http.access import NO_KEY, Caller, CurrentCaller, agent_for
from ops.http.context import Service

#: An id in a path, and a name or an id in a query.
PathId = Annotated[str, Path(min_length=1, max_length=MAX_KEY_CHARS), AfterValidator(said)]
Named = Annotated[str, Query(min_length=1, max_length=MAX_KEY_CHARS), AfterValidator(said)]


def company_wide(verb: Verb) -> Any:
    """Return a dependency that refuses a key that is not for a verb of all agents, before the body is looked at."""

    async def check(caller: CurrentCaller) -> None:
        caller.require(verb)

    return Depends(check)


def named_agent(verb: Verb) -> Callable[..., Awaitable[str | None]]:
    """Return a dependency that gives a route the agent of its query, if any, once the caller may do this with it."""

    async def agent_of_query(caller: CurrentCaller, agent_id: Named | None = None) -> str | None:
        caller.require(verb, agent_id=agent_id)
        return agent_id

    return agent_of_query


#: The agent that a list is narrowed to; a key for some agents names one of them.
SomeAgent = Annotated[str | None, Depends(named_agent(Verb.READ))]

#: The agent of a route that changes its settings, and of one that changes its maintenance.
AdminAgent = Annotated[str, Depends(agent_for(Verb.ADMIN))]
MaintainAgent = Annotated[str, Depends(agent_for(Verb.MAINTAIN))]


def run_for(verb: Verb) -> Callable[..., Awaitable[Run]]:
    """Return a dependency that gives a route the run of its path, once the caller may do this with its agent."""

    async def run_of_path(run_id: PathId, caller: CurrentCaller, service: Service) -> Run:
        run = await service.runs.get(run_id)
        # As if there were none: a key learns nothing of other agents.
        found_run(run if caller.sees(run.agent_id) else None)
        caller.require(verb, agent_id=run.agent_id)
        return run

    return run_of_path


#: The run of a route that reads it, and of one that decides about it.
ReadableRun = Annotated[Run, Depends(run_for(Verb.READ))]
MaintainedRun = Annotated[Run, Depends(run_for(Verb.MAINTAIN))]


class ReasonBody(Frozen):
    """Why somebody asks for it; the audit keeps it with the name of the key."""

    reason: Reason


class ConfirmBody(ReasonBody):
    """A confirmation of what cannot simply be undone.

    Attributes:
        confirm: true, and nothing like it.
    """

    confirm: Confirmed

    def confirmation(self, caller: Caller) -> Confirmation:
        """Return the confirmation of a caller; its actor is the name of the key."""
        return Confirmation(actor=caller.name, confirm=self.confirm, reason=self.reason)


class AdminBody(ConfirmBody):
    """A confirmation as the reference sends it.

    Attributes:
        actor: who confirms, where the installation asks for no keys; else the name of the key counts.
    """

    actor: PersonName | None = None

    def confirmation(self, caller: Caller) -> Confirmation:
        """Return the confirmation of a caller."""
        actor = self.actor if caller.key_id == NO_KEY and self.actor is not None else caller.name
        return Confirmation(actor=actor, confirm=self.confirm, reason=self.reason)
