"""The interface between jobs and the process that runs them; workers implement it, tests pass their own."""

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Protocol

from memcore.clock import Clock
from memcore.config.policy import Policy
from memcore.ingest import WriteResult
from memcore.jobs import Outcome, StoreItem
from memcore.ledger.companies import CompanyPolicies
from memcore.ledger.ledger import Ledger
from memcore.ledger.llm_answers import Synthesis
from memcore.ledger.runs import Run
from memcore.ledger.work_items import WorkItem
from memcore.llm.protocol import Model

if TYPE_CHECKING:
    from memcore.jobs import Step
    from memcore.maintenance.consolidation.answers import QuestionOutcome


class BatchWriterProtocol(Protocol):
    """Takes memories from many jobs and writes them together."""

    def submit(self, items: Sequence[StoreItem]) -> Future[WriteResult]:
        """Return a future of what became of the items; it fails alone with the job's own error."""
        ...


class JobDispatcher(Protocol):
    """Publishes a job for ledger rows that are ready; the sweep dispatches again what a lost message named."""

    def dispatch_runs(self, runs: Iterable[Run]) -> None:
        """Send the runs' messages. Raises MemoryConnectionError."""
        ...

    def dispatch_syntheses(self, parts: Iterable[Synthesis]) -> None:
        """Send the jobs that ask a model about parts of runs. Raises MemoryConnectionError."""
        ...

    def dispatch_compression(self, company: str, agent_ids: Iterable[str]) -> None:
        """Send the jobs that compress agents' experience. Raises MemoryConnectionError."""
        ...

    def dispatch(self, items: Iterable[WorkItem]) -> None:
        """Send the messages of work items. Raises MemoryConnectionError."""
        ...

    def dispatch_reindex(self, company: str) -> None:
        """Send the job that carries the company's reindex on. Raises MemoryConnectionError."""
        ...

    def dispatch_finetune(self, company: str, run_id: str) -> None:
        """Send the job that carries a fine-tune run on. Raises MemoryConnectionError."""
        ...


class JobContext(Protocol):
    """The process's one set of connections, opened after the fork.

    Attributes:
        company: the company this process serves.
        policy: the memory policy in force.
        policies: the policies of all companies.
        ledger: companies, agents, runs, journal.
    """

    company: str
    policy: Policy
    policies: CompanyPolicies
    ledger: Ledger

    @property
    def batch_writer(self) -> BatchWriterProtocol:
        """Batches the writes of concurrent jobs."""
        ...

    @property
    def dispatcher(self) -> JobDispatcher:
        """Publishes jobs."""
        ...

    @property
    def clock(self) -> Clock:
        """Tells the time."""
        ...

    @property
    def model(self) -> Model | None:
        """The language model, or None when none is connected."""
        ...

    def maintain(self, run_id: str) -> Outcome:
        """Carry out a run of maintenance or undo until it ends or waits."""
        ...

    def synthesize(self, run_id: str, place: int) -> "QuestionOutcome":
        """Ask the model about one part of a run."""
        ...

    def compress(self, agent_id: str) -> Outcome:
        """Compress an agent's raw experience, for one slice of time."""
        ...

    def extract_lesson(self, lesson_id: str) -> Outcome:
        """Ask a model what a finished task teaches, and keep it."""
        ...

    def evolve(self, cycle_id: str) -> Outcome:
        """Carry out a cycle of the skill evolver."""
        ...

    def propagate(self, agent_id: str) -> int:
        """Copy an agent's lessons to its peers, if the policy says so, and return how many copies were written."""
        ...

    def reindex(self) -> "Step":
        """Carry the company's reindex on for one slice of time."""
        ...

    def finetune(self, run_id: str) -> "Step":
        """Carry out a fine-tune run's next stage."""
        ...

    def sweep_approvals(self) -> None:
        """Expire old proposals, and finish decisions that dead processes left open."""
        ...

    def sweep_organization(self) -> None:
        """Write the organisation's pending facts to the store."""
        ...

    def export_wiki(self, agent_id: str) -> None:
        """Export an agent's experience as files, if the policy says so after runs; it raises no memory error."""
        ...
