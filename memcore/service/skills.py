"""Skills of the organisation, learned from the agents' tasks, and the evolver's cycles."""

from typing import Annotated, Any, Self

from pydantic import Field

from memcore.approvals import visible
from memcore.client.results import JobReceipt
from memcore.errors import MemoryNotFoundError
from memcore.ledger.access.keys import Verb
from memcore.ledger.learning.skill_cycles import MAX_PAGE as MOST_CYCLES
from memcore.ledger.learning.skill_cycles import Cycle, CycleOrigin
from memcore.ledger.learning.skills import MAX_PAGE as MOST_SKILLS
from memcore.ledger.learning.skills import Applications, Skill, SkillState
from memcore.ledger.work_items import WorkState
from memcore.models.approval import Approval
from memcore.models.base import Frozen, View
from memcore.models.memory import BoundedTime
from memcore.procedural.records import LessonText
from memcore.service.operation import JobAccepted, operation
from memcore.service.resources import CompanyPart


class SkillInfo(Frozen):
    """A skill, who approved it, and how often it helped.

    Attributes:
        discovery: one line that says when the skill is of use.
        applications: how often an agent said that it applied the skill; ``successes`` of them went well.
        figures: what spoke for it when it was approved.
    """

    id: str
    state: SkillState
    discovery: str
    confidence: float
    tags: tuple[str, ...]
    applications: int
    successes: int
    last_applied_at: BoundedTime | None
    approved_by: str | None
    approval_id: str
    pattern_id: str
    cycle_id: str | None
    figures: dict[str, Any]
    superseded_by: str | None
    published_at: BoundedTime
    changed_at: BoundedTime

    @classmethod
    def of(cls, skill: Skill, counts: Applications | None, approval: Approval | None) -> Self:
        """Return what is shown of a skill."""
        lesson = LessonText.model_validate_json(skill.text, extra="ignore")
        details: dict[str, Any] = approval.proposal.details if approval else {}
        decided_by = approval.decided_by if approval else None
        return cls(
            id=skill.skill_id,
            state=skill.state,
            discovery=lesson.discovery,
            confidence=skill.confidence,
            tags=tuple(lesson.tags),
            applications=counts.applications if counts else 0,
            successes=counts.successes if counts else 0,
            last_applied_at=counts.last_applied_at if counts else None,
            approved_by=decided_by and visible(decided_by),
            approval_id=skill.approval_id,
            pattern_id=skill.pattern_id,
            cycle_id=details.get("cycle_id"),
            figures=approval.proposal.figures if approval else {},
            superseded_by=skill.superseded_by,
            published_at=skill.published_at,
            changed_at=skill.changed_at,
        )


class SkillDetail(Frozen):
    """A skill whole.

    Attributes:
        memory_id: the id under which agents find it; None while it is not published.
        supersedes: the skills whose place it took.
        lesson: its text, in three tiers.
    """

    skill: SkillInfo
    memory_id: str | None
    supersedes: tuple[str, ...]
    lesson: LessonText


class CycleInfo(View):
    """A cycle of the evolver as an API shows it: without the lease of its worker.

    Attributes:
        window_start: the first moment of what it looked at; ``window_end`` is the first one behind it.
        report: what it found; None until it has ended.
    """

    cycle_id: str
    origin: CycleOrigin
    planned_at: BoundedTime
    window_start: BoundedTime
    window_end: BoundedTime
    state: WorkState
    finished_at: BoundedTime | None
    report: dict[str, Any] | None


class SkillOperations(CompanyPart):
    """Reads a company's skills and cycles. Every call raises MemoryConnectionError."""

    @operation("GET /skills", Verb.READ, under="skills")
    async def list(
        self, *, state: SkillState | None = None, limit: Annotated[int, Field(ge=1, le=MOST_SKILLS)] = 20
    ) -> tuple[SkillInfo, ...]:
        """Return the organisation's skills, newest first: state, who approved each, and how often it helped."""
        return await self._resources.run(self._page, state, limit)

    @operation("GET /skills/{skill_id}", Verb.READ)
    async def get(self, skill_id: str) -> SkillDetail:
        """Return one skill whole, by its id or any under which it was published: its text, and what it replaced.

        Raises MemoryNotFoundError.
        """
        return await self._resources.run(self._detail, skill_id)

    @operation("POST /skill-cycles", Verb.MAINTAIN, status=202, shows=JobAccepted)
    async def evolve(self) -> JobReceipt:
        """Run the skill evolver now, beside its schedule; its proposals wait for a person."""
        return await self._resources.client.evolve_now()

    async def cycle(self, cycle_id: str) -> Cycle:
        """Return a cycle. Raises MemoryNotFoundError."""
        cycle = await self._ask(self._ledger.skill_cycles.get, cycle_id)
        if cycle is None:
            raise MemoryNotFoundError("cycle_id: names no cycle; see `memtend skills cycles`")
        return cycle

    @operation("GET /skill-cycles", Verb.READ, shows=CycleInfo, under="cycles")
    async def cycles(self, *, limit: Annotated[int, Field(ge=1, le=MOST_CYCLES)] = 20) -> tuple[Cycle, ...]:
        """Return the evolver's cycles, newest first: time, window, results, and what a person must check."""
        return await self._ask(self._ledger.skill_cycles.page, limit=limit)

    def _page(self, state: SkillState | None, limit: int) -> tuple[SkillInfo, ...]:
        ledger, company = self._ledger, self._company
        if not self._is_shown(Skill.origin):
            return ()
        found = ledger.skills.page(company, state=state, limit=limit, seen=ledger.hidden.of(company).seen_skills)
        counts = ledger.skills.applications(company, [each.skill_id for each in found])
        return tuple(
            SkillInfo.of(each, counts.get(each.skill_id), ledger.approvals.get(company, each.approval_id))
            for each in found
        )

    def _detail(self, skill_id: str) -> SkillDetail:
        ledger, company = self._ledger, self._company
        lines = ledger.shared_log.history(company, skill_id)
        skill = ledger.skills.get(company, lines[0].memory_id if lines else skill_id)
        seen = ledger.hidden.of(company).seen_skills
        if skill is None or skill.skill_id in seen.hidden or not self._is_shown(Skill.origin):
            raise MemoryNotFoundError(f"skill_id: {skill_id!r} is no skill; see `memtend skills list`")
        counts = ledger.skills.applications(company, [skill.skill_id]).get(skill.skill_id)
        approval = ledger.approvals.get(company, skill.approval_id)
        return SkillDetail(
            skill=SkillInfo.of(seen.of(skill), counts, approval),
            # The one under which agents find it.
            memory_id=lines[-1].memory_id
            if lines and (lines[-1].kind == "publish" or skill.skill_id in seen.standing)
            else None,
            supersedes=self._superseded(approval),
            lesson=LessonText.model_validate_json(skill.text, extra="ignore"),
        )

    def _superseded(self, approval: Approval | None) -> tuple[str, ...]:
        old = (each.id for each in approval.proposal.supersedes) if approval else ()
        lines = ((memory_id, self._ledger.shared_log.history(self._company, memory_id)) for memory_id in old)
        return tuple(known[0].memory_id if known else memory_id for memory_id, known in lines)
