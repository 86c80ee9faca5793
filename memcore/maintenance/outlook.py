"""Outlooks: what an agent's memories would be after its next run, one by one, without making it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memcore.backends.protocol import pages
from memcore.ledger.runs import RunStep
from memcore.maintenance.consolidation.answers import NoAnswers
from memcore.maintenance.consolidation.step import TokenCap
from memcore.maintenance.consolidation.strategy import ConsolidationStrategy
from memcore.maintenance.enforcement import MemoryScorer, MemoryValue
from memcore.maintenance.gate import Gate
from memcore.maintenance.plan import Draft, drafted, evicted, make_plan, with_gone
from memcore.maintenance.rules import AgentSnapshot
from memcore.records import MemoryRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What the next run would do to an agent's memories.

    Attributes:
        snapshot: the agent, and the rules by which the run would go.
        live: memories that are there now.
        gone: the ids of those that go, with the step that takes them.
        adopted: the groups whose memories a summary would replace.
        refused: groups that the gate would leave as they are.
        asking: groups about which a model would be asked first; their memories are not among those that go, and the
            limit is enforced as if they were.
        stops: one sentence why the run would be held after retention, or wait; None where it would come to its end.
    """

    snapshot: AgentSnapshot
    live: int
    gone: Mapping[str, RunStep]
    adopted: tuple[Draft, ...] = ()
    refused: int = 0
    asking: int = 0
    stops: str | None = None

    @property
    def summaries(self) -> tuple[MemoryRecord, ...]:
        """The memories that would come."""
        return tuple(each.summary for each in self.adopted if each.summary is not None)

    @property
    def after(self) -> int:
        """How many memories there would be."""
        made = {each.entry.id for each in self.summaries}
        return self.live - len(self.gone.keys() - made) + len(made - self.gone.keys())

    def removed_by(self, step: RunStep) -> int:
        """Return how many memories a step would take."""
        return sum(each is step for each in self.gone.values())


async def foresee(
    snapshot: AgentSnapshot,
    strategy: ConsolidationStrategy | None,
    value: MemoryValue,
    *,
    answers: NoAnswers,
    gate: Gate,
    waits: str | None = None,
) -> Outlook:
    """Return what a run that starts now would do; nothing is written, and no model is asked.

    ``waits`` says what the run would wait for before it merges anything.
    """
    snapshot = await with_gone(snapshot)
    plan = await make_plan(snapshot, strategy, MemoryScorer(snapshot, value), waits=waits)
    gone = dict.fromkeys(await _due(snapshot), RunStep.RETENTION)
    if waits is not None or plan.is_held:
        return Outlook(snapshot=snapshot, live=plan.live, gone=gone, stops=waits or plan.reason)
    cap = TokenCap(snapshot.policy.max_tokens_per_run)
    drafts = [] if strategy is None else [each async for each in drafted(snapshot, strategy, answers, gate, cap)]
    adopted = tuple(each for each in drafts if each.is_adopted)
    asking = [each for each in drafts if not each.is_written]
    gone |= dict.fromkeys(_members(adopted), RunStep.CONSOLIDATION)
    replaced = {*gone, *_members(asking)}
    coming = [each for each in (*adopted, *asking) if each.summary is not None]
    free = await snapshot.backend.count_where(snapshot.free) if snapshot.protected_by_undo else plan.live
    excess = free - len(replaced) + len(coming) - snapshot.terms.max_memories
    over = await evicted(snapshot, value, excess, gone=replaced, drafts=coming)
    gone |= dict.fromkeys(over, RunStep.ENFORCEMENT)
    return Outlook(
        snapshot=snapshot,
        live=plan.live,
        gone=gone,
        adopted=adopted,
        refused=sum(each.verdict is not None and each.verdict.is_refused for each in drafts),
        asking=len(asking),
    )


def _members(drafts: Sequence[Draft]) -> list[str]:
    return [record.entry.id for draft in drafts for record in draft.found]


async def _due(snapshot: AgentSnapshot) -> list[str]:
    """Return the ids of what retention and pruning would remove."""
    due = [where for _, where in snapshot.due()]
    found = [record.entry.id for where in due async for page in pages(snapshot.backend, where) for record in page]
    return [*found, *sorted(snapshot.pruned)]
