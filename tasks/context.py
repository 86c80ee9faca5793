"""The interface between jobs and the process that runs them; workers implement it, tests pass their own."""

from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from memcore.clock import Clock
from memcore.company import CompanyService, JobDispatcher
from memcore.config.policy import Policy
from memcore.ingest import WriteResult
from memcore.jobs import ProgressCallback, StoreItem
from memcore.ledger.companies import CompanyPolicies
from memcore.ledger.ledger import Ledger
from memcore.llm.protocol import Model

Service = TypeVar("Service", bound=CompanyService)
Result = TypeVar("Result")


class BatchWriterProtocol(Protocol):
    """Takes memories from many jobs and writes them together."""

    def submit(self, items: Sequence[StoreItem]) -> Future[WriteResult]:
        """Return a future of what became of the items; it fails alone with the job's own error."""
        ...


class JobContext(Protocol):
    """What jobs of one company are given; its connections are opened after the fork."""

    @property
    def company(self) -> str:
        """The company of the job's payload."""
        ...

    @property
    def policy(self) -> Policy:
        """The company's memory policy in force."""
        ...

    @property
    def policies(self) -> CompanyPolicies:
        """The policies of all companies."""
        ...

    @property
    def ledger(self) -> Ledger:
        """Agents, runs, journal, companies."""
        ...

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

    @property
    def on_progress(self) -> ProgressCallback:
        """Takes the progress of the job that this thread runs."""
        ...

    def service(self, kind: type[Service]) -> Service:
        """Return the company's service of this class, built when a job first needs it."""
        ...

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a service's coroutine on the process's event loop, and return its result."""
        ...
