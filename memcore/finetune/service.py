"""Carries a fine-tune run on by one stage: lease, reaping of a dead predecessor, the stage, its end, the checkpoint.

Any worker may die anywhere. A stage's files count once the ledger has their hashes; each attempt writes into a
folder of its own. A worker that lost its lease changes nothing that another one reads.
"""

import logging
import shutil
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Self

from memcore import ids
from memcore.clock import Clock
from memcore.company import CompanyContext
from memcore.errors import (
    FineTuneCancelledError,
    FineTuneStageError,
    MemoryConnectionError,
    MemoryStoreError,
)
from memcore.finetune.checkpoint import read_manifest
from memcore.finetune.dataset import gather
from memcore.finetune.execution.factory import create_executor, end_by_name, execution_of
from memcore.finetune.execution.protocol import StageEnd, StageExecutor, StageJob, StageOutcome
from memcore.finetune.markers import Progress, RunnerEvent
from memcore.finetune.promotion import promotion_verdict
from memcore.finetune.questions import QuestionWriter
from memcore.finetune.run_folder import (
    PASSAGES_FILE,
    PER_KIND,
    RunFolder,
    checkpoint_of,
    config_of,
    folder_of,
    handed_over,
    missing_of,
    report_of,
    runs_of,
)
from memcore.finetune.runner_config import RunnerConfig
from memcore.jobs import Dead, Done, ProgressCallback, Step, no_progress
from memcore.ledger.agents import check_kill_switch
from memcore.ledger.attempt import Attempt, Lease, RetryPolicy
from memcore.ledger.collections import Checkpoint, Verdict
from memcore.ledger.finetune_runs import FineTuneRun, FineTuneRuns
from memcore.ledger.ledger import Ledger
from memcore.models.finetune import RECIPES, STAGES, FineTunePlan, FineTuneStage
from memcore.telemetry.events import Event

#: Seconds between two reports of a stage's progress: a person's cancel is seen with the next one.
REPORT_SECONDS = 1.0


class StageLease:
    """The lease of a run's stage; each second it saves the progress, and learns whether a person wants an end."""

    def __init__(
        self,
        lease: Lease,
        runs: FineTuneRuns,
        company: str,
        run: FineTuneRun,
        *,
        on_progress: ProgressCallback = no_progress,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.run_id = run.run_id
        self.token = lease.token
        self._lease = lease
        self._report = partial(runs.report, company, run.run_id, lease.token)
        self._on_progress = on_progress
        self._monotonic = monotonic
        self._reported_at = monotonic()
        self._progress: float | None = None
        self._part, self._parts = 0, 1
        self._is_cancelled = run.cancel_requested_at is not None

    def take(self, runner_event: RunnerEvent) -> None:
        """Take a runner's event: the next report has its progress."""
        if isinstance(runner_event, Progress):
            self._progress = (self._part + runner_event.fraction) / self._parts

    def divide(self, part: int, parts: int) -> None:
        """Count what the runner reports from now on as this part, from 0, of the stage."""
        self._part, self._parts = part, parts

    def cancelled(self) -> bool:
        """Report the progress if that is due, and return whether a person wants the run to end.

        Raises LeaseLostError.
        """
        self._lease.check()
        now = self._monotonic()
        if now - self._reported_at >= REPORT_SECONDS:
            self._reported_at = now
            # A ledger that is away is waited for as long as the lease lasts.
            with suppress(MemoryConnectionError, MemoryStoreError):
                run = self._report(progress=self._progress)
                self._is_cancelled = run.cancel_requested_at is not None
                self._on_progress(run.stage, run.progress)
        return self._is_cancelled

    def alive(self) -> None:
        """Raise LeaseLostError, or FineTuneCancelledError when a person wants the run to end."""
        if self.cancelled():
            raise FineTuneCancelledError("a person cancelled the run")


def checkpoint_row(run: FineTuneRun, folder: RunFolder, *, company: str, at: datetime) -> Checkpoint:
    """Return the checkpoint's row of a run. Raises FineTuneStageError, MemoryInputError, OSError."""
    plan = FineTunePlan.model_validate(run.plan, extra="ignore")
    kind = handed_over(run, plan, folder)
    model = checkpoint_of(run, folder, kind)
    manifest = read_manifest(model)
    report = report_of(run, folder, kind)
    verdict, reason = promotion_verdict(report)
    for other in () if kind is None else plan.kinds:
        if other != kind:
            found, why = promotion_verdict(report_of(run, folder, other))
            reason = f"{kind}: {reason}; {other} {found}: {why}"
    return Checkpoint(
        checkpoint_id=ids.checkpoint_id(company=company, run_id=run.run_id),
        run_id=run.run_id,
        model_path=str(model),
        kind=manifest.kind,
        base_model=manifest.base_model,
        dims=manifest.dims,
        sha256=manifest.sha256,
        size_bytes=sum(each.stat().st_size for each in model.rglob("*") if each.is_file()),
        doc_count=report.passages,
        report=report.model_dump(mode="json"),
        verdict=verdict,
        reason=reason,
        created_at=at,
    )


def cleanup_orphans(runs: Path, ledger: Ledger, *, company: str) -> None:
    """Remove the files of checkpoints that were deleted: a run's end and its row are written together."""
    for folder in runs.glob("*"):
        run = ledger.finetune_runs.get(company, folder.name)
        if run is None or run.stage is not FineTuneStage.COMPLETE:
            continue
        if ledger.checkpoints.get(company, ids.checkpoint_id(company=company, run_id=run.run_id)) is None:
            RunFolder(runs, run.run_id).drop(FineTuneStage.TRAINING, before=run.claims + 1)


#: A stage takes hours; what it needs may be away for two before the run fails, and a person can resume it then.
RETRY = RetryPolicy(attempts=8, first_delay=timedelta(minutes=1), longest_delay=timedelta(hours=1))

_VERDICT_EVENTS = {
    Verdict.PROMOTED: Event.MEMORY_FINE_TUNE_CHECKPOINT_SAVED,
    Verdict.UNDECIDED: Event.MEMORY_FINE_TUNE_CHECKPOINT_UNDECIDED,
    Verdict.REJECTED: Event.MEMORY_FINE_TUNE_CHECKPOINT_REJECTED,
}

#: Stages whose files hold agents' texts, needed only until a run is complete.
_TEXTS = (FineTuneStage.GENERATING_DATA, FineTuneStage.MINING_NEGATIVES)

_log = logging.getLogger(__name__)

#: Writes the first stage's input to a file; takes the plan, the file, and the lease's check.
Gather = Callable[[FineTunePlan, Path, StageLease], None]


class FineTuneService:
    """Carries a company's fine-tune run on, in the folder of this machine's runs.

    ``gather`` writes the fleet's memories, and a model's questions, to a file. ``reap`` ends a running stage by its
    name, if it runs on this ``host``: what another machine runs cannot be ended from here.
    """

    def __init__(
        self,
        ledger: Ledger,
        executor: StageExecutor,
        *,
        gather: Gather,
        reap: Callable[[str], object],
        company: str,
        folder: Path,
        host: str,
        timeout_seconds: float,
        clock: Clock,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ledger = ledger
        self._runs = ledger.finetune_runs
        self._executor = executor
        self._gather = gather
        self._reap = reap
        self._company = company
        self._folder = folder
        self._host = host
        self._timeout_seconds = timeout_seconds
        self._clock = clock
        self._monotonic = monotonic

    @classmethod
    def of(cls, context: CompanyContext) -> Self:
        """Build the service of a worker's company."""
        settings, execution = context.settings, execution_of(context.settings, context.policy)
        return cls(
            context.ledger,
            create_executor(execution, folder_of(settings.home, context.company) / "scratch"),
            gather=partial(_gather, context),
            reap=end_by_name,
            company=context.company,
            folder=runs_of(settings.home, context.company),
            host=hostname(),
            timeout_seconds=execution.timeout_seconds,
            clock=context.clock,
        )

    def run(self, run_id: str, *, on_progress: ProgressCallback = no_progress) -> Step:
        """Carry out the run's next stage; does nothing when the run has ended or another worker has it.

        The progress is told once a second at most. After a passing error the run waits for another attempt.
        """
        runs, switch, step = self._runs, self._check_switch, None
        with Attempt(
            runs, self._company, run_id, retry=RETRY, switch=switch, fail=self._fail, monotonic=self._monotonic
        ) as attempt:
            run = attempt.claim()
            stage_lease = StageLease(
                attempt.lease, runs, self._company, run, on_progress=on_progress, monotonic=self._monotonic
            )
            try:
                step = self._continued(run, stage_lease)
            except FineTuneCancelledError as error:
                step = self._cancelled(run, attempt.token, str(error))
            except OSError as error:
                raise FineTuneStageError(error.strerror or type(error).__name__) from error
            attempt.outcome = step.outcome
        self._tidy(run_id)
        return step or Step(outcome=attempt.outcome)

    def _check_switch(self, _run: FineTuneRun) -> None:
        check_kill_switch(self._ledger.agents, self._company)

    def _continued(self, run: FineTuneRun, stage_lease: StageLease) -> Step:
        token = stage_lease.token
        # Before anything begins: no stage runs twice at once.
        self._reap_left(run, token)
        stage_lease.alive()
        folder = RunFolder(self._folder, run.run_id)
        run = self._from_what_is_there(run, token, folder)
        _log.info(Event.MEMORY_FINE_TUNE_STAGE_ENTERED, extra={"run_id": run.run_id, "stage": str(run.stage)})
        output = folder.open(run.stage, run.claims)
        if run.stage is STAGES[0]:
            folder.drop_others(_TEXTS)
            cleanup_orphans(self._folder, self._ledger, company=self._company)
        outcome = self._performed(run, folder, output, stage_lease)
        if outcome.end is StageEnd.CANCELLED:
            return self._cancelled(run, token, outcome.reason or "a person cancelled the run")
        if outcome.end is not StageEnd.COMPLETE:
            return self._failed(run, token, outcome.reason or f"{run.stage} failed")
        if run.stage is STAGES[-1]:
            return self._complete(run, token, folder)
        files = folder.files(output)
        missing = missing_of(run.stage, FineTunePlan.model_validate(run.plan, extra="ignore"), files)
        if missing is not None:
            return self._failed(run, token, f"{run.stage} left no {missing}")
        self._runs.finish_stage(self._company, run.run_id, token, stage=run.stage, files=files)
        return Step(outcome=Done(facts={"files": len(files)}), goes_on=True)

    def _from_what_is_there(self, run: FineTuneRun, token: str, folder: RunFolder) -> FineTuneRun:
        """Go back to the first stage whose files are missing or changed."""
        whole = []
        for stage in run.stages_completed:
            if not folder.has(run.finished[stage]):
                break
            whole.append(stage)
        if len(whole) == len(run.finished):
            return run
        kept = {stage: run.finished[stage] for stage in whole}
        return self._runs.rewind(self._company, run.run_id, token, finished=kept)

    def _performed(self, run: FineTuneRun, folder: RunFolder, output: Path, stage_lease: StageLease) -> StageOutcome:
        plan = FineTunePlan.model_validate(run.plan, extra="ignore")
        if run.stage is FineTuneStage.GENERATING_DATA and plan.is_gathered:
            self._gather(plan, output / PASSAGES_FILE, stage_lease)
        if run.stage not in PER_KIND:
            kind = handed_over(run, plan, folder) if run.stage is STAGES[-1] else None
            return self._executed(run, config_of(run, plan, folder, output, kind), stage_lease)
        outcome = StageOutcome(end=StageEnd.COMPLETE)
        for done, kind in enumerate(plan.kinds):
            if len(plan.kinds) > 1:
                (output / kind).mkdir(mode=0o700)
            stage_lease.divide(done, len(plan.kinds))
            outcome = self._executed(run, config_of(run, plan, folder, output, kind), stage_lease)
            if outcome.end is not StageEnd.COMPLETE:
                break
        return outcome

    def _executed(self, run: FineTuneRun, config: RunnerConfig, stage_lease: StageLease) -> StageOutcome:
        def born(name: str) -> None:
            self._runs.record_holder(self._company, run.run_id, stage_lease.token, holder=name, host=self._host)

        job = StageJob(
            run_id=run.run_id,
            config=config,
            timeout_seconds=self._timeout_seconds,
            born=born,
            on_event=stage_lease.take,
            cancelled=stage_lease.cancelled,
        )
        return self._executor.run(job)

    def _complete(self, run: FineTuneRun, token: str, folder: RunFolder) -> Step:
        checkpoint = checkpoint_row(run, folder, company=self._company, at=self._clock())
        self._runs.complete(self._company, run.run_id, token, checkpoint=checkpoint)
        about = {"run_id": run.run_id, "checkpoint_id": checkpoint.checkpoint_id}
        _log.info(_VERDICT_EVENTS[checkpoint.verdict], extra=about)
        _log.info(Event.MEMORY_FINE_TUNE_COMPLETED, extra=about)
        return Step(outcome=Done(facts={"promoted": int(checkpoint.verdict is Verdict.PROMOTED)}))

    def _tidy(self, run_id: str) -> None:
        """Remove agents' texts of a complete run; its message comes again when a worker died before."""
        run = self._runs.get(self._company, run_id)
        if run is not None and run.stage is FineTuneStage.COMPLETE:
            for stage in _TEXTS:
                RunFolder(self._folder, run_id).drop(stage, before=run.claims + 1)
            self._drop_other_kind(run)
            self._ledger.answers.forget(self._company, run_id)

    def _drop_other_kind(self, run: FineTuneRun) -> None:
        """Remove the model of a complete run that was not handed over."""
        made = self._ledger.checkpoints.get(self._company, ids.checkpoint_id(company=self._company, run_id=run.run_id))
        if made is None:
            return
        for kind in RECIPES:
            # Of a run with one kind there is no such folder.
            if kind != made.kind:
                with suppress(FineTuneStageError):
                    shutil.rmtree(checkpoint_of(run, RunFolder(self._folder, run.run_id), kind), ignore_errors=True)

    def _reap_left(self, run: FineTuneRun, token: str) -> None:
        """End what a dead worker left running on this machine."""
        if run.holder is not None:
            if run.host == self._host:
                self._reap(run.holder)
            self._runs.record_holder(self._company, run.run_id, token, holder=None, host=None)

    def _fail(self, run: FineTuneRun, token: str, reason: str) -> None:
        now = self._runs.report(self._company, run.run_id, token)
        self._reap_left(now, token)
        self._failed(now, token, f"{now.stage} failed: {reason}")

    def _failed(self, run: FineTuneRun, token: str, reason: str) -> Step:
        self._runs.end(self._company, run.run_id, token, "fail", reason=reason)
        _log.warning(Event.MEMORY_FINE_TUNE_FAILED, extra={"run_id": run.run_id})
        return Step(outcome=Dead(reason=reason))

    def _cancelled(self, run: FineTuneRun, token: str, reason: str) -> Step:
        self._runs.end(self._company, run.run_id, token, "cancel", reason=reason)
        _log.info(Event.MEMORY_FINE_TUNE_CANCELLED, extra={"run_id": run.run_id})
        return Step(outcome=Done(facts={str(FineTuneStage.CANCELLED): 1}))


def _gather(context: CompanyContext, plan: FineTunePlan, path: Path, stage_lease: StageLease) -> None:
    alive, company = stage_lease.alive, context.company
    writer = QuestionWriter(
        context.model,
        context.ledger,
        company=company,
        run_id=stage_lease.run_id,
        model_name=context.settings.llm(context.policy.memory.llm).model,
        count=plan.queries_per_passage,
        alive=alive,
        clock=context.clock,
    )
    work = gather(context.backend, context.ledger, path, company=company, plan=plan, writer=writer, alive=alive)
    context.loop.run(work)


_BOOT = Path("/proc/sys/kernel/random/boot_id")


def hostname() -> str:
    """Return this machine's name, with what tells its starts apart; a container has a name of its own."""
    try:
        boot = _BOOT.read_text("ascii").strip()
    except OSError:
        boot = ""
    return f"{socket.gethostname()}:{boot}"
