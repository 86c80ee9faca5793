"""The job beside the night: a model is asked about one part of a run, and its answer kept for the night to use."""

import logging
from dataclasses import dataclass
from datetime import timedelta

from memcore.backends.factory import WorkerBackend
from memcore.clock import Clock, utc_now
from memcore.config.consolidation import ConsolidationConfig
from memcore.config.llm_consolidation import LLMConsolidationConfig
from memcore.errors import AnswerMissingError, BudgetExceededError, MaintenancePausedError, ProviderError
from memcore.jobs.outcomes import Dead, Done, Outcome, Skipped
from memcore.ledger.ledger import Ledger
from memcore.ledger.run import Run, RunState
from memcore.ledger.synthesis import Synthesis, SynthesisState
from memcore.llm.held_question import QUESTION_RENEWAL
from memcore.llm.protocol import Model
from memcore.maintenance.events import MaintenanceEvent
from memcore.maintenance.factory import ConsolidationDeps, StrategyBuilder, build_consolidation_strategy
from memcore.maintenance.live_answers import LiveAnswers
from memcore.maintenance.switch import KillSwitch
from memcore.maintenance.trajectories import RecentTrajectories

#: Runs whose parts are still of use.
_ACTIVE = frozenset({RunState.QUEUED, RunState.RUNNING})

#: Fewer memories than this need no summary.
_LEAST_SOURCES = 2

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """How it went.

    Attributes:
        outcome: of the job.
        night: the run to ring for, when it has nothing left to wait for.
    """

    outcome: Outcome
    night: Run | None = None


class SynthesisService:
    """Ask a model on behalf of nights; nothing in the store is changed here, so no lease of a run is needed.

    Args:
        backend: where the memories are read.
        ledger: runs, their parts, answers, switches.
        policy: the company's decisions.
        company: whose runs.
        model: who is asked; None when none is connected.
        clock: the time.
        build_strategy: makes the strategy, as for the night.
        renewal: time between two signs of life while the model thinks.
    """

    def __init__(
        self,
        backend: WorkerBackend,
        ledger: Ledger,
        policy: ConsolidationConfig,
        *,
        company: str,
        model: Model | None,
        clock: Clock = utc_now,
        build_strategy: StrategyBuilder = build_consolidation_strategy,
        renewal: timedelta = QUESTION_RENEWAL,
    ) -> None:
        self._backend = backend
        self._ledger = ledger
        self._policy = policy
        self._company = company
        self._model = model
        self._clock = clock
        self._build_strategy = build_strategy
        self._renewal = renewal

    async def ask(self, run_id: str, place: int) -> Asked:
        """Ask what one part needs to know; doing it again asks nothing twice.

        Returns:
            Done: all answers are kept; the night can go on with this part.
            Skipped: nothing to ask now; the reason says why, and the night rings again where it must.
            Dead: the run is unknown, or another company's.

        Raises:
            MemoryError: the store or the ledger is in passing trouble.
        """
        run = self._ledger.runs.get(run_id)
        if run is None or run.company != self._company:
            return Asked(outcome=Dead(reason=f"run {run_id} is unknown here"))
        part = self._ledger.syntheses.get(run_id, place)
        if part is None or not part.is_awake(self._clock()) or run.state not in _ACTIVE:
            return Asked(outcome=Skipped(reason="nobody waits for this part now"))
        if self._model is None:
            return Asked(outcome=Skipped(reason="no language model is connected to this worker: set MEMTEND_LLM_URL"))
        outcome: Outcome = Done(facts={"asked": 1})
        try:
            self._switch(run).check()
            await self._ask(run, part, self._model)
        except (AnswerMissingError, MaintenancePausedError) as error:
            return Asked(outcome=Skipped(reason=str(error)))
        except (BudgetExceededError, ProviderError) as error:
            outcome, is_over = Skipped(reason=str(error)), self._put_off(part, error)
        else:
            self._ledger.syntheses.turn(run_id, place, SynthesisState.READY)
            is_over = not self._ledger.syntheses.is_waiting(run_id)
        return Asked(outcome=outcome, night=self._ledger.runs.wake(run_id) if is_over else None)

    def _put_off(self, part: Synthesis, error: BudgetExceededError | ProviderError) -> bool:
        """Let all parts of the run sleep, or give them up; False when that has been done."""
        syntheses = self._ledger.syntheses
        if isinstance(error, BudgetExceededError):
            return syntheses.sleep(part.run_id, until=error.until, reason=str(error))
        return syntheses.refuse(part.run_id, reason=str(error))

    async def _ask(self, run: Run, part: Synthesis, model: Model) -> None:
        ids = [*part.source_ids, *([part.kept_id] if part.kept_id else [])]
        found = {record.entry.id: record for record in await self._backend.get_many(part.agent_id, ids)}
        sources = [found[each] for each in part.source_ids if each in found]
        if len(sources) < _LEAST_SOURCES:
            return
        strategy = self._build_strategy(
            ConsolidationDeps(
                policy=self._policy,
                answers=LiveAnswers(self._ledger.answers, run, model, renewal=self._renewal),
                trajectories=RecentTrajectories(self._backend, self._policy.llm or LLMConsolidationConfig()),
            )
        )
        if strategy is not None:
            await strategy.write(sources, kept=found.get(part.kept_id or ""))
        _log.info(
            MaintenanceEvent.MODEL_SYNTHESIZED,
            extra={"agent_id": run.agent_id, "run_id": run.run_id, "place": part.place, "sources": len(sources)},
        )

    def _switch(self, run: Run) -> KillSwitch:
        return KillSwitch(
            self._ledger,
            company=self._company,
            agent_id=run.agent_id,
            is_enabled=lambda: self._policy.enabled,
        )
