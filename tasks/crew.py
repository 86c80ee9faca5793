"""What a job finds in the process it runs in; workers provide it, tests hand in their own."""

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from typing import Protocol

from memcore.clock import Clock
from memcore.config.policy import Policy
from memcore.intake import Written
from memcore.jobs.outcomes import Outcome
from memcore.jobs.payloads import StoreItem
from memcore.ledger.ledger import Ledger
from memcore.ledger.run import Run


class WriteDesk(Protocol):
    """Takes memories from many jobs and writes them together."""

    def submit(self, items: Sequence[StoreItem]) -> Future[Written]:
        """Return a future of what became of the items; it fails alone with the job's own error."""
        ...


class Bell(Protocol):
    """Tells workers that run rows wait for them."""

    def ring_many(self, runs: Iterable[Run]) -> None:
        """Send the runs' messages; a lost one is found by the sweep and rung again. Raises MemoryConnectionError."""
        ...


class Crew(Protocol):
    """The process's one set of connections, opened after the fork."""

    @property
    def company(self) -> str:
        """The company this process serves."""
        ...

    @property
    def policy(self) -> Policy:
        """The memory policy in force."""
        ...

    @property
    def ledger(self) -> Ledger:
        """Agents, runs, journal, switches."""
        ...

    @property
    def desk(self) -> WriteDesk:
        """The write batcher."""
        ...

    @property
    def bell(self) -> Bell:
        """Sends run messages."""
        ...

    @property
    def clock(self) -> Clock:
        """Tells the time."""
        ...

    def maintain(self, run_id: str) -> Outcome:
        """Carry out a run of maintenance or undo to its next stop."""
        ...
