"""The worker context: one event loop and one set of connections per process, opened after the fork."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from memcore.backends.factory import create_worker_backend
from memcore.backends.protocol import facts_of
from memcore.clock import Clock, utc_now
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.embedding.protocol import Embedder
from memcore.event_loop import LoopThread
from memcore.experience import CompressionService
from memcore.finetune.dataset import gather
from memcore.finetune.execution.factory import create_executor, end_by_name, execution_of
from memcore.finetune.questions import QuestionWriter
from memcore.finetune.run_folder import RUNS, SCRATCH
from memcore.finetune.service import FineTuneService, StageLease, hostname
from memcore.ingest import Ingestor, WriteResult
from memcore.jobs import Outcome, ProgressCallback, Step, StoreItem, no_progress
from memcore.ledger.companies import CompanyPolicies
from memcore.ledger.ledger import Ledger
from memcore.llm.accounting import create_model
from memcore.maintenance.consolidation.answers import QuestionOutcome, SynthesisService
from memcore.maintenance.service import MaintenanceService
from memcore.models.finetune import FineTunePlan
from memcore.org.sync import OrgSync
from memcore.procedural.propagation import Propagation
from memcore.procedural.service import LearningService
from memcore.procedural.skill_files import SkillFolders
from memcore.reindex import ReindexService, create_reindex_target
from memcore.retrieval.filters import StoreGuard
from memcore.skills.evolver import CycleService, SkillEvolver
from memcore.skills.publication import create_approvals
from memcore.wiki import export_after_run
from tasks.context import JobDispatcher
from workers.write_batcher import BatchWriter

if TYPE_CHECKING:
    from memcore.backends.mem0.reindex_target import ReindexTarget


class WorkerContext:
    """Everything that jobs need, opened once per process; implements :class:`tasks.context.JobContext`."""

    def __init__(
        self,
        settings: Settings,
        policy: Policy,
        dispatcher: JobDispatcher,
        *,
        embedder: Embedder | None = None,
        clock: Clock = utc_now,
        progress_of: Callable[[], ProgressCallback] = lambda: no_progress,
    ) -> None:
        """Open every connection; raises MemoryConfigError or MemoryConnectionError in one sentence."""
        self.company = settings.company
        self.policy = policy
        self.policies = CompanyPolicies(settings, policy)
        self.dispatcher = dispatcher
        self.clock = clock
        self._progress_of = progress_of
        with ExitStack() as opened:
            self._loop = LoopThread("worker-loop")
            opened.callback(self._loop.close)
            self.ledger = Ledger.open(settings.ledger_urls, clock=clock)
            opened.callback(self.ledger.close)
            self._backend = create_worker_backend(settings, policy, embedder=embedder, clock=clock)
            self._loop.run(self._backend.connect())
            opened.callback(lambda: self._loop.run(self._backend.disconnect()))
            self.model = create_model(settings, policy, self.ledger, clock=clock)
            opened.callback(self._close_model)
            self._reindex_target: ReindexTarget | None = None
            opened.callback(self._close_reindex_target)
            self.batch_writer = BatchWriter(self._write)
            self.batch_writer.start()
            opened.callback(self.batch_writer.close)
            self._opened = opened.pop_all()
        backend, ledger, memory = self._backend, self.ledger, policy.memory
        company, level, model = settings.company, memory.level, self.model
        guard = StoreGuard() if memory.retrieval.non_inferable_only else None
        interval = memory.consolidation.interval
        self._ingestor = Ingestor(backend, ledger, company=company, interval=interval, level=level, guard=guard)
        self._maintenance = MaintenanceService.configured(
            settings, policy, backend, ledger, has_model=model is not None, clock=clock
        )
        self._synthesis = SynthesisService(
            backend, ledger, memory.consolidation, company=company, model=model, clock=clock
        )
        self._compression = CompressionService(
            backend, ledger, memory.consolidation, company=company, level=level, model=model, clock=clock
        )
        skills = memory.procedural.skill_md_directory
        self._learning = LearningService(
            backend,
            ledger,
            memory.procedural,
            company=company,
            level=level,
            model=model,
            skills=None if skills is None else SkillFolders((settings.home / skills).resolve()),
            clock=clock,
        )
        self._propagation = Propagation(backend, ledger, memory.procedural, company=company, level=level)
        self._approvals = create_approvals(settings, policy, ledger, backend=backend, clock=clock)
        evolver = SkillEvolver(ledger, self._approvals, memory.procedural.evolver, company=company, clock=clock)
        self._cycles = CycleService(ledger, evolver, company=company)
        execution = execution_of(settings, policy)
        self._finetune = FineTuneService(
            ledger,
            create_executor(execution, settings.home / SCRATCH),
            gather=self._gather,
            reap=end_by_name,
            company=company,
            folder=settings.home / RUNS,
            host=hostname(),
            timeout_seconds=execution.timeout_seconds,
            clock=clock,
        )
        self._open_reindex_target = partial(create_reindex_target, settings, policy)
        wiki = memory.consolidation.wiki_export
        self._wiki = partial(export_after_run, backend, ledger, wiki, home=settings.home, company=company, clock=clock)

    def maintain(self, run_id: str) -> Outcome:
        return self._loop.run(self._maintenance.run(run_id))

    def synthesize(self, run_id: str, place: int) -> QuestionOutcome:
        return self._loop.run(self._synthesis.ask(run_id, place))

    def compress(self, agent_id: str) -> Outcome:
        return self._loop.run(self._compression.run(agent_id))

    def extract_lesson(self, lesson_id: str) -> Outcome:
        return self._loop.run(self._learning.extract_lesson(lesson_id))

    def evolve(self, cycle_id: str) -> Outcome:
        return self._loop.run(self._cycles.run(cycle_id, on_progress=self._progress_of()))

    def propagate(self, agent_id: str) -> int:
        return self._loop.run(self._propagation.run(agent_id))

    def reindex(self) -> Step:
        return self._loop.run(self._reindex(self._progress_of()))

    def finetune(self, run_id: str) -> Step:
        return self._finetune.run(run_id, on_progress=self._progress_of())

    def sweep_approvals(self) -> None:
        self._approvals.expire()
        self._loop.run(self._approvals.finish())

    def sweep_organization(self) -> None:
        facts = facts_of(self._backend)
        if facts is not None:
            self._loop.run(OrgSync(self.ledger.org, facts, company=self.company).tend())

    def export_wiki(self, agent_id: str) -> None:
        self._loop.run(self._wiki(agent_id))

    def close(self) -> None:
        """Flush the batch writer and close every connection."""
        self._opened.close()

    async def _reindex(self, on_progress: ProgressCallback) -> Step:
        # Opened by the first slice: a reindex is rare, and its embedder may take as much memory as the rest.
        self._reindex_target = self._reindex_target or self._open_reindex_target()
        service = ReindexService(self._reindex_target, self.ledger, company=self.company, clock=self.clock)
        return await service.run(on_progress=on_progress)

    def _close_reindex_target(self) -> None:
        if self._reindex_target is not None:
            self._loop.run(self._reindex_target.close())

    def _close_model(self) -> None:
        if self.model is not None:
            self._loop.run(self.model.close())

    def _gather(self, plan: FineTunePlan, path: Path, stage_lease: StageLease) -> None:
        writer = QuestionWriter(
            self.model,
            self.ledger,
            company=self.company,
            run_id=stage_lease.run_id,
            model_name=self.policy.memory.llm.model,
            count=plan.queries_per_passage,
            alive=stage_lease.check,
            clock=self.clock,
        )
        alive = stage_lease.check
        self._loop.run(
            gather(self._backend, self.ledger, path, company=self.company, plan=plan, writer=writer, alive=alive)
        )

    def _write(self, items: Sequence[StoreItem]) -> WriteResult:
        return self._loop.run(self._ingestor.write(items))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
