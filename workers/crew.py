"""The crew of one worker process: one event loop, one set of connections, opened after the fork, closed at the end."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack
from typing import Any, Self, TypeVar

from memcore.backends.factory import create_worker_backend
from memcore.clock import Clock, utc_now
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.embedding.protocol import Embedder
from memcore.intake import Intake, Written
from memcore.jobs.outcomes import Outcome
from memcore.jobs.payloads import StoreItem
from memcore.ledger.ledger import Ledger
from memcore.maintenance.service import MaintenanceService
from memcore.maintenance.timeouts import Timeouts
from tasks.crew import Bell
from workers.desk import Desk

Result = TypeVar("Result")


class LoopThread:
    """An event loop in a thread of its own, for the sync world of Celery to hand coroutines to."""

    def __init__(self) -> None:
        """Start the loop."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="crew-loop", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run the coroutine on the loop and return its result; called from any other thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        """Stop the loop and wait for its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class WorkerCrew:
    """Everything a job needs, opened once in the process that runs it (see tasks.crew.Crew)."""

    def __init__(
        self,
        settings: Settings,
        policy: Policy,
        bell: Bell,
        *,
        embedder: Embedder | None = None,
        clock: Clock = utc_now,
    ) -> None:
        """Open every connection; raises MemoryConfigError or MemoryConnectionError in one sentence."""
        self.company = settings.company
        self.policy = policy
        self.bell = bell
        self.clock = clock
        with ExitStack() as opened:
            self._loop = LoopThread()
            opened.callback(self._loop.close)
            self.ledger = Ledger.open(settings.ledger_urls, clock=clock)
            opened.callback(self.ledger.close)
            self._backend = create_worker_backend(settings, policy, embedder=embedder, clock=clock)
            self._loop.run(self._backend.connect())
            opened.callback(lambda: self._loop.run(self._backend.disconnect()))
            self.desk = Desk(self._write)
            self.desk.start()
            opened.callback(self.desk.close)
            self._opened = opened.pop_all()
        self._intake = Intake(
            self._backend,
            self.ledger,
            company=settings.company,
            interval=policy.memory.consolidation.interval,
            level=policy.memory.level,
        )
        self._maintenance = MaintenanceService(
            self._backend,
            self.ledger,
            policy.memory.consolidation,
            company=settings.company,
            level=policy.memory.level,
            timeouts=Timeouts.of(policy.memory.options),
            clock=clock,
        )

    def maintain(self, run_id: str) -> Outcome:
        """Carry out a run to its next stop."""
        return self._loop.run(self._maintenance.run(run_id))

    def close(self) -> None:
        """Finish what lies on the desk and close every connection."""
        self._opened.close()

    def _write(self, items: Sequence[StoreItem]) -> Written:
        return self._loop.run(self._intake.write(items))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class CrewOnDuty:
    """Holds the crew of this process; opened by the pool's start signal, or by the first job."""

    def __init__(self, hire: Callable[[], WorkerCrew]) -> None:
        """Remember how a crew is opened; nothing is opened yet."""
        self._hire = hire
        self._lock = threading.Lock()
        self._crew: WorkerCrew | None = None

    def get(self) -> WorkerCrew:
        """Return the crew, opening it when this process has none yet."""
        with self._lock:
            if self._crew is None:
                self._crew = self._hire()
            return self._crew

    def dismiss(self) -> None:
        """Close the crew, if there is one."""
        with self._lock:
            if self._crew is not None:
                self._crew.close()
                self._crew = None
