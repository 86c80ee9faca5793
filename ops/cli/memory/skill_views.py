"""``memtend skills list`` and ``memtend skills show``: the skills of the organisation, and how often each helped."""

from typing import Annotated, Any

import typer

from memcore.approvals.effects import visible
from memcore.errors import MemoryNotFoundError
from memcore.ledger.learning.skills import MAX_PAGE, Applications, Skill, SkillState
from memcore.ledger.ledger import Ledger
from memcore.models.approval import Approval
from memcore.procedural.records import DisclosureTier, LessonText, disclosed
from ops.cli.console import AsJson, say, show_facts, show_json, show_rows
from ops.cli.session import HomeOption, ledger_of, settings_of

_COLUMNS = (
    "state", "discovery", "confidence", "applications", "successes", "last_applied_at", "approved_by", "id",
)  # fmt: skip


def list_skills(
    state: Annotated[SkillState | None, typer.Option(help="Only those of this state.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=MAX_PAGE, help="Most rows, newest first.")] = 20,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Show the organisation's skills, newest first: state, who approved each, and how often it helped."""
    settings = settings_of(home)
    with ledger_of(settings) as ledger:
        found = ledger.skills.page(settings.company, state=state, limit=limit)
        counts = ledger.skills.applications(settings.company, [each.skill_id for each in found])
        approvals = {each.skill_id: ledger.approvals.get(settings.company, each.approval_id) for each in found}
    show_rows(
        (_row(each, counts.get(each.skill_id), approvals[each.skill_id], as_json=as_json) for each in found),
        columns=_COLUMNS,
        as_json=as_json,
    )


def show_skill(
    skill_id: Annotated[str, typer.Argument(help="The skill's id, or any id under which it was published.")],
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Show one skill whole: its text in three tiers, its origin, and what replaced it."""
    settings = settings_of(home)
    with ledger_of(settings) as ledger:
        lines = ledger.shared_log.history(settings.company, skill_id)
        skill = ledger.skills.get(settings.company, lines[0].memory_id if lines else skill_id)
        if skill is None:
            raise MemoryNotFoundError(f"skill_id: {skill_id!r} is no skill; see `memtend skills list`")
        counts = ledger.skills.applications(settings.company, [skill.skill_id]).get(skill.skill_id)
        approval = ledger.approvals.get(settings.company, skill.approval_id)
        facts = {
            **_row(skill, counts, approval, as_json=as_json),
            # The one under which agents find it.
            "memory_id": lines[-1].memory_id if lines and lines[-1].kind == "publish" else None,
            "supersedes": _supersedes(ledger, settings.company, approval),
        }
    lesson = _lesson(skill)
    if as_json:
        show_json({**facts, "lesson": lesson.model_dump(mode="json")})
        return
    show_facts(facts, as_json=False)
    for tier in DisclosureTier:
        text = disclosed(lesson, tier)
        if text:
            say(f"\n[{tier}]\n{visible(text)}")


def _row(skill: Skill, counts: Applications | None, approval: Approval | None, *, as_json: bool) -> dict[str, Any]:
    lesson = _lesson(skill)
    details: dict[str, Any] = approval.proposal.details if approval else {}
    return {
        "id": skill.skill_id,
        "state": str(skill.state),
        # JSON has no terminal to obey.
        "discovery": lesson.discovery if as_json else visible(lesson.discovery),
        "confidence": skill.confidence,
        "tags": lesson.tags,
        "applications": counts.applications if counts else 0,
        "successes": counts.successes if counts else 0,
        "last_applied_at": counts.last_applied_at if counts else None,
        "approved_by": approval.decided_by and visible(approval.decided_by) if approval else None,
        "approval_id": skill.approval_id,
        "pattern_id": skill.pattern_id,
        "cycle_id": details.get("cycle_id"),
        "figures": approval.proposal.figures if approval else {},
        "superseded_by": skill.superseded_by,
        "published_at": skill.published_at,
        "changed_at": skill.changed_at,
    }


def _supersedes(ledger: Ledger, company: str, approval: Approval | None) -> list[str]:
    old = (each.id for each in approval.proposal.supersedes) if approval else ()
    lines = ((memory_id, ledger.shared_log.history(company, memory_id)) for memory_id in old)
    return [known[0].memory_id if known else memory_id for memory_id, known in lines]


def _lesson(skill: Skill) -> LessonText:
    return LessonText.model_validate_json(skill.text)
