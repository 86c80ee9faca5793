"""What is written down of an approved skill: its row, which follows the log of shared knowledge, and its folder."""

from memcore.approval_models import Approval, Superseded
from memcore.approvals.shared_publication import PublicationLog
from memcore.clock import Clock
from memcore.errors import MemoryInputError
from memcore.ledger.room import Room
from memcore.ledger.skill import Skill, SkillState
from memcore.ledger.skill_room import SkillRoom
from memcore.ledger.skills import Skills
from memcore.skills.promotion import ORG_PROMOTION, lesson_of
from memcore.skills.skill_shelf import SkillShelf


class SkillRows:
    """Keep the rows of skills beside their publications (see memcore.approvals.notes.Notes).

    A row changes only from the state that it must be in: whoever comes late finds another one, and changes nothing.

    Args:
        skills: the rows.
        log: the log of shared knowledge.
        company: whose.
        limit: most skills that may stand.
        clock: the time.
        shelf: where skills lie as folders too; None where they do not.
    """

    def __init__(
        self,
        skills: Skills,
        log: PublicationLog,
        *,
        company: str,
        limit: int,
        clock: Clock,
        shelf: SkillShelf | None = None,
    ) -> None:
        self._skills = skills
        self._log = log
        self._company = company
        self._limit = limit
        self._clock = clock
        self._shelf = shelf

    def room(self, approval: Approval) -> Room | None:
        """Return the limit on skills that stand; raises MemoryInputError when this one could not be kept."""
        lesson_of(approval)
        _pattern_of(approval)
        frees = (self._skill_id(each.id) for each in approval.proposal.supersedes)
        return SkillRoom(limit=self._limit, action=ORG_PROMOTION, frees=[each for each in frees if each is not None])

    async def published(self, approval: Approval, fact_id: str) -> None:
        """Keep the skill; one that is there already stays as it is, retired or not."""
        lesson, now = lesson_of(approval), self._clock()
        self._skills.put(
            self._company,
            Skill(
                skill_id=fact_id,
                approval_id=approval.approval_id,
                pattern_id=_pattern_of(approval),
                state=SkillState.ACTIVE,
                confidence=lesson.confidence,
                text=lesson.model_dump_json(),
                published_at=now,
                changed_at=now,
            ),
        )
        await self._show(fact_id)

    async def superseded(self, fact_id: str, old: Superseded) -> None:
        """Note what was retracted of the skills: another publication of the same skill may stand since."""
        lines = self._log.history(self._company, old.id)
        if lines and lines[-1].kind == "retract" and lines[-1].memory_id == old.id:
            self._skills.supersede(self._company, lines[0].memory_id, by=fact_id)
            await self._show(lines[0].memory_id)

    async def withdrawn(self, fact_id: str) -> None:
        """Retire the skill, so that it supersedes nothing any more."""
        self._skills.retire(self._company, fact_id)
        await self._show(fact_id)

    def ended(self, fact_id: str, old: Superseded) -> bool | None:
        """Tell whether the old skill's row names this one; None where it is no skill."""
        skill_id = self._skill_id(old.id)
        found = None if skill_id is None else self._skills.get(self._company, skill_id)
        return None if found is None else found.state is SkillState.SUPERSEDED and found.superseded_by == fact_id

    async def returned(self, fact_id: str, old: Superseded) -> None:
        """Note that the old skill stands again, where it is published."""
        lines = self._log.history(self._company, old.id)
        if lines and lines[-1].kind == "publish":
            self._skills.restore(self._company, lines[0].memory_id, by=fact_id)
            await self._show(lines[0].memory_id)

    def _skill_id(self, memory_id: str) -> str | None:
        lines = self._log.history(self._company, memory_id)
        return lines[0].memory_id if lines else None

    async def _show(self, skill_id: str) -> None:
        if self._shelf is not None:
            await self._shelf.follow(skill_id)


def _pattern_of(approval: Approval) -> str:
    pattern_id = approval.proposal.details.get("pattern_id")
    if not isinstance(pattern_id, str) or not pattern_id:
        raise MemoryInputError("details.pattern_id", "must be the id of a pattern")
    return pattern_id
