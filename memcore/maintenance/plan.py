"""What a night would do, without doing it: for people to look at, and for the brake that asks them first."""

from pydantic import Field

from memcore.backends.record import MemoryRecord
from memcore.backends.where import Where
from memcore.config.consolidation import ConsolidationConfig
from memcore.frozen import Frozen
from memcore.ledger.run import RunStep
from memcore.maintenance.attempt import View
from memcore.maintenance.consolidation import chunks
from memcore.maintenance.pages import pages
from memcore.maintenance.retention import aged_filters, cutoffs, expired_filter
from memcore.maintenance.strategy import ConsolidationStrategy
from memcore.maintenance.value import ValueFunction
from memcore.maintenance.victims import lowest

#: Ids shown for a step: enough to look one up, few enough to read.
MAX_EXAMPLES = 5


class PlannedStep(Frozen):
    """One step of a plan.

    Attributes:
        step: which.
        removed: how many memories it would remove.
        examples: ids of the first few.
    """

    step: RunStep
    removed: int
    examples: tuple[str, ...] = Field(max_length=MAX_EXAMPLES)


class MaintenancePlan(Frozen):
    """What a night would do to an agent.

    Attributes:
        live: memories that the agent has now.
        steps: in the order in which they run.
        summaries: how many would be made.
        is_held: whether a run would stop and ask, because it would remove too large a share.
    """

    agent_id: str
    live: int
    steps: tuple[PlannedStep, ...]
    summaries: int
    is_held: bool

    @property
    def removed(self) -> int:
        """Memories that all steps together would remove."""
        return sum(step.removed for step in self.steps)

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


async def make_plan(view: View, strategy: ConsolidationStrategy | None, value: ValueFunction) -> MaintenancePlan:
    """Count what each step would remove, each after those before it; nothing is written or marked."""
    live = await view.backend.count_where(Where(agent_id=view.agent_id))
    retention = await _retention(view)
    merged: dict[str, None] = {}
    summaries = 0
    if strategy is not None:
        async for _, chunk in chunks(view, strategy):
            merged.update(dict.fromkeys(member.id for member in chunk))
            summaries += 1
    consolidation = PlannedStep(step=RunStep.CONSOLIDATION, removed=len(merged), examples=tuple(merged)[:MAX_EXAMPLES])
    free = await view.backend.count_where(Where(agent_id=view.agent_id, without_ids=view.held))
    excess = free - retention.removed - len(merged) + summaries - view.terms.max_memories
    enforcement = await _enforcement(view, value, excess, summaries=summaries, gone=frozenset(merged))
    steps = (retention, consolidation, enforcement)
    return MaintenancePlan(
        agent_id=view.agent_id,
        live=live,
        steps=steps,
        summaries=summaries,
        is_held=_is_large(sum(step.removed for step in steps), live, view.policy),
    )


def _is_large(removed: int, live: int, policy: ConsolidationConfig) -> bool:
    return removed > policy.max_removed_floor and removed > policy.max_removed_fraction * live


async def _retention(view: View) -> PlannedStep:
    expired = expired_filter(view.agent_id, view.now, held=view.held)
    aged = aged_filters(view.agent_id, cutoffs(view.terms.keep_days, view.now), held=view.held).values()
    removed = await view.backend.count_where(expired)
    for where in aged:
        removed += await view.backend.count_where(where)
        # One that is too old and has expired is removed once.
        removed -= await view.backend.count_where(where.model_copy(update={"expires_by": view.now}))
    examples: dict[str, None] = {}
    for where in (expired, *aged):
        if len(examples) < MAX_EXAMPLES:
            page = await view.backend.scan(where, limit=MAX_EXAMPLES)
            examples.update(dict.fromkeys(record.entry.id for record in page.records))
    return PlannedStep(step=RunStep.RETENTION, removed=removed, examples=tuple(examples)[:MAX_EXAMPLES])


async def _enforcement(
    view: View, value: ValueFunction, excess: int, *, summaries: int, gone: frozenset[str]
) -> PlannedStep:
    if excess <= 0:
        return PlannedStep(step=RunStep.ENFORCEMENT, removed=0, examples=())
    too_old = cutoffs(view.terms.keep_days, view.now)

    def stays_until_then(record: MemoryRecord) -> bool:
        entry = record.entry
        cutoff = too_old.get(entry.category)
        return not (
            entry.id in gone
            or (cutoff is not None and entry.created_at < cutoff)
            or (entry.expires_at is not None and entry.expires_at <= view.now)
        )

    free = Where(agent_id=view.agent_id, without_ids=view.held)
    first = await lowest(
        pages(view.backend, free),
        # New summaries may be among the victims: only so many of today's memories go for certain.
        size=max(0, min(excess - summaries, MAX_EXAMPLES)),
        value=value,
        now=view.now,
        counts=stays_until_then,
    )
    return PlannedStep(step=RunStep.ENFORCEMENT, removed=excess, examples=tuple(victim.id for victim in first))
