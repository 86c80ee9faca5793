"""Skills: what the agents learned, by state; one with its text, its versions, its evidence and its counts."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from memcore.ledger.access.keys import Verb
from memcore.ledger.learning.skills import MAX_PAGE, SkillState
from ops.http.access import CurrentCaller
from ops.http.context import Service
from ops.http.operators import PathId, company_wide
from ops.web.pages import facts, page

router = APIRouter(prefix="/skills", dependencies=[company_wide(Verb.READ)])

#: The evolver's cycles that are shown.
_CYCLES = 5


@router.get("")
async def list_skills(request: Request, service: Service, state: SkillState | None = None) -> Response:
    """Show skills, newest first, and the last cycles of the evolver."""
    return page(
        request,
        "skills",
        skills=await service.skills.list(state=state, limit=MAX_PAGE),
        cycles=await service.skills.cycles(limit=_CYCLES),
        state=state,
        states=list(SkillState),
        most=MAX_PAGE,
    )


@router.get("/{skill_id}")
async def show(request: Request, skill_id: PathId, caller: CurrentCaller, service: Service) -> Response:
    """Show one skill whole; its approval can be undone on the approval's page."""
    found = await service.skills.get(skill_id)
    return page(
        request,
        "skill",
        detail=found,
        skill=found.skill,
        evidence=facts(found.skill.figures),
        may_approve=Verb.APPROVE in caller.verbs,
    )
