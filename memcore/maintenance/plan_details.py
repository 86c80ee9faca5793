"""What a plan tells a person beyond its brake: what is merged with what, what is archived, what a model is asked."""

from collections.abc import AsyncIterator, Iterable

from memcore.backends.record import MemoryRecord
from memcore.backends.where import Where
from memcore.errors import AnswerMissingError
from memcore.ledger.run import RunStep
from memcore.maintenance.appraisal import Appraisal
from memcore.maintenance.attempt import View
from memcore.maintenance.consolidation import parts
from memcore.maintenance.draft import Draft
from memcore.maintenance.kept_answers import NoAnswers
from memcore.maintenance.member import Member
from memcore.maintenance.pages import pages
from memcore.maintenance.part import Part
from memcore.maintenance.plan import MAX_EXAMPLES, MaintenancePlan, PlannedGroup, PlannedStep, with_gone
from memcore.maintenance.strategy import ConsolidationStrategy
from memcore.maintenance.summary import summary_record
from memcore.maintenance.victims import lowest
from memcore.models import MemoryCategory

#: Text of a summary that a model would have to write first; what it is worth does not depend on it.
_UNWRITTEN = "not written yet"


async def with_details(
    plan: MaintenancePlan,
    view: View,
    strategy: ConsolidationStrategy | None,
    value: Appraisal,
    *,
    answers: NoAnswers,
) -> MaintenancePlan:
    """Return the plan with its groups and its figures of archive and models.

    Summaries that need no model are written in memory to see whether enforcement would take them again at once; that
    costs about what the consolidation itself does, so a night leaves it out.
    """
    view = await with_gone(view)
    found = _Found(view, answers)
    if strategy is not None:
        async for _, part in parts(view, strategy):
            await found.add(part, strategy)
    steps = tuple(
        [step if step.step is RunStep.RETENTION else await _detailed(step, view, found, value) for step in plan.steps]
    )
    return plan.model_copy(update={"steps": steps, "groups": found.groups()})


async def _detailed(step: PlannedStep, view: View, found: "_Found", value: Appraisal) -> PlannedStep:
    if step.step is RunStep.CONSOLIDATION:
        archived = [each.id for each in found.members]
        more = {"questions": found.questions, "tokens": found.tokens}
    else:
        archived, more = await _archived_by_enforcement(step, view, found, value), {}
    return step.model_copy(
        update={"archived": len(archived), "archived_examples": tuple(archived[:MAX_EXAMPLES]), **more}
    )


async def _archived_by_enforcement(step: PlannedStep, view: View, found: "_Found", value: Appraisal) -> list[str]:
    if not step.removed or not view.archiving.config.enabled:
        return []
    stays, gone = view.stays, {each.id for each in found.members}
    free = Where(agent_id=view.agent_id, without_ids=view.held)
    there = _then(pages(view.backend, free), found.summaries)
    victims = await lowest(
        there,
        size=step.removed,
        value=value,
        now=view.now,
        counts=lambda record: record.entry.id not in gone and stays(record),
    )
    return [victim.id for victim in victims if view.archiving.takes(victim.created_at)]


async def _then(
    found: AsyncIterator[tuple[MemoryRecord, ...]], more: Iterable[MemoryRecord]
) -> AsyncIterator[tuple[MemoryRecord, ...]]:
    async for page in found:
        yield page
    yield tuple(more)


class _Found:
    """What consolidation would do, gathered part by part."""

    def __init__(self, view: View, answers: NoAnswers) -> None:
        self._view = view
        self._answers = answers
        self._parts: list[Part] = []
        self.summaries: list[MemoryRecord] = []
        self.tokens = 0

    @property
    def questions(self) -> int:
        """How many a model would be asked."""
        return self._answers.asked

    @property
    def members(self) -> list[Member]:
        """All that would be merged."""
        return [member for part in self._parts for member in part.members]

    async def add(self, part: Part, strategy: ConsolidationStrategy) -> None:
        """Count a part, and write its summary as far as no model is needed."""
        self._parts.append(part)
        sources = await self._view.backend.get_many(self._view.agent_id, [member.id for member in part.members])
        kept = await self._view.backend.get_many(self._view.agent_id, [part.kept.id]) if part.kept else ()
        try:
            draft = await strategy.write(sources, kept=kept[0] if kept else None)
        except AnswerMissingError:
            draft = Draft(content=_UNWRITTEN)
            self.tokens += sum(member.tokens for member in part.members)
        self.summaries.append(summary_record(sources, draft, company=self._view.company, strategy=strategy.name))

    def groups(self) -> tuple[PlannedGroup, ...]:
        """Return what would be merged, by category and namespace, the largest first."""
        found: dict[tuple[MemoryCategory, str], list[Part]] = {}
        for part in self._parts:
            found.setdefault((part.members[0].category, part.members[0].namespace), []).append(part)
        groups = [_group(category, namespace, within) for (category, namespace), within in found.items()]
        return tuple(sorted(groups, key=lambda group: (-group.removed, group.category, group.namespace)))


def _group(category: MemoryCategory, namespace: str, within: list[Part]) -> PlannedGroup:
    times = [member.created_at for part in within for member in part.members]
    return PlannedGroup(
        category=category,
        namespace=namespace,
        removed=len(times),
        summaries=len(within),
        oldest=min(times),
        newest=max(times),
    )
