"""The action ``skill_evolver:org_promotion``: its proposal, the published skills' rows and folders, and their use.

And an installation's approvals, with every effect that it can carry out.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Self

from pydantic import TypeAdapter, ValidationError

from memcore.approvals import (
    PUBLISHER,
    ApprovalEffects,
    ApprovalService,
    AuditNotes,
    EffectRegistry,
    MemoryRaising,
    PublicationLog,
    SharedLogProvider,
    SharedPublication,
    Webhook,
    request_of,
)
from memcore.backends.protocol import MemoryBackend, SharedKnowledgeStore, sharing_of
from memcore.clock import Clock, utc_now
from memcore.company import CompanyContext
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.errors import MemoryConfigError, MemoryInputError, MemoryNotFoundError
from memcore.ledger.learning.skills import Skill, Skills, SkillSource, SkillState, require_skill_capacity
from memcore.ledger.ledger import Ledger
from memcore.ledger.organization.approvals import CapacityLimit
from memcore.models.approval import Approval, ApprovalRisk, Proposal, Superseded
from memcore.models.memory import NON_INFERABLE_TAG, MemoryCategory
from memcore.procedural.records import LessonText, ProceduralMemoryScope, written
from memcore.procedural.skill_files import SkillFolders
from memcore.telemetry.events import Event

#: The action's name.
ORG_PROMOTION = "skill_evolver:org_promotion"

#: Who proposes.
EVOLVER = "skill-evolver"

#: The tag of every skill of the organisation.
SKILL_TAG = "skill"

_Sources: TypeAdapter[tuple[SkillSource, ...]] = TypeAdapter(tuple[SkillSource, ...])

_LESSON_FIELDS = frozenset(LessonText.model_fields)


def promotion(
    lesson: LessonText,
    *,
    title: str,
    pattern_id: str,
    cycle_id: str,
    figures: Mapping[str, int | float | str],
    supersedes: Sequence[Superseded] = (),
    sources: Sequence[SkillSource] = (),
) -> Proposal:
    """Return the proposal to make a lesson a skill of all agents.

    Raises MemoryInputError when a value breaks its limit, or the lesson could not be published once approved.
    """
    proposal = Proposal(
        action=ORG_PROMOTION,
        risk=ApprovalRisk.MEDIUM,
        title=title,
        content=written(lesson),
        proposed_by=EVOLVER,
        supersedes=tuple(supersedes),
        figures=dict(figures),
        details={
            "cycle_id": cycle_id,
            "pattern_id": pattern_id,
            "scope": str(ProceduralMemoryScope.ORG),
            # Decisions of code and people are no part of the lesson's text.
            "lesson": lesson.model_dump(mode="json", include=set(_LESSON_FIELDS)),
            "category": str(MemoryCategory.PROCEDURAL),
            "namespace": "default",
            "tags": list(dict.fromkeys((NON_INFERABLE_TAG, SKILL_TAG, *lesson.tags))),
            "confidence": lesson.confidence,
            "sources": [each.model_dump(mode="json") for each in sources],
        },
    )
    # Refuse it here rather than after somebody has approved it.
    request_of(proposal, source="approval", by=EVOLVER)
    return proposal


def lesson_of(approval: Approval) -> LessonText:
    """Return the lesson that a promotion is about; MemoryInputError when it holds none."""
    try:
        return LessonText.model_validate(approval.proposal.details.get("lesson"), extra="ignore")
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


_log = logging.getLogger(__name__)


class SkillStore:
    """Writes and removes the folders of published skills; disk errors are logged, and stop nothing."""

    def __init__(self, folders: SkillFolders, skills: Skills, *, company: str) -> None:
        self._folders = folders
        self._skills = skills
        self._company = company

    async def follow(self, skill_id: str) -> None:
        """Make the folder match the row, also when another process changes the row meanwhile."""
        found = self._skills.get(self._company, skill_id)
        while found is not None:
            try:
                await asyncio.to_thread(self._put, found)
            except (OSError, MemoryConfigError) as error:
                # Its class alone: the message names a path.
                _log.warning(
                    Event.PROCEDURAL_MEMORY_SKILL_MD_FAILED,
                    extra={"memory_id": skill_id, "error": type(error).__name__},
                )
                return
            shown, found = found, self._skills.get(self._company, skill_id)
            if found is None or found.state is shown.state:
                return

    def _put(self, skill: Skill) -> None:
        lesson = LessonText.model_validate_json(skill.text, extra="ignore")
        if skill.state is not SkillState.ACTIVE:
            self._folders.remove(lesson, memory_id=skill.skill_id)
            return
        name = self._folders.write(lesson, memory_id=skill.skill_id, source=f"approval:{skill.approval_id}")
        _log.info(Event.PROCEDURAL_MEMORY_SKILL_MD_WRITTEN, extra={"memory_id": skill.skill_id, "skill": name})


@dataclass(frozen=True, eq=False)
class SkillRows(AuditNotes):
    """Keeps the rows of skills in step with their publications.

    A row changes only from the expected state: a late caller finds another one, and changes nothing.
    """

    skills: Skills
    log: PublicationLog
    _: KW_ONLY
    company: str
    limit: int
    clock: Clock
    skill_store: SkillStore | None = None

    def room(self, approval: Approval) -> CapacityLimit | None:
        """Return the limit on skills that stand; raises MemoryInputError when this one could not be kept."""
        lesson_of(approval)
        _sources_of(approval)
        _pattern_of(approval)
        ids = (self._skill_id(each.id) for each in approval.proposal.supersedes)
        frees = [each for each in ids if each is not None]
        return partial(require_skill_capacity, limit=self.limit, action=ORG_PROMOTION, frees=frees)

    async def published(self, approval: Approval, fact_id: str) -> None:
        """Keep the skill; one that is there already stays as it is, retired or not."""
        lesson, now = lesson_of(approval), self.clock()
        self.skills.put(
            self.company,
            Skill(
                skill_id=fact_id,
                approval_id=approval.approval_id,
                pattern_id=_pattern_of(approval),
                state=SkillState.ACTIVE,
                confidence=lesson.confidence,
                text=lesson.model_dump_json(),
                published_at=now,
                changed_at=now,
                sources=_sources_of(approval),
            ),
        )
        await self._show(fact_id)

    async def superseded(self, fact_id: str, old: Superseded) -> None:
        """Note what was retracted of the skills: another publication of the same skill may stand since."""
        lines = self.log.history(self.company, old.id)
        if lines and lines[-1].kind == "retract" and lines[-1].memory_id == old.id:
            self.skills.supersede(self.company, lines[0].memory_id, by=fact_id)
            await self._show(lines[0].memory_id)

    async def withdrawn(self, fact_id: str) -> None:
        """Retire the skill, so that it supersedes nothing any more."""
        self.skills.retire(self.company, fact_id)
        await self._show(fact_id)

    def ended(self, fact_id: str, old: Superseded) -> bool | None:
        """Whether the old skill's row names this one; None where it is no skill."""
        skill_id = self._skill_id(old.id)
        found = None if skill_id is None else self.skills.get(self.company, skill_id)
        return None if found is None else found.state is SkillState.SUPERSEDED and found.superseded_by == fact_id

    async def returned(self, fact_id: str, old: Superseded) -> None:
        """Note that the old skill stands again, where it is published."""
        lines = self.log.history(self.company, old.id)
        if lines and lines[-1].kind == "publish":
            self.skills.restore(self.company, lines[0].memory_id, by=fact_id)
            await self._show(lines[0].memory_id)

    def _skill_id(self, memory_id: str) -> str | None:
        lines = self.log.history(self.company, memory_id)
        return lines[0].memory_id if lines else None

    async def _show(self, skill_id: str) -> None:
        if self.skill_store is not None:
            await self.skill_store.follow(skill_id)


def _sources_of(approval: Approval) -> tuple[SkillSource, ...]:
    try:
        return _Sources.validate_python(approval.proposal.details.get("sources", ()), extra="ignore")
    except ValidationError as error:
        raise MemoryInputError.of(error, prefix="details.sources") from None


def promoted_of(approval: Approval) -> tuple[SkillSource, ...]:
    """Return the lessons among which a proposed skill was chosen; none of another proposal, or an unreadable one."""
    try:
        return _sources_of(approval) if approval.proposal.action == ORG_PROMOTION else ()
    except MemoryInputError:
        return ()


def _pattern_of(approval: Approval) -> str:
    pattern_id = approval.proposal.details.get("pattern_id")
    if not isinstance(pattern_id, str) or not pattern_id:
        raise MemoryInputError("details.pattern_id", "must be the id of a pattern")
    return pattern_id


class SkillApprovals(ApprovalService):
    """The approvals of a company; one that is approved publishes its skill."""

    @classmethod
    def of(cls, context: CompanyContext) -> Self:
        """Build the service of a worker's company."""
        return cls.configured(
            context.settings, context.policy, context.ledger, backend=context.backend, clock=context.clock
        )

    @classmethod
    def configured(
        cls,
        settings: Settings,
        policy: Policy,
        ledger: Ledger,
        *,
        backend: MemoryBackend | None = None,
        clock: Clock = utc_now,
    ) -> Self:
        """Build the service of these settings and this policy; without a backend nothing can be approved."""
        store = sharing_of(backend)
        published = () if store is None else _publications(settings, policy, ledger, store, clock=clock)
        effects = (*published, MemoryRaising(ledger.raised, company=settings.company))
        webhook = settings.approvals_webhook
        return cls(
            ledger.approvals,
            EffectRegistry(effects),
            company=settings.company,
            lasts=policy.memory.approvals.lasts,
            notice=None if webhook is None else Webhook(webhook.get_secret_value()),
            most_waiting=policy.memory.approvals.max_waiting,
        )


def _publications(
    settings: Settings, policy: Policy, ledger: Ledger, store: SharedKnowledgeStore, *, clock: Clock
) -> Iterator[ApprovalEffects]:
    log: PublicationLog = store.shared_log if isinstance(store, SharedLogProvider) else ledger.shared_log
    company, procedural = settings.company, policy.memory.procedural
    skill_store = None
    if procedural.skill_md_directory is not None:
        # One that begins with a slash stands for itself.
        skill_store = SkillStore(
            SkillFolders(settings.home / procedural.skill_md_directory, company=company), ledger.skills, company=company
        )
    notes = SkillRows(
        ledger.skills,
        log,
        company=company,
        limit=procedural.evolver.max_org_entries,
        clock=clock,
        skill_store=skill_store,
    )
    yield SharedPublication(store, log, ledger.approvals, company=company, clock=clock)
    yield SharedPublication(
        store, log, ledger.approvals, company=company, clock=clock, action=ORG_PROMOTION, notes=notes
    )
