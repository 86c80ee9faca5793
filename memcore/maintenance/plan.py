"""What a night would do, without doing it: for people to look at, and for the brake that asks them first."""

from dataclasses import dataclass, replace

from pydantic import Field

from memcore.backends.where import Where
from memcore.clock import BoundedTime
from memcore.config.consolidation import ConsolidationConfig
from memcore.frozen import Frozen
from memcore.ledger.run import RunStep
from memcore.maintenance.appraisal import Appraisal
from memcore.maintenance.attempt import View
from memcore.maintenance.cleanup import rules
from memcore.maintenance.consolidation import parts
from memcore.maintenance.over import find_over
from memcore.maintenance.pages import pages
from memcore.maintenance.pruning import find_pruned
from memcore.maintenance.retention import aged_filters, aged_together, expired_filter, is_old
from memcore.maintenance.strategy import ConsolidationStrategy
from memcore.maintenance.victims import lowest
from memcore.models import MemoryCategory

#: Ids shown for a step: enough to look one up, few enough to read.
MAX_EXAMPLES = 5


class PlannedStep(Frozen):
    """One step of a plan.

    Attributes:
        step: which.
        removed: how many memories it would remove.
        examples: ids of the first few.
        pruned: how many of them are lessons that are forgotten.
        archived: how many of them would go to the archive.
        archived_examples: ids of the first few of these.
        questions: how many a language model would be asked.
        tokens: of the texts that it would be shown, an estimate; instructions and answers come on top.
    """

    step: RunStep
    removed: int
    examples: tuple[str, ...] = Field(max_length=MAX_EXAMPLES)
    pruned: int = 0
    archived: int = 0
    archived_examples: tuple[str, ...] = Field(default=(), max_length=MAX_EXAMPLES)
    questions: int = 0
    tokens: int = 0


class PlannedGroup(Frozen):
    """What consolidation would merge of one category and namespace.

    Attributes:
        removed: how many memories would go.
        summaries: how many would stand for them.
        oldest: when the oldest of them was made.
        newest: when the newest of them was made.
    """

    category: MemoryCategory
    namespace: str
    removed: int
    summaries: int
    oldest: BoundedTime
    newest: BoundedTime


class MaintenancePlan(Frozen):
    """What a night would do to an agent.

    Attributes:
        live: memories that the agent has now.
        steps: in the order in which they run.
        summaries: how many would be made.
        is_held: whether a run would stop and ask, because it would remove too large a share.
        waits: what a run lacks and would wait for before it consolidates, in one sentence; its merges are not counted.
        groups: what would be merged; empty, as all figures of archive and models are, unless details were asked for.
    """

    agent_id: str
    live: int
    steps: tuple[PlannedStep, ...]
    summaries: int
    is_held: bool
    groups: tuple[PlannedGroup, ...] = ()
    waits: str | None = None

    @property
    def removed(self) -> int:
        """Memories that all steps together would remove."""
        return sum(step.removed for step in self.steps)

    @property
    def pruned(self) -> int:
        """Lessons that would be forgotten."""
        return sum(step.pruned for step in self.steps)

    @property
    def archived(self) -> int:
        """Memories that all steps together would archive."""
        return sum(step.archived for step in self.steps)

    @property
    def questions(self) -> int:
        """Questions that a language model would be asked."""
        return sum(step.questions for step in self.steps)

    @property
    def tokens(self) -> int:
        """Tokens of the texts that it would be shown, an estimate."""
        return sum(step.tokens for step in self.steps)

    @property
    def share_removed(self) -> float:
        """The same as a share of the live ones, 0 to 1."""
        return self.removed / self.live if self.live else 0.0

    @property
    def reason(self) -> str:
        """Say in one sentence what is held, and how to let it go on."""
        return (
            f"would remove {self.removed} of {self.live} memories ({self.share_removed:.0%}), over "
            "consolidation.max_removed_fraction; look at the plan and release the run to let it"
        )


async def make_plan(
    view: View, strategy: ConsolidationStrategy | None, value: Appraisal, *, waits: str | None = None
) -> MaintenancePlan:
    """Count what each step would remove, each after those before it; nothing is written or marked."""
    view = await with_gone(view)
    live = await view.backend.count_where(Where(agent_id=view.agent_id))
    due = await _due(view)
    retention = await _retention(view, due)
    merged: dict[str, None] = {}
    summaries = 0
    if strategy is not None:
        async for _, part in parts(view, strategy):
            merged.update(dict.fromkeys(member.id for member in part.members))
            summaries += 1
    consolidation = PlannedStep(step=RunStep.CONSOLIDATION, removed=len(merged), examples=tuple(merged)[:MAX_EXAMPLES])
    free = await view.backend.count_where(Where(agent_id=view.agent_id, without_ids=view.held)) if view.held else live
    excess = free - retention.removed - len(merged) + summaries - view.terms.max_memories
    enforcement = await _enforcement(view, value, excess, summaries=summaries, gone=frozenset(merged))
    steps = (retention, consolidation, enforcement)
    return MaintenancePlan(
        agent_id=view.agent_id,
        live=live,
        steps=steps,
        summaries=summaries,
        # What ends with its session, project or task was never to stay: the brake looks at the others.
        is_held=_is_large(sum(step.removed for step in steps) - due.timely, live - due.timely, view.policy),
        waits=waits,
    )


async def with_gone(view: View) -> View:
    """Return the view with all that the retention step finds beside memories that are too old."""
    view = replace(view, over=await find_over(view))
    return replace(view, pruned=frozenset(await find_pruned(view)))


def _is_large(removed: int, live: int, policy: ConsolidationConfig) -> bool:
    return removed > policy.max_removed_floor and removed > policy.max_removed_fraction * live


@dataclass(frozen=True, slots=True)
class _Due:
    """What goes because its time is over.

    Attributes:
        only: with its session or project, and for no other reason.
        timely: with its session or project, or as a working memory of a task that is over.
    """

    only: int
    timely: int


async def _due(view: View) -> _Due:
    too_old = view.cutoffs
    silent = too_old.get(MemoryCategory.WORKING) if view.terms.working_timeout is not None else None
    working = aged_filters(view.agent_id, {MemoryCategory.WORKING: silent} if silent else {}, held=view.held)
    timely = sum([await view.backend.count_where(where) for where in working.values()])
    only, seen = 0, set[str]()
    for where in view.over.filters(view.agent_id, held=view.held):
        async for page in pages(view.backend, where):
            # A session and its project may be over, both of them.
            for record in (record for record in page if record.entry.id not in seen):
                seen.add(record.entry.id)
                only += not is_old(record.entry, too_old, view.now)
                is_working = record.entry.category is MemoryCategory.WORKING
                timely += not (silent is not None and is_working and record.entry.created_at < silent)
    return _Due(only, timely)


async def _retention(view: View, due: _Due) -> PlannedStep:
    expired = expired_filter(view.agent_id, view.now, held=view.held)
    aged = aged_together(view.agent_id, view.cutoffs, held=view.held)
    removed = due.only + len(view.pruned) + await view.backend.count_where(expired)
    for where in aged:
        if too_old := await view.backend.count_where(where):
            # One that is too old and has expired is removed once.
            removed += too_old - await view.backend.count_where(where.model_copy(update={"expires_by": view.now}))
    examples: dict[str, None] = {}
    for _, where in rules(view):
        if len(examples) < min(removed - len(view.pruned), MAX_EXAMPLES):
            page = await view.backend.scan(where, limit=MAX_EXAMPLES)
            examples.update(dict.fromkeys(record.entry.id for record in page.records))
    examples.update(dict.fromkeys(sorted(view.pruned)))
    return PlannedStep(
        step=RunStep.RETENTION, removed=removed, examples=tuple(examples)[:MAX_EXAMPLES], pruned=len(view.pruned)
    )


async def _enforcement(
    view: View, value: Appraisal, excess: int, *, summaries: int, gone: frozenset[str]
) -> PlannedStep:
    if excess <= 0:
        return PlannedStep(step=RunStep.ENFORCEMENT, removed=0, examples=())
    stays = view.stays
    free = Where(agent_id=view.agent_id, without_ids=view.held)
    first = await lowest(
        pages(view.backend, free),
        # New summaries may be among the victims: only so many of today's memories go for certain.
        size=max(0, min(excess - summaries, MAX_EXAMPLES)),
        value=value,
        now=view.now,
        counts=lambda record: record.entry.id not in gone and stays(record),
    )
    return PlannedStep(step=RunStep.ENFORCEMENT, removed=excess, examples=tuple(victim.id for victim in first))
