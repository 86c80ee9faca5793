"""A fine-tune run: stages that write real files at once, and the workers that run them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memcore.embedding.static import TABLE_FILE
from memcore.finetune.checkpoint import CHECKPOINT, MANIFEST_FILE, Manifest, folder_hash
from memcore.finetune.documents import Passage, read_lines, write_lines
from memcore.finetune.evaluate import ENOUGH_ASKED, REPORT_FILE, EvalMetrics, EvalReport, Improvement, Part
from memcore.finetune.execution.protocol import StageEnd, StageExecutor, StageJob, StageOutcome
from memcore.finetune.generate import TRAINING_FILE, VALIDATION_FILE
from memcore.finetune.markers import Progress
from memcore.finetune.mine import TRIPLES_FILE
from memcore.finetune.runner_config import (
    EvaluatingConfig,
    GeneratingConfig,
    MiningConfig,
    RunnerConfig,
    TrainingConfig,
)
from memcore.finetune.service import FineTuneService, StageLease
from memcore.finetune.sizing import SIZES_FILE, Sizes
from memcore.jobs import Step
from memcore.ledger.attempt import LEASE_LENGTH
from memcore.ledger.finetune_runs import FineTuneRun
from memcore.ledger.ledger import Ledger
from memcore.models.finetune import FineTunePlan
from support.fault_injection import Faults
from support.ledger_records import COMPANY, StoppedClock

if TYPE_CHECKING:
    from memcore.models.finetune import FineTuneStage

PLAN = FineTunePlan(kind="static", epochs=2)
HOST = "here"

#: What each training took.
SIZES = Sizes(kind="static", batch_size=8, pairs=80, wanted=100, seconds=2.0, bytes=2**30, free_bytes=2**33)


def part(lead: float = 0.05, low: float = 0.02, *, questions: int = ENOUGH_ASKED, fused: float = 0.7) -> Part:
    """The leads on questions of one origin."""
    return Part(
        questions=questions,
        dense_lead=Improvement(mean=0.05, low=0.02, high=0.1),
        fused_lead=Improvement(mean=lead, low=low, high=0.1),
        fused_ndcg_at_10=fused,
    )


def report(lead: float = 0.05, low: float = 0.02, *, fused: float = 0.7) -> EvalReport:
    return EvalReport(
        metrics=EvalMetrics(ndcg_at_10=0.6, recall_at_10=0.7, base_ndcg_at_10=0.5, base_recall_at_10=0.6),
        fused_ndcg_at_10=0.7,
        base_fused_ndcg_at_10=0.6,
        fusion_weight=0.5,
        dense_lead=Improvement(mean=0.05, low=0.0, high=0.1),
        fused_lead=Improvement(mean=lead, low=low, high=0.1),
        questions=ENOUGH_ASKED,
        passages=12,
        asked=part(lead, low, fused=fused),
    )


class Stages:
    """An executor whose stages leave their files at once.

    Attributes:
        performed: the stages that were begun, in order.
        within: called within each stage, when its process has started and reported progress.
        ends: how a stage ends, where not well.
        reports: what the evaluation of a kind finds, where not ``report``.
    """

    def __init__(self) -> None:
        self.performed: list[FineTuneStage] = []
        self.within: Callable[[StageJob], None] = lambda _job: None
        self.ends: dict[FineTuneStage, StageOutcome] = {}
        self.report = report()
        self.reports: dict[str, EvalReport] = {}

    def run(self, job: StageJob) -> StageOutcome:
        self.performed.append(job.config.stage)
        job.born(f"process:{len(self.performed)}:7")
        job.on_event(Progress(0.5))
        self.within(job)
        if job.cancelled():
            return StageOutcome(end=StageEnd.CANCELLED, reason=f"{job.config.stage} was cancelled")
        self._leave(job.config)
        return self.ends.get(job.config.stage, StageOutcome(end=StageEnd.COMPLETE))

    def _leave(self, config: RunnerConfig) -> None:
        match config:
            case GeneratingConfig(output_dir=output):
                _write(output, TRAINING_FILE, config.model_dump_json())
                _write(output, VALIDATION_FILE, "questions")
            case MiningConfig(output_dir=output):
                _write(output, TRIPLES_FILE, Path(config.training_data_path).read_text("utf-8"))
            case TrainingConfig(output_dir=output):
                folder = Path(output, CHECKPOINT)
                folder.mkdir()
                _write(output, SIZES_FILE, SIZES.model_dump_json())
                _write(str(folder), TABLE_FILE, Path(config.training_data_path).read_text("utf-8"))
                manifest = Manifest(kind=config.kind, base_model="words", dims=64, sha256=folder_hash(folder))
                _write(str(folder), MANIFEST_FILE, manifest.model_dump_json())
            case EvaluatingConfig(output_dir=output):
                _write(output, REPORT_FILE, self.reports.get(config.kind, self.report).model_dump_json())
            case _:
                pass


class FineTuneFleet:
    """The workers of one company: any number of them, which come and go."""

    def __init__(self, ledger: Ledger, clock: StoppedClock, folder: Path) -> None:
        self.ledger = ledger
        self.clock = clock
        self.runs = folder / "runs"
        self.stages = Stages()
        self.reaped: list[str] = []
        self.gathered = 0
        #: What gathering meets, once each.
        self.troubles: list[Exception] = []

    def start(self, plan: FineTunePlan = PLAN) -> str:
        return self.ledger.finetune_runs.start(COMPANY, plan.model_dump(mode="json")).run_id

    def worker(
        self, *, faults: Faults | None = None, executor: StageExecutor | None = None, host: str = HOST
    ) -> FineTuneService:
        executor = executor or self.stages
        ledger: Any = self.ledger if faults is None else faults.ledger(self.ledger)
        return FineTuneService(
            ledger,
            executor if faults is None else faults.watched(executor, "executor"),
            gather=self._gather,
            reap=self.reaped.append,
            company=COMPANY,
            folder=self.runs,
            host=host,
            timeout_seconds=60.0,
            clock=self.clock,
            monotonic=lambda: self.clock().timestamp(),
        )

    def to_the_end(self, run_id: str, worker: FineTuneService | None = None) -> FineTuneRun:
        """Let a worker take each job of the run, as they are dispatched."""
        worker = worker or self.worker()
        for step in self._steps(run_id, worker):
            if not step.goes_on:
                break
        return self.row(run_id)

    def row(self, run_id: str) -> FineTuneRun:
        found = self.ledger.finetune_runs.get(COMPANY, run_id)
        assert found is not None
        return found

    def later(self) -> None:
        """Wait until the lease of a dead worker has ended."""
        self.clock.advance(LEASE_LENGTH)

    def _steps(self, run_id: str, worker: FineTuneService) -> Iterator[Step]:
        while True:
            yield worker.run(run_id)

    def _gather(self, plan: FineTunePlan, path: Path, stage_lease: StageLease) -> None:
        stage_lease.alive()
        if self.troubles:
            raise self.troubles.pop()
        assert plan.uses_memories
        self.gathered += 1
        write_lines(path, [Passage(text="the pump failed", source="memory")])
        assert list(read_lines(path, Passage))


def _write(folder: str, name: str, text: str) -> None:
    Path(folder, name).write_text(text, "utf-8")
