"""What engines ask beside memories and conversations: how many memories there are; and they report applied skills."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import BaseModel
from starlette.responses import Response

from memcore.client.results import AppliedReceipt
from memcore.errors import MemoryConnectionError
from memcore.jobs import ApplicationOutcome
from memcore.models.base import Frozen
from memcore.models.memory import MAX_KEY_CHARS, MemoryCategory
from ops.http.access import ReadAgent, WriteAgent
from ops.http.context import Service
from ops.http.idempotency import Repeated
from ops.http.models import Name

router = APIRouter(prefix="/v1/agents/{agent_id}", tags=["engines"])


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


@router.get("/memories:count")
async def count(agent_id: ReadAgent, service: Service, category: MemoryCategory | None = None) -> Counted:
    """Return how many memories the agent has, of a category or in all."""
    return Counted(count=await service.engine.count(agent_id, category=category))


@router.post("/skills/{skill_id}/applied", status_code=202, response_model=AppliedReceipt)
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
