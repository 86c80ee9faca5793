"""The maintenance service: carries a run from claim to outcome, whatever its kind."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta
from functools import cache, partial
from typing import Self

from memcore.backends.factory import WorkerBackend
from memcore.backends.protocol import archive_index_of
from memcore.clock import Clock, utc_now
from memcore.company import CompanyContext
from memcore.config.maintenance import ConsolidationApply, ConsolidationConfig, PruningConfig
from memcore.config.memory import CorroborationConfig
from memcore.config.policy import Policy
from memcore.config.retrieval import MemoryRetrievalConfig
from memcore.config.settings import Settings
from memcore.errors import MemoryConfigError
from memcore.jobs import Done, Outcome, Skipped
from memcore.ledger.agents import check_kill_switch
from memcore.ledger.attempt import Attempt
from memcore.ledger.consolidation_groups import GroupState
from memcore.ledger.ledger import Ledger
from memcore.ledger.runs import FIRST_RUN_LIMIT, PLANNED_ENFORCED, PLANNED_MERGED, Run, RunStep
from memcore.ledger.work_items import WorkState
from memcore.maintenance.archival_store import expire_archive
from memcore.maintenance.consolidation.answers import CachedAnswers, NoAnswers
from memcore.maintenance.consolidation.factory import (
    ConsolidationDeps,
    CorpusVocabulary,
    StrategyBuilder,
    build_consolidation_strategy,
)
from memcore.maintenance.consolidation.llm import AnswerSource
from memcore.maintenance.consolidation.proposals import adopt_groups
from memcore.maintenance.consolidation.step import apply_consolidation, few_new, left_unmerged
from memcore.maintenance.consolidation.strategy import ConsolidationStrategy
from memcore.maintenance.corroboration import Corroboration
from memcore.maintenance.distrust import bring_back
from memcore.maintenance.enforcement import MemoryScorer, MemoryValue, apply_enforcement, installed_value
from memcore.maintenance.gate import Gate
from memcore.maintenance.outlook import Outlook, foresee
from memcore.maintenance.plan import (
    HeldPlan,
    MaintenancePlan,
    make_plan,
    plan_after_retention,
    plan_held,
    plan_retention,
    with_details,
    with_gone,
)
from memcore.maintenance.removals import JournaledStore
from memcore.maintenance.retention import apply_end, apply_pruning, apply_removal, apply_retention
from memcore.maintenance.rules import AgentSnapshot, EffectivePolicy, Timeouts
from memcore.maintenance.undo import apply_undo, run_counts
from memcore.models.memory import MemoryLevel
from memcore.models.memory_test import listed_names
from memcore.models.origin import AUTHORITIES, Authority, Channel
from memcore.telemetry import tracing
from memcore.telemetry.events import Event
from memcore.telemetry.tracing import Attribute

#: Delay of a run whose language model is missing: a person has to connect one first.
MODEL_DELAY = timedelta(hours=1)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class MaintenanceService:
    """Runs maintenance for the agents of one company.

    Args:
        level: how long memories live unless an agent has a level of its own.
        retrieval: how the agents' prompts are made; the gate makes its own alike.
        authorities: the authority of each channel; memories of several are not merged with one another.
        corroboration: what a run raises before it merges: what is raised stays as it is.
        has_model: whether a language model is connected to the workers that ask one; runs themselves never do.
        value: the value of a memory when an agent has too many; left out, the installed rule or the shipped one.
    """

    backend: WorkerBackend
    ledger: Ledger
    policy: ConsolidationConfig
    _: KW_ONLY
    company: str
    level: MemoryLevel
    timeouts: Timeouts = Timeouts()  # noqa: RUF009  # a frozen value
    pruning: PruningConfig | None = None
    retrieval: MemoryRetrievalConfig = MemoryRetrievalConfig()  # noqa: RUF009  # a frozen value
    authorities: Mapping[Channel, Authority] = AUTHORITIES
    corroboration: CorroborationConfig = CorroborationConfig()  # noqa: RUF009  # a frozen value
    clock: Clock = utc_now
    has_model: bool = False
    build_strategy: StrategyBuilder = build_consolidation_strategy
    value: MemoryValue = field(default_factory=installed_value)
    monotonic: Callable[[], float] = time.monotonic

    @classmethod
    def of(cls, context: CompanyContext) -> Self:
        """Build the service of a worker's company."""
        settings, policy, has_model = context.settings, context.policy, context.model is not None
        return cls.configured(
            settings, policy, context.backend, context.ledger, has_model=has_model, clock=context.clock
        )

    @classmethod
    def configured(
        cls,
        settings: Settings,
        policy: Policy,
        backend: WorkerBackend,
        ledger: Ledger,
        *,
        has_model: bool,
        clock: Clock = utc_now,
    ) -> Self:
        """Build the service of these settings and this policy."""
        memory = policy.memory
        return cls(
            backend,
            ledger,
            memory.consolidation,
            company=settings.company,
            level=memory.level,
            timeouts=Timeouts.of(memory.options),
            pruning=memory.procedural.pruning if memory.procedural.enabled else None,
            retrieval=memory.retrieval,
            authorities=memory.origins.authority,
            corroboration=memory.origins.corroboration,
            has_model=has_model,
            clock=clock,
        )

    async def plan_held(self, agent_id: str) -> HeldPlan:
        """Return what a held run of the agent would do now, group by group; no model is asked."""
        snapshot = await with_gone(self._snapshot(agent_id))
        strategy, _ = self._strategy(NoAnswers() if self.has_model else None)
        return await plan_held(snapshot, strategy, MemoryScorer(snapshot, self.value))

    async def plan(self, agent_id: str, *, in_detail: bool = True) -> MaintenancePlan:
        """Return what a run would do to the agent now, held or not; nothing is written, and no model is asked.

        Without details (groups, archive and model figures) it costs little more than counting.
        """
        answers = NoAnswers()
        snapshot, strategy, waits, few = await self._before(agent_id, answers)
        plan = await make_plan(snapshot, strategy, MemoryScorer(snapshot, self.value), waits=waits or few)
        if not in_detail:
            return plan
        gate = self._gate(snapshot)
        return await with_details(plan, snapshot, strategy, self.value, answers=answers, gate=gate)

    async def foresee(self, agent_id: str) -> Outlook:
        """Return what a run would do to the agent's memories now, one by one; nothing is written, no model is asked."""
        answers = NoAnswers()
        snapshot, strategy, waits, _ = await self._before(agent_id, answers)
        return await foresee(snapshot, strategy, self.value, answers=answers, gate=self._gate(snapshot), waits=waits)

    async def _before(
        self, agent_id: str, answers: NoAnswers
    ) -> tuple[AgentSnapshot, ConsolidationStrategy | None, str | None, str | None]:
        """Return an agent's memories, the strategy, what a run would wait for, and why it would merge nothing."""
        snapshot = self._snapshot(agent_id)
        strategy, missing = self._strategy(answers if self.has_model else None)
        few = None if strategy is None else await few_new(snapshot, strategy)
        return (snapshot, strategy, missing, None) if few is None else (snapshot, None, None, few.reason)

    async def run(self, run_id: str) -> Outcome:
        """Execute a run to its end or its next stop; a further call continues where it stopped.

        Returns:
            Done: finished; the facts are its counts.
            Skipped: finished already, leased by another worker, or held until a person approves it.
            Deferred: paused, a model is missing, or a passing failure: the run waits, and the next attempt finishes
                what this one decided.
            Retry: the ledger is away.
            Dead: a permanent failure; the reason is one sentence.
        """
        with Attempt(
            self.ledger.runs,
            self.company,
            run_id,
            switch=self._check_switch,
            fail=self._fail,
            monotonic=self.monotonic,
        ) as attempt:
            run = attempt.claim()
            about = {Attribute.RUN: run.run_id, Attribute.RUN_KIND: str(run.kind), Attribute.AGENT: run.agent_id}
            with tracing.span(f"run {run.kind}", about):
                attempt.outcome = await self._attempted(run, attempt)
        return attempt.outcome

    async def expire_archive(self) -> int:
        """Delete what the archive need not keep (``Archive.expired``), copies in the store first; return how many.

        A restored memory's entry is kept as long as its restore can be undone. Raises MemoryStoreError,
        MemoryConnectionError.
        """
        now, keep_days = self.clock(), self.policy.archival.keep_days
        return await expire_archive(
            self.ledger.archive,
            archive_index_of(self.backend),
            company=self.company,
            returned_before=now - timedelta(days=self.policy.journal_days),
            before=None if keep_days is None else now - timedelta(days=keep_days),
        )

    def _check_switch(self, run: Run) -> None:
        if run.kind not in {"undo", "restore"}:
            # A pause stops an end and a removal too. A policy without maintenance does not: they would never be done.
            is_enabled = run.kind != "maintenance" or self.policy.enabled
            check_kill_switch(self.ledger.agents, self.company, run.agent_id, is_enabled=is_enabled)

    async def _attempted(self, run: Run, attempt: Attempt[Run]) -> Outcome:
        _log.info(Event.CONSOLIDATION_MAINTENANCE_START, extra=_about(run))
        if run.kind == "maintenance":
            raising = Corroboration(
                self.backend,
                self.ledger,
                self.corroboration,
                company=self.company,
                authorities=self.authorities,
            )
            await raising.look(run.agent_id, now=self.clock())
        store = JournaledStore(self._snapshot(run.agent_id), run, self.ledger.journal, attempt.lease)
        await store.begin()
        stop = await self._executed(store, attempt)
        if stop is not None:
            return stop
        # A worker that lost its lease may have written an entry after begin(): it is a decision like any other.
        await store.begin()
        return self._done(run, attempt.token)

    async def _executed(self, store: JournaledStore, attempt: Attempt[Run]) -> Outcome | None:
        """Execute the run by its kind; None when all is done."""
        run, left = store.run, None
        match run.kind:
            case "maintenance":
                return await self._maintenance_run(store, attempt)
            case "undo":
                await apply_undo(store, self.ledger)
            case "restore":
                left = await bring_back(store, self.ledger)
            case "remove":
                left = await apply_removal(store, self.ledger.journal)
            case "update" | "changes":
                left = "who asked for it has carried it out"
            case kind:
                await apply_end(store, kind)
        return None if left is None else self._leave(run, attempt.token, left)

    async def _maintenance_run(self, store: JournaledStore, attempt: Attempt[Run]) -> Outcome | None:
        """Run the steps that are left; None when all are done."""
        run, token, step = store.run, attempt.token, store.run.step
        if step is RunStep.ADOPTION:
            return await self._adopt(store, token)
        if step is RunStep.ENFORCEMENT:
            await self._enforce(store)
            return None
        strategy, missing = self._strategy(CachedAnswers(self.ledger.answers, run) if self.has_model else None)
        # Again where a run waited for a model, maybe for a day: no other run of its agent was planned meanwhile.
        held = await self._retention(store, token)
        if held is not None or missing is not None:
            # Not judged yet: without its strategy nobody knows what the run would merge.
            return held or _wait(run, attempt, missing or "", MODEL_DELAY)
        if step is RunStep.RETENTION:
            judged = await self._judge(store, token, strategy)
            if not isinstance(judged, RunStep):
                return judged
            step = judged
        if step is not RunStep.ENFORCEMENT:
            stop = await self._consolidate(store, attempt, strategy, step)
            if stop is not None:
                return stop
        await self._enforce(store)
        return None

    async def _consolidate(
        self, store: JournaledStore, attempt: Attempt[Run], strategy: ConsolidationStrategy | None, step: RunStep
    ) -> Outcome | None:
        """Merge groups, or propose to; None when the limit has its turn."""
        run, token = store.run, attempt.token
        proposes = step is RunStep.PROPOSAL or self.policy.apply is ConsolidationApply.PROPOSE
        if strategy is not None:
            most = self._most(run, RunStep.CONSOLIDATION)
            syntheses = self.ledger.syntheses if self.has_model else None
            wait = await apply_consolidation(
                store,
                strategy,
                syntheses,
                cache(partial(self._gate, store.snapshot, run)),
                most=most,
                proposes=proposes,
            )
            if wait is not None:
                return _wait(run, attempt, wait.reason, wait.until)
        if proposes:
            return await self._proposed(store, token)
        self._advance(run, token, RunStep.ENFORCEMENT, **await left_unmerged(store.snapshot, strategy))
        return None

    async def _adopt(self, store: JournaledStore, token: str) -> Outcome | None:
        """Carry out what a person has adopted; once every group is decided, the limit has its turn."""
        await adopt_groups(store)
        if (held := await self._hold_with_groups(store, token)) is not None:
            return held
        self._advance(store.run, token, RunStep.ENFORCEMENT)
        await self._enforce(store)
        return None

    async def _judge(
        self, store: JournaledStore, token: str, strategy: ConsolidationStrategy | None
    ) -> RunStep | Outcome | None:
        """Save and return the step that follows retention, or hold the run; None when nothing is left to do."""
        run, counts, step = store.run, dict[str, int](), RunStep.CONSOLIDATION
        few = None if strategy is None or run.approved is not None else await few_new(store.snapshot, strategy)
        if few is not None:
            _log.info(Event.CONSOLIDATION_RUN_SKIPPED, extra={**_about(run), "reason": few.reason})
            # Saved as the next step: a later attempt must not consolidate what this one did not judge.
            strategy, counts, step = None, few.counts, RunStep.ENFORCEMENT
        if run.is_unbounded:
            self._advance(run, token, step, **counts)
            return step
        plan = await plan_after_retention(store.snapshot, strategy, MemoryScorer(store.snapshot, self.value))
        if plan.is_proposal:
            self._advance(run, token, RunStep.PROPOSAL)
            return RunStep.PROPOSAL
        reason = _reason_to_hold(run, plan)
        if reason is not None:
            limit = self._first_run_limit(run, plan)
            if limit is None:
                return self._hold(run, token, plan, reason)
            counts = {**counts, **_planned(run, plan), FIRST_RUN_LIMIT: limit}
            store.run = self._advance(run, token, step, **counts)
            return step
        if not plan.guarded:
            # The steps would find nothing either; what becomes due in between waits for the next run.
            counts = counts or await left_unmerged(store.snapshot, strategy)
            self._advance(run, token, RunStep.ENFORCEMENT, **_planned(run, plan), **counts)
            return None
        # Saved before the first of them is removed: a later attempt sees less and would judge another share.
        self._advance(run, token, step, **_planned(run, plan), **counts)
        return step

    def _first_run_limit(self, run: Run, plan: MaintenancePlan) -> int | None:
        """Return how many memories a run may remove that would be held, as a first run of its agent; None for none.

        After an import all of an agent's memories are new to maintenance: nobody is asked, and little goes at a time.
        An agent that had any other run is guarded as ever, whatever was imported or changed in the policy since. So
        is a run that a person asked for: it answers at once that it is held.
        """
        policy = self.policy
        limit = max(policy.max_removed_floor, int(policy.first_runs_fraction * plan.left))
        is_wanted = run.origin == "scheduled" and run.approved is None and policy.first_runs_fraction > 0
        is_wanted &= policy.apply is ConsolidationApply.AUTO
        # A limit below a group's size would merge nothing, however often it runs.
        if not is_wanted or limit < policy.group_max_entries or self.ledger.runs.is_settled(run.company, run.agent_id):
            return None
        return limit

    def _most(self, run: Run, step: RunStep) -> int | None:
        """Return how many memories a step may still remove; None where nothing bounds it."""
        approved, limit = run.approved, run.counts.get(FIRST_RUN_LIMIT)
        if approved is None and limit is None:
            return None
        removed = run_counts(self.ledger.journal, run)
        if approved is None:
            return (limit or 0) - removed["consolidated"] - removed["enforced"]
        if step is RunStep.CONSOLIDATION:
            return approved.merged - removed["consolidated"]
        return approved.enforced - removed["enforced"]

    async def _proposed(self, store: JournaledStore, token: str) -> Outcome | None:
        """Hold the run with the groups that it noted; where there are none, the limit alone is judged."""
        if (held := await self._hold_with_groups(store, token)) is not None:
            return held
        run = store.run
        plan = await plan_after_retention(store.snapshot, None, MemoryScorer(store.snapshot, self.value))
        if (reason := _reason_to_hold(run, plan)) is not None:
            return self._hold(run, token, plan, reason)
        self._advance(run, token, RunStep.ENFORCEMENT, **_planned(run, plan))
        return None

    async def _hold_with_groups(self, store: JournaledStore, token: str) -> Outcome | None:
        """Hold the run while a person has to decide about groups of it; None when there are none."""
        run, snapshot = store.run, store.snapshot
        groups = self.ledger.consolidation_groups.of_run(run.company, run.run_id, state=GroupState.PROPOSED)
        if not groups:
            return None
        merged, free = sum(len(each.source_ids) for each in groups), await snapshot.backend.count_where(snapshot.free)
        # Enforcing the limit before a decision would remove what a person looks at, or what a merge makes room for.
        excess = max(0, free - merged + len(groups) - snapshot.terms.max_memories)
        reason = (
            f"proposes {len(groups)} groups of {merged} memories; `memtend runs diff` shows them, "
            "`memtend runs adopt` and `memtend runs dismiss` decide"
        )
        shown = {"planned": merged + excess, PLANNED_MERGED: merged, PLANNED_ENFORCED: excess}
        return self._held(run, token, shown, reason, live=free, step=RunStep.ADOPTION)

    async def _enforce(self, store: JournaledStore) -> None:
        """Enforce the limit; a released run, as far as a person was shown."""
        most = self._most(store.run, RunStep.ENFORCEMENT)
        await apply_enforcement(store, MemoryScorer(store.snapshot, self.value), most=most)

    async def _retention(self, store: JournaledStore, token: str) -> Outcome | None:
        """Remove what ended, expired or is too old, and the pruned lessons; where nothing is due, the store counts.

        Behind a jump of the clock the run is held instead.
        """
        due = (await plan_retention(await with_gone(store.snapshot))).removed
        if not due:
            return None
        if self._is_doubtful(store.run):
            reason = (
                f"the clock jumped, and by its time {due} memories are too old; correct it and dismiss the run, or "
                "release the run when it is right"
            )
            live = await store.snapshot.backend.count_where(store.snapshot.free)
            shown = {"planned": due, PLANNED_MERGED: 0, PLANNED_ENFORCED: 0}
            return self._held(store.run, token, shown, reason, live=live, step=RunStep.RETENTION)
        await apply_retention(store)
        await apply_pruning(store)
        self._advance(store.run, token, store.run.step)
        return None

    def _is_doubtful(self, run: Run) -> bool:
        """Whether nobody has released a run, and its agent has had none since the clock jumped."""
        jumped_at = None if run.allow_large else self.ledger.ticks.jumped_at()
        last = None if jumped_at is None else self.ledger.runs.last_done(run.company, run.agent_id)
        return jumped_at is not None and (last is None or last.created_at < jumped_at)

    def _strategy(self, answers: AnswerSource | None) -> tuple[ConsolidationStrategy | None, str | None]:
        """Return the strategy, or one sentence why it cannot be built; neither when nothing is consolidated."""
        deps = ConsolidationDeps(
            policy=self.policy,
            answers=answers,
            vocabulary=CorpusVocabulary(self.backend),
        )
        try:
            return self.build_strategy(deps), None
        except MemoryConfigError as error:
            return None, str(error)

    def _gate(self, snapshot: AgentSnapshot, run: Run | None = None) -> Gate:
        """Return the gate of a run, with a model's probes, or of a plan, which asks no model."""
        answers = CachedAnswers(self.ledger.answers, run) if self.has_model and run is not None else None
        return Gate(snapshot, self.policy.gate, self.retrieval, answers=answers)

    def _counts(self, run: Run) -> dict[str, int]:
        counts = run_counts(self.ledger.journal, run)
        if run.kind == "maintenance":
            counts |= self.ledger.consolidation_groups.gate_counts(self.company, run.run_id)
        if run.kind == "undo":
            counts |= self.ledger.consolidation_groups.pair_counts(self.company, run.agent_id, run.run_id)
        return counts

    def _advance(self, run: Run, token: str, step: RunStep, **counts: int) -> Run:
        counts |= run_counts(self.ledger.journal, run)
        return self.ledger.runs.advance(self.company, run.run_id, token, step=step, counts=counts)

    def _done(self, run: Run, token: str) -> Outcome:
        found = self._counts(run)
        stayed, every = found.get("gate_refused"), found.get("gate_refused", 0) + found.get("summaries", 0)
        reason = f"the gate refused {stayed} of {every} groups; their memories stay as they are" if stayed else None
        if reason and found.get("gate_refused_for_tests"):
            names = self.ledger.consolidation_groups.protected_by_tests(self.company, run.run_id)
            reason += f"; memory tests that would have broken: {listed_names(names)}"
        if found.get("skipped") and not (found["restored"] or found["removed"]):
            reason = "nothing was undone: all of it has changed since; of several runs undo the newest first"
        counts = self._finish(run, token, WorkState.DONE, reason, counts=found)
        _log.info(Event.CONSOLIDATION_MAINTENANCE_COMPLETE, extra={**_about(run), **counts})
        return Done(facts=counts)

    def _leave(self, run: Run, token: str, reason: str) -> Outcome:
        self._finish(run, token, WorkState.SKIPPED, reason)
        _log.info(Event.CONSOLIDATION_RUN_SKIPPED, extra={**_about(run), "reason": reason})
        return Skipped(reason=reason)

    def _fail(self, run: Run, token: str, reason: str) -> None:
        self._finish(run, token, WorkState.FAILED, reason)
        _log.error(Event.CONSOLIDATION_MAINTENANCE_FAILED, extra={**_about(run), "reason": reason})

    def _finish(
        self, run: Run, token: str, state: WorkState, reason: str | None, *, counts: dict[str, int] | None = None
    ) -> dict[str, int]:
        counts = self._counts(run) if counts is None else counts
        # Where every run looks at all groups, one that holds nothing has found that nothing is left to decide.
        looked = state is WorkState.DONE and run.kind == "maintenance"
        replaces = looked and self.policy.apply is ConsolidationApply.PROPOSE
        self.ledger.runs.finish(
            self.company, run.run_id, token, state=state, counts=counts, reason=reason, replaces_held=replaces
        )
        return counts

    def _hold(self, run: Run, token: str, plan: MaintenancePlan, reason: str) -> Outcome:
        merged, enforced = plan.removed_by(RunStep.CONSOLIDATION), plan.removed_by(RunStep.ENFORCEMENT)
        shown = {"planned": plan.guarded, PLANNED_MERGED: merged, PLANNED_ENFORCED: enforced}
        return self._held(run, token, shown, reason, live=plan.left, step=RunStep.CONSOLIDATION)

    def _held(self, run: Run, token: str, shown: dict[str, int], reason: str, *, live: int, step: RunStep) -> Outcome:
        counts, state = self._counts(run) | shown, WorkState.HELD
        self.ledger.runs.finish(self.company, run.run_id, token, state=state, counts=counts, reason=reason, step=step)
        _log.warning(
            Event.CONSOLIDATION_MAINTENANCE_HELD, extra={**_about(run), "planned": shown["planned"], "live": live}
        )
        return Skipped(reason=reason)

    def _snapshot(self, agent_id: str) -> AgentSnapshot:
        agent = self.ledger.agents.get(self.company, agent_id)
        return AgentSnapshot(
            company=self.company,
            agent_id=agent_id,
            backend=self.backend,
            ledger=self.ledger,
            policy=self.policy,
            terms=EffectivePolicy.of(agent, self.policy, level=self.level, timeouts=self.timeouts),
            now=self.clock(),
            protected_by_undo=self.ledger.journal.protected_by_undo(self.company, agent_id),
            pruning=self.pruning,
            core_tag=self.retrieval.self_editing.core_memory_tag,
            authorities=self.authorities,
            hidden=self.ledger.hidden.of(self.company),
        )


def _reason_to_hold(run: Run, plan: MaintenancePlan) -> str | None:
    if run.approved is not None:
        return plan.grown(merged=run.approved.merged, enforced=run.approved.enforced)
    return plan.reason if plan.is_held and not run.is_unbounded else None


def _planned(run: Run, plan: MaintenancePlan) -> dict[str, int]:
    # A run that was allowed beforehand has no figures: they would bound it.
    return {} if run.is_unbounded else {"planned": run.counts.get("planned", plan.guarded)}


def _wait(run: Run, attempt: Attempt[Run], reason: str, until: datetime | timedelta) -> Outcome:
    _log.info(Event.CONSOLIDATION_RUN_SKIPPED, extra={**_about(run), "reason": reason})
    return attempt.wait(reason, until)


def _about(run: Run) -> dict[str, str | int]:
    return {"run_id": run.run_id, "agent_id": run.agent_id, "kind": run.kind, "attempt": run.attempt}
