"""Plans: what a run would do, without doing it; for people, and for the removal guard."""

import hashlib
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass, replace

from pydantic import Field

from memcore.backends.protocol import pages
from memcore.config.maintenance import ConsolidationApply, ConsolidationStrategyType
from memcore.errors import AnswerMissingError
from memcore.ledger.runs import RunStep
from memcore.maintenance.consolidation.answers import NoAnswers
from memcore.maintenance.consolidation.step import TokenCap, groups_by_filter, shown_tokens, written_from
from memcore.maintenance.consolidation.strategy import (
    ConsolidationStrategy,
    SummaryDraft,
    SummaryGroup,
    summary_record,
    write_draft,
)
from memcore.maintenance.enforcement import MemoryScorer, MemoryValue, lowest
from memcore.maintenance.gate import Gate, Verdict
from memcore.maintenance.probes import asks_model
from memcore.maintenance.retention import find_pruned
from memcore.maintenance.rules import AgentSnapshot, find_ended_scopes, is_old
from memcore.models.base import Frozen
from memcore.models.memory import BoundedTime, MemoryCategory
from memcore.records import MemoryRecord, Where

#: Ids shown for a step: enough to look one up, few enough to read.
MAX_EXAMPLES = 5


class PlannedStep(Frozen):
    """One step of a plan: how many memories it would remove and archive, and ids of the first few.

    ``pruned`` ones are lessons that are forgotten. A language model would be asked ``questions``, and shown texts of
    about so many ``tokens``; instructions and answers come on top.
    """

    step: RunStep
    removed: int
    examples: tuple[str, ...] = Field(max_length=MAX_EXAMPLES)
    pruned: int = 0
    archived: int = 0
    archived_examples: tuple[str, ...] = Field(default=(), max_length=MAX_EXAMPLES)
    questions: int = 0
    tokens: int = 0


#: Retention that finds nothing, or is done.
NOTHING_DUE = PlannedStep(step=RunStep.RETENTION, removed=0, examples=())


class PlannedGroup(Frozen):
    """The memories of one category and namespace that consolidation would merge."""

    category: MemoryCategory
    namespace: str
    removed: int
    summaries: int
    oldest: BoundedTime
    newest: BoundedTime


class PlannedGate(Frozen):
    """What the gate says about the summaries that need no model.

    Attributes:
        judged: the groups that it judged; those that a model would have to be asked about are not among them.
        refused: the groups that it would refuse, whose memories would stay; they are not taken off the other figures.
        probes, found_before, found_after: of all judged groups.
        tests: names of the memory tests that they would break.
        greatest_loss: the loss of the group that would lose most.
    """

    judged: int
    refused: int
    probes: int
    found_before: int
    found_after: int
    tests: tuple[str, ...] = ()
    greatest_loss: float


class MaintenancePlan(Frozen):
    """What a run would do to an agent's memories.

    Attributes:
        is_held: whether the removal guard would hold a run after retention, because consolidation and enforcement
            would remove too large a share of what is left, or it would be a proposal.
        is_proposal: whether a run would propose its merges to a person instead.
        waits: what a run would wait for before it consolidates, in one sentence; its merges are not counted.
        after: how many memories there would be once the run is done.
        is_lossless: whether all that would go says again what stays: no word is lost.
        groups: the memories to merge; empty, like all figures of archive and models, unless details were asked for.
        gate: what the gate says about the summaries; None unless details were asked for, and it judged any.
    """

    agent_id: str
    live: int
    steps: tuple[PlannedStep, ...]
    summaries: int
    is_held: bool
    after: int
    is_lossless: bool = False
    groups: tuple[PlannedGroup, ...] = ()
    waits: str | None = None
    is_proposal: bool = False
    gate: PlannedGate | None = None

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
    def left(self) -> int:
        """Memories that retention would leave: the removal guard judges a share of these."""
        return self.live - self.removed_by(RunStep.RETENTION)

    @property
    def guarded(self) -> int:
        """Memories that consolidation and enforcement together would remove: the removal guard counts only these."""
        return self.removed_by(RunStep.CONSOLIDATION) + self.removed_by(RunStep.ENFORCEMENT)

    def removed_by(self, name: RunStep) -> int:
        """Return how many memories a step would remove."""
        return sum(step.removed for step in self.steps if step.step is name)

    @property
    def reason(self) -> str:
        """One sentence: why the run is held, and how to approve it."""
        if self.is_proposal:
            merged = self.removed_by(RunStep.CONSOLIDATION)
            return f"would propose {self.summaries} groups of {merged} memories, for consolidation.apply is propose"
        enforced = self.removed_by(RunStep.ENFORCEMENT)
        lost = "no word is lost" if self.is_lossless else f"{self.removed_by(RunStep.CONSOLIDATION)} would be merged"
        lost += f", {enforced} over the limit removed" if enforced else ""
        return (
            f"{self.left} memories would become {self.after}: {lost}; more would be replaced than "
            "consolidation.max_removed_fraction allows; look at the plan and release the run to let it"
        )

    def grown(self, *, merged: int, enforced: int) -> str | None:
        """Return one sentence when the plan goes beyond these figures, which a person has approved; else None."""
        now = self.removed_by(RunStep.CONSOLIDATION), self.removed_by(RunStep.ENFORCEMENT)
        if now[0] <= merged and now[1] <= enforced:
            return None
        return (
            f"its plan has grown since it was shown: merged memories from {merged} to {now[0]}, memories over the "
            f"limit from {enforced} to {now[1]}; look at the plan and release the run again to let it"
        )


async def make_plan(
    snapshot: AgentSnapshot, strategy: ConsolidationStrategy | None, value: MemoryScorer, *, waits: str | None = None
) -> MaintenancePlan:
    """Count what each step would remove after the steps before it; nothing is written or claimed."""
    snapshot = await with_gone(snapshot)
    retention = await plan_retention(snapshot)
    return await plan_after_retention(snapshot, strategy, value, retention=retention, waits=waits)


async def plan_after_retention(
    snapshot: AgentSnapshot,
    strategy: ConsolidationStrategy | None,
    value: MemoryScorer,
    *,
    retention: PlannedStep = NOTHING_DUE,
    waits: str | None = None,
) -> MaintenancePlan:
    """Count what consolidation and enforcement would remove, after retention or before it."""
    live = await snapshot.backend.count_where(Where(agent_id=snapshot.agent_id))
    merged: dict[str, None] = {}
    summaries = 0
    if strategy is not None:
        async for _, groups in groups_by_filter(snapshot, strategy):
            merged.update(dict.fromkeys(member.id for group in groups for member in group.members))
            summaries += len(groups)
    consolidation = PlannedStep(step=RunStep.CONSOLIDATION, removed=len(merged), examples=tuple(merged)[:MAX_EXAMPLES])
    free = await snapshot.backend.count_where(snapshot.free) if snapshot.protected_by_undo else live
    excess = free - retention.removed - len(merged) + summaries - snapshot.terms.max_memories
    enforcement = await _enforcement(snapshot, value, excess, summaries=summaries, gone=frozenset(merged))
    guarded, policy = consolidation.removed + enforcement.removed, snapshot.policy
    is_proposal = bool(merged) and policy.apply is ConsolidationApply.PROPOSE
    is_large = guarded > max(policy.max_removed_floor, policy.max_removed_fraction * (live - retention.removed))
    return MaintenancePlan(
        agent_id=snapshot.agent_id,
        live=live,
        steps=(retention, consolidation, enforcement),
        summaries=summaries,
        is_held=is_proposal or is_large,
        after=live - retention.removed - guarded + summaries,
        is_lossless=bool(merged)
        and not (retention.removed or enforcement.removed)
        and strategy is not None
        and strategy.name == ConsolidationStrategyType.DEDUPE,
        is_proposal=is_proposal,
        waits=waits,
    )


class PlannedMerge(Frozen):
    """Memories that one would stand for, by a rule: the strategy's name; ``kept`` stays beside it."""

    rule: str
    members: tuple[str, ...]
    kept: str | None = None


class HeldPlan(Frozen):
    """What a held run would do now, group by group.

    Attributes:
        version: names exactly this plan; a release that names it is refused once the plan is another one.
        evicted: the first of the memories over the limit; their number is in ``plan``.
    """

    version: str
    plan: MaintenancePlan
    merges: tuple[PlannedMerge, ...]
    evicted: tuple[str, ...]


async def plan_held(snapshot: AgentSnapshot, strategy: ConsolidationStrategy | None, value: MemoryScorer) -> HeldPlan:
    """Return what a held run would do now, retention too where it is due; nothing is written or claimed."""
    retention = await plan_retention(snapshot)
    plan = await plan_after_retention(snapshot, strategy, value, retention=retention)
    merges: list[PlannedMerge] = []
    if strategy is not None:
        async for _, groups in groups_by_filter(snapshot, strategy):
            for group in groups:
                members = tuple(member.id for member in group.members)
                merges.append(PlannedMerge(rule=strategy.name, members=members, kept=group.kept and group.kept.id))
    enforced = [step for step in plan.steps if step.step is RunStep.ENFORCEMENT]
    named = sorted(f"{each.rule} {each.kept} {' '.join(sorted(each.members))}" for each in merges)
    said = "\n".join([*named, *(f"{step.removed} {' '.join(step.examples)}" for step in (retention, *enforced))])
    return HeldPlan(
        version=hashlib.sha256(said.encode()).hexdigest(),
        plan=plan,
        merges=tuple(merges),
        evicted=tuple(each for step in enforced for each in step.examples),
    )


async def with_gone(snapshot: AgentSnapshot) -> AgentSnapshot:
    """Return the snapshot with the ended scopes and the pruned lessons."""
    snapshot = replace(snapshot, ended_scopes=await find_ended_scopes(snapshot))
    return replace(snapshot, pruned=frozenset(await find_pruned(snapshot)))


async def _ended(snapshot: AgentSnapshot) -> int:
    """Count the memories that end with their session or project, and go for no other reason."""
    count, too_old, seen = 0, snapshot.retention_cutoffs, set[str]()
    for where in snapshot.ended_scopes.filters(snapshot.free):
        async for page in pages(snapshot.backend, where):
            # A session and its project may both have ended.
            for record in (record for record in page if record.entry.id not in seen):
                seen.add(record.entry.id)
                count += not is_old(record.entry, too_old, snapshot.now)
    return count


async def plan_retention(snapshot: AgentSnapshot) -> PlannedStep:
    """Count what retention and pruning would remove; the snapshot is one of :func:`with_gone`."""
    removed = await _ended(snapshot) + len(snapshot.pruned) + await snapshot.backend.count_where(snapshot.expired)
    for where in snapshot.aged_together:
        if too_old := await snapshot.backend.count_where(where):
            # A memory that is too old and has expired is counted once.
            removed += too_old - await snapshot.backend.count_where(
                where.model_copy(update={"expires_by": snapshot.now})
            )
    examples: dict[str, None] = {}
    for _, where in snapshot.due():
        if len(examples) < min(removed - len(snapshot.pruned), MAX_EXAMPLES):
            page = await snapshot.backend.scan(where, limit=MAX_EXAMPLES)
            examples.update(dict.fromkeys(record.entry.id for record in page.records))
    examples.update(dict.fromkeys(sorted(snapshot.pruned)))
    return PlannedStep(
        step=RunStep.RETENTION, removed=removed, examples=tuple(examples)[:MAX_EXAMPLES], pruned=len(snapshot.pruned)
    )


async def _enforcement(
    snapshot: AgentSnapshot, value: MemoryScorer, excess: int, *, summaries: int, gone: frozenset[str]
) -> PlannedStep:
    if excess <= 0:
        return PlannedStep(step=RunStep.ENFORCEMENT, removed=0, examples=())
    first = await lowest(
        pages(snapshot.backend, snapshot.free),
        # New summaries may be among the eviction candidates: so only this many of today's memories go for certain.
        size=max(0, min(excess - summaries, MAX_EXAMPLES)),
        value=value,
        counts=lambda record: record.entry.id not in gone and snapshot.survives_retention(record),
        kept_tags=snapshot.kept_tags,
    )
    return PlannedStep(step=RunStep.ENFORCEMENT, removed=excess, examples=tuple(each.id for each in first))


#: Text of a summary that a model would have to write; the value of a memory does not depend on its text.
_UNWRITTEN = "not written yet"


async def with_details(
    plan: MaintenancePlan,
    snapshot: AgentSnapshot,
    strategy: ConsolidationStrategy | None,
    rule: MemoryValue,
    *,
    answers: NoAnswers,
    gate: Gate,
) -> MaintenancePlan:
    """Return the plan with its groups, and its figures of archive and models.

    Summaries that need no model are written in memory, to see whether enforcement would remove them at once. That
    costs about as much as the consolidation itself, so a run skips it.
    """
    snapshot = await with_gone(snapshot)
    cap = TokenCap(snapshot.policy.max_tokens_per_run)
    drafts = [] if strategy is None else [each async for each in drafted(snapshot, strategy, answers, gate, cap)]
    members = [member.id for draft in drafts for member in draft.group.members]
    excess = plan.removed_by(RunStep.ENFORCEMENT)
    over_limit = await evicted(snapshot, rule, excess, gone=frozenset(members), drafts=drafts)
    more = {
        RunStep.CONSOLIDATION: {**_archived(members), "questions": answers.asked, "tokens": cap.used},
        RunStep.ENFORCEMENT: _archived(over_limit),
    }
    steps = tuple([step.model_copy(update=more.get(step.step)) for step in plan.steps])
    verdicts = [draft.verdict for draft in drafts if draft.verdict is not None]
    groups = _groups([draft.group for draft in drafts])
    return plan.model_copy(update={"steps": steps, "groups": groups, "gate": _judged(verdicts)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A group that a run would merge, its memories, and what would replace them.

    Attributes:
        summary: None where what the strategy writes would be no shorter: the memories stay.
        is_written: whether no model has to be asked for the summary's text first.
        keeps_uses: whether the summary is one of the memories, and is used as often as all of them.
    """

    group: SummaryGroup
    found: tuple[MemoryRecord, ...]
    summary: MemoryRecord | None
    is_written: bool
    keeps_uses: bool = False
    verdict: Verdict | None = None

    @property
    def is_adopted(self) -> bool:
        """Whether the summary is known, and no gate refuses it."""
        return self.summary is not None and self.is_written and not (self.verdict and self.verdict.is_refused)


async def drafted(
    snapshot: AgentSnapshot, strategy: ConsolidationStrategy, answers: NoAnswers, gate: Gate, cap: TokenCap
) -> AsyncIterator[Draft]:
    """Yield the groups that a run would merge, with their summaries; those that need a model count in ``answers``."""
    merged = [group async for _, groups in groups_by_filter(snapshot, strategy) for group in groups]
    for group in merged:
        members = [member.id for member in group.members]
        found = await snapshot.backend.get_many(snapshot.agent_id, members, with_vectors=True)
        sources = written_from(found, strategy, snapshot.ledger.archive, company=snapshot.company)
        kept = await snapshot.backend.get_many(snapshot.agent_id, [group.kept.id]) if group.kept else ()
        asked, is_written = answers.asked, True
        try:
            draft: SummaryDraft | None = await write_draft(
                strategy, sources, kept=kept[0] if kept else None, is_fallback=group.is_fallback
            )
        except AnswerMissingError:
            draft, is_written = SummaryDraft(content=_UNWRITTEN), False
            if not cap.takes(shown_tokens(sources, snapshot.policy)):
                answers.asked = asked
            elif asks_model(snapshot.policy):
                answers.asked += 1
        if draft is None:
            yield Draft(group=group, found=found, summary=None, is_written=True)
            continue
        summary = summary_record(sources, draft, company=snapshot.company, strategy=strategy.name, replaced=found)
        fallback_id = members[0] if group.is_fallback else None
        verdict = await gate.judge(sources, summary, fallback_id=fallback_id) if is_written else None
        yield Draft(
            group=group,
            found=found,
            summary=summary,
            is_written=is_written,
            keeps_uses=group.is_fallback or draft.same_as is not None,
            verdict=verdict,
        )


def _judged(verdicts: Sequence[Verdict]) -> PlannedGate | None:
    if not verdicts:
        return None
    figures = [verdict.figures for verdict in verdicts]
    return PlannedGate(
        judged=len(verdicts),
        refused=sum(verdict.is_refused for verdict in verdicts),
        probes=sum(each.probes for each in figures),
        found_before=sum(each.found_before for each in figures),
        found_after=sum(each.found_after for each in figures),
        tests=tuple(sorted({name for verdict in verdicts for name in verdict.tests})),
        greatest_loss=max(each.loss for each in figures),
    )


def _archived(ids: Sequence[str]) -> dict[str, object]:
    return {"archived": len(ids), "archived_examples": tuple(ids[:MAX_EXAMPLES])}


async def evicted(
    snapshot: AgentSnapshot, rule: MemoryValue, excess: int, *, gone: Collection[str], drafts: Sequence[Draft]
) -> list[str]:
    """Return the ids of what enforcement would remove once the drafts' summaries stand for their memories.

    ``gone`` are memories that the steps before would have taken, those of the drafts among them.
    """
    if excess <= 0:
        return []

    async def then() -> AsyncIterator[tuple[MemoryRecord, ...]]:
        async for page in pages(snapshot.backend, snapshot.free):
            yield tuple(each for each in page if each.entry.id not in gone and snapshot.survives_retention(each))
        yield tuple(draft.summary for draft in drafts if draft.summary is not None)

    uses = {
        draft.summary.entry.id: tuple(each.entry.id for each in draft.found)
        for draft in drafts
        if draft.keeps_uses and draft.is_adopted and draft.summary is not None
    }
    scorer = MemoryScorer(snapshot, rule, every=then, replaced=uses)
    return [each.id for each in await lowest(then(), size=excess, value=scorer, kept_tags=snapshot.kept_tags)]


def _groups(merged: Sequence[SummaryGroup]) -> tuple[PlannedGroup, ...]:
    """Return what would be merged, by category and namespace, the largest first."""
    found: defaultdict[tuple[MemoryCategory, str], list[SummaryGroup]] = defaultdict(list)
    for part in merged:
        found[part.members[0].category, part.members[0].namespace].append(part)
    groups: list[PlannedGroup] = []
    for (category, namespace), within in found.items():
        times = [member.created_at for part in within for member in part.members]
        groups.append(
            PlannedGroup(
                category=category,
                namespace=namespace,
                removed=len(times),
                summaries=len(within),
                oldest=min(times),
                newest=max(times),
            )
        )
    return tuple(sorted(groups, key=lambda group: (-group.removed, group.category, group.namespace)))
