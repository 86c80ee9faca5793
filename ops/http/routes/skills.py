"""Skills of the organisation, learned from the agents' tasks, and the evolver's cycles."""

from typing import Annotated

from fastapi import APIRouter, Query

from memcore.ledger.access.keys import Verb
from memcore.ledger.learning.skill_cycles import MAX_PAGE as MOST_CYCLES
from memcore.ledger.learning.skills import MAX_PAGE as MOST_SKILLS
from memcore.ledger.learning.skills import SkillState
from memcore.models.base import Frozen
from memcore.service.operation import JobAccepted
from memcore.service.skills import CycleInfo, SkillDetail, SkillInfo
from ops.http.context import Service
from ops.http.operators import PathId, company_wide

router = APIRouter(prefix="/v1", tags=["skills"])


class SkillPage(Frozen):
    """Skills, newest first."""

    skills: tuple[SkillInfo, ...]


class CyclePage(Frozen):
    """The evolver's cycles, newest first."""

    cycles: tuple[CycleInfo, ...]


@router.get("/skills", dependencies=[company_wide(Verb.READ)])
async def list_skills(
    service: Service,
    state: SkillState | None = None,
    limit: Annotated[int, Query(ge=1, le=MOST_SKILLS)] = 20,
) -> SkillPage:
    """Return the organisation's skills, newest first: state, who approved each, and how often it helped."""
    return SkillPage(skills=await service.skills.list(state=state, limit=limit))


@router.get("/skills/{skill_id}", dependencies=[company_wide(Verb.READ)])
async def get_skill(skill_id: PathId, service: Service) -> SkillDetail:
    """Return one skill whole: its text in three tiers, its origin, and what it replaced."""
    return await service.skills.get(skill_id)


@router.get("/skill-cycles", dependencies=[company_wide(Verb.READ)])
async def cycles(service: Service, limit: Annotated[int, Query(ge=1, le=MOST_CYCLES)] = 20) -> CyclePage:
    """Return the evolver's cycles, newest first: time, window, results, and what a person must check."""
    return CyclePage(cycles=tuple(map(CycleInfo.of, await service.skills.cycles(limit=limit))))


@router.post("/skill-cycles", status_code=202, dependencies=[company_wide(Verb.MAINTAIN)])
async def evolve(service: Service) -> JobAccepted:
    """Run the skill evolver now; its proposals wait for a person."""
    return JobAccepted.of(await service.skills.evolve())
