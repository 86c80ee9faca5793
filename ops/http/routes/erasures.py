"""Erasures: an agent, or a person of its conversations, goes for good; a signed receipt says so."""

import json
from typing import Annotated, Any

from fastapi import APIRouter, Query

from memcore.errors import MemoryNotFoundError
from memcore.ledger.access.keys import Verb
from memcore.ledger.erasure.erasures import Erasure
from memcore.models.base import Frozen
from memcore.models.memory import BoundedTime, Key
from ops.http.access import Caller, CurrentCaller
from ops.http.context import Service
from ops.http.operators import AdminAgent, ConfirmBody, PathId

router = APIRouter(prefix="/v1/agents", tags=["erasures"])


class ErasureView(Frozen):
    """An erasure.

    Attributes:
        state: done once nothing is left; failed needs a person.
        reason: why it waits.
        found: rows, points, files or messages that were found in each place, and removed.
        receipt: the signed receipt; null until it is done.
    """

    erasure_id: str
    agent_id: str
    subject: str | None
    state: str
    reason: str | None
    requested_by: str
    requested_at: BoundedTime
    finished_at: BoundedTime | None
    found: dict[str, int]
    receipt: dict[str, Any] | None


class EraseBody(ConfirmBody):
    """A confirmation of an erasure.

    Attributes:
        retire_checkpoints: whether the embedders that were trained on memories are deleted, too.
    """

    retire_checkpoints: bool = False


class SubjectBody(EraseBody):
    """A confirmation of the erasure of a person.

    Attributes:
        subject: the person: the engine's user_id, or session:NAME.
    """

    subject: Key


class ErasurePage(Frozen):
    """Erasures of an agent, newest first."""

    erasures: tuple[ErasureView, ...]


@router.post("/{agent_id}/erasures", status_code=202)
async def erase_agent(agent_id: AdminAgent, body: EraseBody, caller: CurrentCaller, service: Service) -> ErasureView:
    """Erase all that is stored of the agent, for good, by a job; its other jobs are dropped meanwhile."""
    _require_all(body, caller)
    return _view(
        await service.erasures.request(agent_id, body.confirmation(caller), retire_checkpoints=body.retire_checkpoints)
    )


@router.post("/{agent_id}/conversations/erasures", status_code=202)
async def erase_subject(
    agent_id: AdminAgent, body: SubjectBody, caller: CurrentCaller, service: Service
) -> ErasureView:
    """Erase what the agent has kept of a person, for good, by a job."""
    _require_all(body, caller)
    return _view(
        await service.erasures.request(
            agent_id,
            body.confirmation(caller),
            subject=body.subject,
            retire_checkpoints=body.retire_checkpoints,
        )
    )


@router.get("/{agent_id}/erasures")
async def list_erasures(
    agent_id: AdminAgent, service: Service, limit: Annotated[int, Query(ge=1, le=256)] = 20
) -> ErasurePage:
    """Return the erasures of the agent and of its conversations' people, newest first."""
    found = await service.erasures.list(agent_id=agent_id, limit=limit)
    return ErasurePage(erasures=tuple(map(_view, found)))


@router.get("/{agent_id}/erasures/{erasure_id}")
async def get_erasure(agent_id: AdminAgent, erasure_id: PathId, service: Service) -> ErasureView:
    """Return an erasure, with its receipt once it is done."""
    found = await service.erasures.get(erasure_id)
    if found.agent_id != agent_id:
        # As if there were none: a key learns nothing of other agents.
        raise MemoryNotFoundError(f"erasure_id: {erasure_id!r} names no erasure of this agent")
    return _view(found)


def _require_all(body: EraseBody, caller: Caller) -> None:
    # Checkpoints are the company's: a key for some agents does not delete what all of them search with.
    if body.retire_checkpoints:
        caller.require(Verb.ADMIN)


def _view(erasure: Erasure) -> ErasureView:
    receipt = None if erasure.receipt is None else json.loads(erasure.receipt)
    shown = erasure.model_dump(include=set(ErasureView.model_fields) - {"receipt"})
    return ErasureView(**shown, receipt=receipt)
