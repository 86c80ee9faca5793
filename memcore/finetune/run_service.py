"""A run carried on by one stage: claimed, its dead predecessor reaped, its stage performed, its end written.

Any worker may die anywhere. What a stage left counts once the ledger has the hashes of its files; each attempt writes
into a folder that no other one looks into. A worker that lost its lease changes nothing that another one reads.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from memcore import errors
from memcore.clock import Clock
from memcore.errors import FineTuneCancelledError, LeaseLostError
from memcore.finetune.events import FineTuneEvent
from memcore.finetune.execution.protocol import StageEnd, StageExecutor, StageJob, StageOutcome
from memcore.finetune.orphans import drop_deleted
from memcore.finetune.plan import FineTunePlan
from memcore.finetune.pulse import LEASE, Pulse
from memcore.finetune.registering import checkpoint_row
from memcore.finetune.run_folder import RunFolder
from memcore.finetune.stage_config import LEAVES, PASSAGES_FILE, config_of
from memcore.finetune_models import STAGES, FineTuneStage
from memcore.jobs.outcomes import Done, Outcome, Parked, Skipped
from memcore.jobs.progress import Tell, untold
from memcore.ledger.checkpoint import Verdict
from memcore.ledger.finetune_run import FineTuneRun
from memcore.ledger.ledger import Ledger

#: How often a stage is tried whose workers die over it, before the run fails.
MAX_TRIES = 4

#: What holds agents' texts, and nobody needs once a run is complete.
_TEXTS = (FineTuneStage.GENERATING_DATA, FineTuneStage.MINING_NEGATIVES)

_log = logging.getLogger(__name__)

#: Writes what the first stage reads to a file: the plan, the file, what keeps the run in hand meanwhile.
Gather = Callable[[FineTunePlan, Path, Pulse], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What came of a job.

    Attributes:
        goes_on: whether there is a next stage to ring for.
    """

    outcome: Outcome
    goes_on: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where stages run.

    Attributes:
        runs: the folder of this machine's runs.
        host: this machine (memcore.finetune.host); what another one runs cannot be ended from here.
        timeout_seconds: of each stage.
    """

    runs: Path
    host: str
    timeout_seconds: float


class FineTuneService:
    """Carry a company's fine-tune run on.

    Args:
        ledger: the run.
        executor: carries out stages.
        gather: writes what the fleet remembers, and what a model asked, to a file.
        reap: ends what a name stands for, if it still runs on this machine.
        company: whose.
        place: where stages run.
        clock: the time.
    """

    def __init__(
        self,
        ledger: Ledger,
        executor: StageExecutor,
        *,
        gather: Gather,
        reap: Callable[[str], object],
        company: str,
        place: Place,
        clock: Clock,
    ) -> None:
        self._ledger = ledger
        self._runs = ledger.finetune_runs
        self._executor = executor
        self._gather = gather
        self._reap = reap
        self._company = company
        self._place = place
        self._clock = clock

    def run(self, run_id: str, *, tell: Tell = untold) -> Step:
        """Carry out the run's next stage; that it has ended, or another worker has it, makes this do nothing.

        Args:
            run_id: the run.
            tell: takes the stage and its progress, once a second at most.

        Raises MemoryError that may pass; the run waits for the next job then.
        """
        if self._ledger.switches.paused(self._company):
            return Step(outcome=Parked(reason="maintenance is paused"))
        run = self._runs.claim(self._company, run_id, lease=LEASE)
        if run is None or run.token is None:
            self._tidy(run_id)
            return Step(outcome=Skipped(reason="the run has ended, or another worker has it"))
        try:
            return self._held(run, run.token, tell)
        except LeaseLostError as error:
            return Step(outcome=Skipped(reason=str(error)))

    def _held(self, run: FineTuneRun, token: str, tell: Tell) -> Step:
        pulse = Pulse(self._runs, company=self._company, run=run, token=token, clock=self._clock, tell=tell)
        try:
            return self._carried_on(run, token, pulse)
        except LeaseLostError:
            raise
        except FineTuneCancelledError as error:
            return self._ended(run, token, FineTuneStage.CANCELLED, str(error))
        except errors.MemoryError as error:
            if not error.is_retryable:
                return self._ended(run, token, FineTuneStage.FAILED, f"{run.stage} failed: {error}")
            self._runs.give_back(self._company, run.run_id, token)
            raise
        except OSError as error:
            reason = f"{run.stage} failed: {error.strerror or type(error).__name__}"
            return self._ended(run, token, FineTuneStage.FAILED, reason)

    def _carried_on(self, run: FineTuneRun, token: str, pulse: Pulse) -> Step:
        if run.holder is not None:
            # Before anything is begun: of one stage nothing runs twice.
            if run.host == self._place.host:
                self._reap(run.holder)
            self._runs.hold(self._company, run.run_id, token, holder=None, host=None)
        pulse.check()
        if run.tries > MAX_TRIES:
            return self._ended(
                run, token, FineTuneStage.FAILED, f"{run.stage} failed: {MAX_TRIES} workers died over it"
            )
        folder = RunFolder(self._place.runs, run.run_id)
        run = self._from_what_is_there(run, token, folder)
        _log.info(FineTuneEvent.STAGE_ENTERED, extra={"run_id": run.run_id, "stage": str(run.stage)})
        output = folder.open(run.stage, run.attempt)
        if run.stage is STAGES[0]:
            folder.drop_others(_TEXTS)
            drop_deleted(self._place.runs, self._ledger, company=self._company)
        outcome = self._performed(run, token, folder, output, pulse)
        if outcome.end is StageEnd.CANCELLED:
            return self._ended(run, token, FineTuneStage.CANCELLED, outcome.reason or "a person cancelled the run")
        if outcome.end is not StageEnd.COMPLETE:
            return self._ended(run, token, FineTuneStage.FAILED, outcome.reason or f"{run.stage} failed")
        if run.stage is STAGES[-1]:
            return self._complete(run, token, folder)
        files = folder.files(output)
        left = {Path(place).name for place in files}
        missing = [name for name in LEAVES[run.stage] if name not in left]
        if missing:
            return self._ended(run, token, FineTuneStage.FAILED, f"{run.stage} left no {missing[0]}")
        self._runs.finish_stage(self._company, run.run_id, token, stage=run.stage, files=files)
        return Step(outcome=Done(facts={"files": len(files)}), goes_on=True)

    def _from_what_is_there(self, run: FineTuneRun, token: str, folder: RunFolder) -> FineTuneRun:
        """Go back to the first stage whose files are gone, or are not what they were."""
        whole = []
        for stage in run.stages_completed:
            if not folder.has(run.finished[stage]):
                break
            whole.append(stage)
        if len(whole) == len(run.finished):
            return run
        kept = {stage: run.finished[stage] for stage in whole}
        return self._runs.rewind(self._company, run.run_id, token, finished=kept)

    def _performed(self, run: FineTuneRun, token: str, folder: RunFolder, output: Path, pulse: Pulse) -> StageOutcome:
        plan = FineTunePlan.model_validate(run.plan)
        if run.stage is FineTuneStage.GENERATING_DATA and plan.is_gathered:
            self._gather(plan, output / PASSAGES_FILE, pulse)
        job = StageJob(
            run_id=run.run_id,
            config=config_of(run, plan, folder, output),
            timeout_seconds=self._place.timeout_seconds,
        )

        def born(name: str) -> None:
            self._runs.hold(self._company, run.run_id, token, holder=name, host=self._place.host)

        return self._executor.run(job, told=pulse.hear, cancelled=pulse.cancelled, born=born)

    def _complete(self, run: FineTuneRun, token: str, folder: RunFolder) -> Step:
        checkpoint = checkpoint_row(run, folder, company=self._company, at=self._clock())
        self._runs.complete(self._company, run.run_id, token, checkpoint=checkpoint)
        self._tidy(run.run_id)
        about = {"run_id": run.run_id, "checkpoint_id": checkpoint.checkpoint_id}
        is_promoted = checkpoint.verdict is Verdict.PROMOTED
        _log.info(FineTuneEvent.CHECKPOINT_SAVED if is_promoted else FineTuneEvent.CHECKPOINT_REJECTED, extra=about)
        _log.info(FineTuneEvent.COMPLETED, extra=about)
        return Step(outcome=Done(facts={"promoted": int(is_promoted)}))

    def _tidy(self, run_id: str) -> None:
        """Remove agents' texts of a complete run; its message comes again to a worker that died before."""
        run = self._runs.get(self._company, run_id)
        if run is not None and run.stage is FineTuneStage.COMPLETE:
            for stage in _TEXTS:
                RunFolder(self._place.runs, run_id).drop(stage, before=run.attempt + 1)
            self._ledger.answers.forget(self._company, run_id)

    def _ended(self, run: FineTuneRun, token: str, stage: FineTuneStage, reason: str) -> Step:
        self._runs.end(self._company, run.run_id, token, stage=stage, error=reason)
        is_failed = stage is FineTuneStage.FAILED
        event = FineTuneEvent.FAILED if is_failed else FineTuneEvent.CANCELLED
        _log.log(logging.WARNING if is_failed else logging.INFO, event, extra={"run_id": run.run_id})
        return Step(outcome=Done(facts={str(stage): 1}))
