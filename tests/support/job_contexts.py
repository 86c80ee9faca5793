"""A context for jobs under test: a real ledger; batch writer, dispatcher and runs follow the test's script."""

from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

from memcore.backends.inmemory import InMemoryBackend
from memcore.clock import Clock, utc_now
from memcore.config.policy import Policy
from memcore.config.retrieval import MemoryRetrievalConfig
from memcore.config.settings import Settings
from memcore.experience import CompressionService
from memcore.finetune.service import FineTuneService
from memcore.ingest import WriteResult
from memcore.jobs import Done, Outcome, Payload, ProgressCallback, Step, StoreItem, no_progress
from memcore.ledger.companies import CompanyPolicies
from memcore.ledger.ledger import Ledger
from memcore.ledger.work_items import WorkItem
from memcore.llm.protocol import Model
from memcore.maintenance.consolidation.answers import QuestionOutcome
from memcore.maintenance.service import MaintenanceService
from memcore.procedural.propagation import Propagation
from memcore.reindex import ReindexService
from memcore.skills.applications import ApplicationService
from memcore.skills.evolver import CycleService

Result = TypeVar("Result")


@dataclass
class ScriptedBatchWriter:
    """Answers as the test says: how many were stored, the whole result, an error, or never (None)."""

    answer: int | WriteResult | Exception | None = 1
    taken: list[tuple[StoreItem, ...]] = field(default_factory=list)

    def submit(self, items: Sequence[StoreItem]) -> "Future[WriteResult]":
        self.taken.append(tuple(items))
        future: Future[WriteResult] = Future()
        if isinstance(self.answer, Exception):
            future.set_exception(self.answer)
        elif isinstance(self.answer, WriteResult):
            future.set_result(self.answer)
        elif self.answer is not None:
            ids = [item.id for item in items]
            stored, tombstoned = ids[: self.answer], ids[self.answer :]
            future.set_result(WriteResult(stored=frozenset(stored), tombstoned=frozenset(tombstoned)))
        return future


@dataclass
class RecordingDispatcher:
    """Remembers what it dispatched."""

    items: list[WorkItem] = field(default_factory=list)
    error: Exception | None = None

    def dispatch(self, items: Iterable[WorkItem]) -> None:
        if self.error is not None:
            raise self.error
        self.items.extend(items)

    def dispatched_for(self, kind: type[Payload]) -> list[tuple[str, str]]:
        """Return the companies and keys of the items of a kind."""
        return [(item.company, item.key) for item in self.items if item.kind == kind.task]


#: Settings of an installation whose servers no test asks, and whose folder is not there.
PLACELESS = Settings(
    broker_url="redis://127.0.0.1:9",
    database_url="postgresql://127.0.0.1:9/none",
    qdrant_url="http://127.0.0.1:9",
    home=Path("/nowhere"),
    company="acme",
)


def keeping_questions(**retrieval: Any) -> Policy:
    """A policy that records questions."""
    config = MemoryRetrievalConfig(record_queries=True, **retrieval)
    plain = Policy()
    return plain.model_copy(update={"memory": plain.memory.model_copy(update={"retrieval": config})})


@dataclass
class ScriptedService:
    """Stands for every service of a job: each call is answered by the context's script."""

    script: "ScriptedContext"
    kind: type

    async def run(self, key: str = "", *, on_progress: ProgressCallback = no_progress, by: str = "") -> Any:
        on_progress(self.kind.__name__, 0.5)
        if self.kind is ReindexService:
            return self.script.slice
        answers: dict[type, Callable[[str], Any]] = {
            MaintenanceService: self.script.maintenance_run,
            CompressionService: lambda agent_id: Step(outcome=self.script.compressing(agent_id)),
            CycleService: self.script.evolving,
            Propagation: lambda agent_id: self.script.passing_on(agent_id, by),
        }
        return answers[self.kind](key)

    async def ask(self, run_id: str, place: int) -> QuestionOutcome:
        return self.script.asking(run_id, place)

    async def extract_lesson(self, lesson_id: str) -> Outcome:
        return self.script.drawing(lesson_id)

    async def export_after_run(self, agent_id: str) -> None:
        self.script.exported.append(agent_id)

    def expire(self) -> None:
        self.script.swept += 1

    async def expire_archive(self) -> int:
        self.script.expired_archives += 1
        return 0

    async def finish(self) -> None:
        self.script.swept += 1

    async def tend(self) -> None:
        self.script.swept_organization += 1


@dataclass
class RecordingService:
    """Stands for a service of one call, and remembers for what it was called."""

    outcome: Outcome = field(default_factory=lambda: Done(facts={"asked": 1}))
    keys: list[str] = field(default_factory=list)

    async def run(self, key: str) -> Outcome:
        self.keys.append(key)
        return self.outcome


@dataclass
class ScriptedStages:
    """Stands for the service of fine-tune runs, which needs no loop."""

    script: "ScriptedContext"

    def run(self, _run_id: str, *, on_progress: ProgressCallback) -> Step:
        on_progress("FineTuneService", 0.5)
        return self.script.step


@dataclass
class ScriptedContext:
    """See tasks.context.JobContext."""

    ledger: Ledger
    company: str = "acme"
    policy: Policy = field(default_factory=Policy)
    batch_writer: ScriptedBatchWriter = field(default_factory=ScriptedBatchWriter)
    dispatcher: RecordingDispatcher = field(default_factory=RecordingDispatcher)
    clock: Clock = utc_now
    maintenance_run: Callable[[str], Outcome] = lambda _run_id: Done(facts={"live": 3})

    model: Model | None = None
    compressing: Callable[[str], Outcome] = lambda _agent_id: Done(facts={"compressed": 1})
    drawing: Callable[[str], Outcome] = lambda _lesson_id: Done(facts={"stored": 1})
    evolving: Callable[[str], Outcome] = lambda _cycle_id: Done(facts={"proposals_emitted": 1})
    passing_on: Callable[[str, str], int] = lambda _agent_id, _by: 0
    exported: list[str] = field(default_factory=list)
    swept: int = 0
    swept_organization: int = 0
    expired_archives: int = 0
    slice: Step = field(default_factory=lambda: Step(outcome=Done(), goes_on=True))
    step: Step = field(default_factory=lambda: Step(outcome=Done(), goes_on=True))
    asking: Callable[[str, int], QuestionOutcome] = lambda _run_id, _place: QuestionOutcome(
        outcome=Done(facts={"asked": 1})
    )
    on_progress: ProgressCallback = no_progress
    #: Services that the test has built itself.
    services: dict[type, Any] = field(default_factory=dict)

    @property
    def policies(self) -> CompanyPolicies:
        """Read anew: a test changes the policy."""
        return CompanyPolicies(PLACELESS, self.policy)

    def service(self, kind: type) -> Any:
        if kind is ApplicationService:
            backend = InMemoryBackend(company=self.company, clock=self.clock)
            self.run(backend.connect())
            return ApplicationService(backend, self.ledger, company=self.company)
        scripted = ScriptedStages(self) if kind is FineTuneService else ScriptedService(self, kind)
        return self.services.get(kind, scripted)

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        # A script awaits nothing: one step ends it, also in a thread whose loop runs.
        try:
            work.send(None)
        except StopIteration as end:
            result: Result = end.value
            return result
        raise AssertionError("a scripted service awaits nothing")


@dataclass
class ScriptedContexts:
    """See workers.context.WorkerContexts: one company's context, and every other company is unknown."""

    context: ScriptedContext
    is_ready = True

    @property
    def shared(self) -> Any:
        return SimpleNamespace(settings=SimpleNamespace(company=self.context.company), ledger=self.context.ledger)

    def connect(self) -> None:
        """Nothing is to be opened."""

    def refused_seconds(self, _company: str | None) -> float:
        return 0.0

    @contextmanager
    def of(self, company: str | None) -> Iterator[ScriptedContext]:
        if company is not None and company != self.context.company:
            self.context.ledger.companies.served(company)
        yield self.context

    def close(self) -> None:
        self.context.ledger.close()
