"""Worker contexts: one for each company that this process serves, over the connections that all of them share."""

import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from mmap import mmap
from typing import Any

from memcore.company import CompanyContext, SharedConnections
from memcore.errors import MemoryConnectionError, MemoryNotFoundError
from memcore.jobs import ProgressCallback, no_progress
from tasks.context import Result, Service
from workers.write_batcher import BatchWriter

#: Contexts open at a time, beyond those that jobs use; each holds connections and up to three threads.
MAX_CONTEXTS = 32

#: Seconds after which a company's row and policy are read again; a removed or changed company waits no longer.
CHECK_SECONDS = 10.0


class WorkerContext:
    """The services of one company, built when a job first needs them; implements :class:`tasks.context.JobContext`."""

    def __init__(
        self, context: CompanyContext, *, progress_of: Callable[[], ProgressCallback] = lambda: no_progress
    ) -> None:
        self._context = context
        self._progress_of = progress_of
        self._building = threading.Lock()
        self._services: dict[type, Any] = {}
        self.company = context.company
        self.policy = context.policy
        self.policies = context.policies
        self.ledger = context.ledger
        self.model = context.model
        self.dispatcher = context.dispatcher
        self.clock = context.clock

    @property
    def batch_writer(self) -> BatchWriter:
        return self.service(BatchWriter)

    @property
    def on_progress(self) -> ProgressCallback:
        return self._progress_of()

    def service(self, kind: type[Service]) -> Service:
        with self._building:
            if kind not in self._services:
                self._services[kind] = kind.of(self._context)
            found: Service = self._services[kind]
            return found

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self._context.loop.run(work)

    def close(self) -> None:
        """Flush the batch writer, and close what the services have opened and the company's connections."""
        self._context.opened.close()


class _Slot:
    """The place of one company's context; ``users`` counts its jobs."""

    def __init__(self) -> None:
        self.opening = threading.Lock()
        self.users = 0
        self.context: WorkerContext | None = None
        self.checked_at = 0.0


class WorkerContexts:
    """The contexts of this process by company, a bounded number: those least recently used close when no job uses them.

    Args:
        open_shared: opens what all companies share; called by the first job, or behind the fork.
        progress_of: returns what takes the progress of the job that this thread runs.
        most: contexts that stay open.
        monotonic: the time in seconds.
    """

    def __init__(
        self,
        open_shared: Callable[[], SharedConnections],
        *,
        progress_of: Callable[[], ProgressCallback] = lambda: no_progress,
        most: int = MAX_CONTEXTS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._open_shared = open_shared
        self._opening = threading.Lock()
        self._shared: SharedConnections | None = None
        self._progress_of = progress_of
        self._most = most
        self._monotonic = monotonic
        self._lock = threading.Lock()
        # The company that was asked for last stands last.
        self._slots: dict[str, _Slot] = {}
        self._refused_since: dict[str | None, float] = {}
        # Shared with the children of a pool: their parent says whether the worker is ready.
        self._is_refused = mmap(-1, 1)

    @property
    def is_ready(self) -> bool:
        """Tell whether jobs can begin: no where the own company cannot be opened although its servers answer."""
        return not self._is_refused[0]

    def refused_seconds(self, company: str | None) -> float:
        """Return for how long a company's context could not be opened; 0 where it can."""
        since = self._refused_since.get(company)
        return 0.0 if since is None else self._monotonic() - since

    @property
    def shared(self) -> SharedConnections:
        """What all companies share, opened when this process has none yet."""
        with self._opening:
            if self._shared is None:
                self._shared = self._open_shared()
            return self._shared

    def connect(self) -> None:
        """Open the context of the installation's own company before a job needs it; raises as ``of``."""
        with self.of(None):
            pass

    @contextmanager
    def of(self, company: str | None) -> Iterator[WorkerContext]:
        """Hold the context of a company, or of the installation's own, open for a job.

        Raises MemoryNotFoundError for a company that is not registered, or removed; MemoryConfigError for a wrong
        policy; MemoryConnectionError.
        """
        try:
            name, slot, context = self._hold(company)
        except MemoryNotFoundError:
            raise
        except BaseException as error:
            self._note(company, self._refused_since.get(company, self._monotonic()), error)
            raise
        try:
            self._note(company, None)
            yield context
        finally:
            self._release(name, slot)

    def _hold(self, company: str | None) -> tuple[str, _Slot, WorkerContext]:
        company = company or self.shared.settings.company
        self._renew(company)
        with self._lock:
            slot = self._slots.pop(company, None) or _Slot()
            self._slots[company] = slot
            slot.users += 1
        try:
            # Not under the lock of all: a store that is away must not stop the jobs of other companies.
            with slot.opening:
                if slot.context is None:
                    opened = CompanyContext.open(self.shared, company)
                    slot.context = WorkerContext(opened, progress_of=self._progress_of)
                    slot.checked_at = self._monotonic()
                return company, slot, slot.context
        except BaseException:
            self._release(company, slot)
            raise

    def _note(self, company: str | None, refused_since: float | None, error: BaseException | None = None) -> None:
        if refused_since is None:
            self._refused_since.pop(company, None)
        else:
            self._refused_since[company] = refused_since
        if company is None or self._shared is None or company == self._shared.settings.company:
            # A server that is away is its own finding: workers start without it, and wait.
            self._is_refused[0] = not isinstance(error, MemoryConnectionError | None)

    def close(self) -> None:
        """Close every context, then what they share."""
        with self._lock:
            slots, self._slots = self._slots, {}
        for slot in slots.values():
            _close(slot)
        with self._opening:
            if self._shared is not None:
                self._shared.close()
                self._shared = None

    def _renew(self, company: str) -> None:
        """Give up a context whose company's policy has changed; jobs that use it finish with it."""
        with self._lock:
            slot = self._slots.get(company)
        now = self._monotonic()
        if slot is None or slot.context is None or now - slot.checked_at < CHECK_SECONDS:
            return
        _, policy = self.shared.configuration(company)
        slot.checked_at = now
        if policy is slot.context.policy:
            return
        with self._lock:
            if self._slots.get(company) is slot:
                del self._slots[company]
            is_idle = not slot.users
        if is_idle:
            _close(slot)

    def _release(self, company: str, slot: _Slot) -> None:
        with self._lock:
            slot.users -= 1
            if slot.context is None and not slot.users and self._slots.get(company) is slot:
                del self._slots[company]
            closing = [slot] if not slot.users and self._slots.get(company) is not slot else []
            if len(self._slots) > self._most:
                idle = [name for name, each in self._slots.items() if not each.users]
                closing += [self._slots.pop(name) for name in idle[: len(self._slots) - self._most]]
        for each in closing:
            _close(each)


def _close(slot: _Slot) -> None:
    # A store that does not answer must not make a job that is done look failed.
    with slot.opening, suppress(Exception):
        context, slot.context = slot.context, None
        if context is not None:
            context.close()
