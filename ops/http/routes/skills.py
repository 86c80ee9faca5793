"""Skills of the organisation, learned from the agents' tasks, and the evolver's cycles."""

from typing import Annotated

from fastapi import APIRouter, Path, Query

from memcore.ledger.access.keys import Verb
from memcore.ledger.learning.skill_cycles import MAX_PAGE as MOST_CYCLES
from memcore.ledger.learning.skills import MAX_PAGE as MOST_SKILLS
from memcore.ledger.learning.skills import SkillState
from memcore.models.base import Frozen
from memcore.models.memory import MAX_KEY_CHARS
from memcore.service.skills import CycleInfo, SkillDetail, SkillInfo
from ops.http.access import CurrentCaller
from ops.http.context import Service
from ops.http.operators import JobAccepted

router = APIRouter(prefix="/v1", tags=["skills"])


class SkillPage(Frozen):
    """Skills, newest first."""

    skills: tuple[SkillInfo, ...]


class CyclePage(Frozen):
    """The evolver's cycles, newest first."""

    cycles: tuple[CycleInfo, ...]


@router.get("/skills")
async def list_skills(
    caller: CurrentCaller,
    service: Service,
    state: SkillState | None = None,
    limit: Annotated[int, Query(ge=1, le=MOST_SKILLS)] = 20,
) -> SkillPage:
    """Return the organisation's skills, newest first: state, who approved each, and how often it helped."""
    caller.require(Verb.READ)
    return SkillPage(skills=await service.skills.list(state=state, limit=limit))


@router.get("/skills/{skill_id}")
async def get_skill(
    skill_id: Annotated[str, Path(min_length=1, max_length=MAX_KEY_CHARS)], caller: CurrentCaller, service: Service
) -> SkillDetail:
    """Return one skill whole: its text in three tiers, its origin, and what it replaced."""
    caller.require(Verb.READ)
    return await service.skills.get(skill_id)


@router.get("/skill-cycles")
async def cycles(
    caller: CurrentCaller, service: Service, limit: Annotated[int, Query(ge=1, le=MOST_CYCLES)] = 20
) -> CyclePage:
    """Return the evolver's cycles, newest first: time, window, results, and what a person must check."""
    caller.require(Verb.READ)
    return CyclePage(cycles=tuple(map(CycleInfo.of, await service.skills.cycles(limit=limit))))


@router.post("/skill-cycles", status_code=202)
async def evolve(caller: CurrentCaller, service: Service) -> JobAccepted:
    """Run the skill evolver now; its proposals wait for a person."""
    caller.require(Verb.MAINTAIN)
    return JobAccepted(run_id=(await service.skills.evolve()).job_id)
