"""The action ``skill_evolver:org_promotion``: what the evolver proposes, and a person approves, for all agents."""

from collections.abc import Mapping, Sequence

from pydantic import ValidationError

from memcore.approval_models import Approval, ApprovalRisk, Proposal, Superseded
from memcore.approvals.published_text import PUBLISHER, request_of
from memcore.approvals.shared_publication import PublicationLog
from memcore.errors import MemoryInputError, MemoryNotFoundError
from memcore.models import MemoryCategory
from memcore.procedural.lesson_text import LessonText
from memcore.procedural.scope import ProceduralMemoryScope
from memcore.procedural.sections import written
from memcore.retrieval.memory_filter import NON_INFERABLE_TAG

#: The action's name.
ORG_PROMOTION = "skill_evolver:org_promotion"

#: Who proposes, unless somebody else does.
EVOLVER = "skill-evolver"

#: The tag of every skill of the organisation.
SKILL_TAG = "skill"

_LESSON_FIELDS = frozenset(LessonText.model_fields)


def promotion(
    lesson: LessonText,
    *,
    title: str,
    pattern_id: str,
    cycle_id: str,
    figures: Mapping[str, int | float | str],
    supersedes: Sequence[Superseded] = (),
    proposed_by: str = EVOLVER,
) -> Proposal:
    """Return the proposal to make a lesson a skill of all agents.

    Args:
        lesson: what it says.
        title: one line for lists and the webhook, with no word of the lesson.
        pattern_id: what it was learned from.
        cycle_id: the evolver's cycle.
        figures: what speaks for it.
        supersedes: the skills whose place it takes (see :func:`superseded_skill`).
        proposed_by: who proposes it.

    Raises MemoryInputError when a value breaks its limit, or the lesson could not be published once approved.
    """
    proposal = Proposal(
        action=ORG_PROMOTION,
        risk=ApprovalRisk.MEDIUM,
        title=title,
        content=written(lesson),
        proposed_by=proposed_by,
        supersedes=tuple(supersedes),
        figures=dict(figures),
        details={
            "cycle_id": cycle_id,
            "pattern_id": pattern_id,
            "scope": str(ProceduralMemoryScope.ORG),
            # What code and people decide about it is none of the lesson's text.
            "lesson": lesson.model_dump(mode="json", include=set(_LESSON_FIELDS)),
            "category": str(MemoryCategory.PROCEDURAL),
            "namespace": "default",
            "tags": list(dict.fromkeys((NON_INFERABLE_TAG, SKILL_TAG, *lesson.tags))),
            "confidence": lesson.confidence,
        },
    )
    # Better refused here than when somebody has approved it.
    request_of(proposal, source="approval", by=proposed_by)
    return proposal


def lesson_of(approval: Approval) -> LessonText:
    """Return the lesson that a promotion is about; MemoryInputError when it holds none."""
    try:
        return LessonText.model_validate(approval.proposal.details.get("lesson"))
    except ValidationError as error:
        raise MemoryInputError.of(error, prefix="details.lesson") from None


def superseded_skill(log: PublicationLog, company: str, skill_id: str) -> Superseded:
    """Return a skill, as it is published at this moment, as something to be superseded.

    Raises MemoryNotFoundError when it is not published.
    """
    lines = log.history(company, skill_id)
    if not lines or lines[-1].record is None:
        raise MemoryNotFoundError(f"supersedes: {skill_id!r} is no skill that stands; see `memtend skills list`")
    return Superseded(id=lines[-1].memory_id, content=lines[-1].record.entry.content, owner=PUBLISHER)
