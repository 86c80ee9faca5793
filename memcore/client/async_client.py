"""``AsyncMemoryClient``: MemoryClient for engines that run an event loop."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, Unpack

from memcore.client.client import BLOCK_SECONDS, MemoryClient, broker_disk
from memcore.client.envelopes import ExperienceFields, ImportRecord, Scope
from memcore.client.level_check import LevelChecker
from memcore.client.results import (
    AppliedReceipt,
    DistillReceipt,
    ExperienceReceipt,
    JobReceipt,
    JobStatus,
    PendingJobs,
    StoreReceipt,
)
from memcore.client.throttling import WhenFull
from memcore.clock import Clock, utc_now
from memcore.jobs.payloads import ApplicationOutcome, Use
from memcore.models.execution import ExecutionTrace
from memcore.models.memory import MemoryStoreRequest

if TYPE_CHECKING:
    from memcore.config.settings import Settings
    from memcore.models.finetune import FineTunePlan

#: Concurrent calls: a send takes a tenth of a millisecond, so only a broker that hangs makes more of them wait.
THREADS = 4

Given = ParamSpec("Given")
Result = TypeVar("Result")


class AsyncMemoryClient:
    """Send memories and jobs from a coroutine; every method does what MemoryClient's does.

    The broker's libraries are synchronous, so calls run in a few threads of this client's own: the event loop never
    waits, and the engine's default executor is left alone. A cancelled call may still send what it was about to send.

    Args:
        broker_url: see MemoryClient, here and below.
        result_url: where outcomes are read.
        company: whose memories.
        max_waiting: most jobs that may wait on a queue.
        when_full: ``error`` or ``block``; blocking suspends the caller alone.
        block_seconds: longest wait for room.
        clock: tells the creation time of memories.
        levels: what is known of the agents' levels.
        disk: a folder on the broker's disk, where that is this machine's.

    Raises:
        MemoryInputError: as MemoryClient.
    """

    def __init__(
        self,
        broker_url: str,
        *,
        result_url: str | None = None,
        company: str = "default",
        max_waiting: int | None = None,
        when_full: WhenFull = "error",
        block_seconds: float = BLOCK_SECONDS,
        clock: Clock = utc_now,
        levels: LevelChecker | None = None,
        disk: Path | None = None,
    ) -> None:
        self._client = MemoryClient(
            broker_url,
            result_url=result_url,
            company=company,
            max_waiting=max_waiting,
            when_full=when_full,
            block_seconds=block_seconds,
            clock=clock,
            levels=levels,
            disk=disk,
        )
        self._threads: ThreadPoolExecutor | None = None

    @classmethod
    def from_settings(
        cls,
        settings: "Settings",
        *,
        max_waiting: int | None = None,
        when_full: WhenFull = "error",
        block_seconds: float = BLOCK_SECONDS,
        clock: Clock = utc_now,
    ) -> Self:
        """Return a client for the stack that the settings describe."""
        return cls(
            settings.broker_url,
            result_url=settings.result_url,
            company=settings.company,
            max_waiting=max_waiting,
            when_full=when_full,
            block_seconds=block_seconds,
            clock=clock,
            levels=LevelChecker(settings),
            disk=broker_disk(settings),
        )

    @property
    def blocking(self) -> MemoryClient:
        """The MemoryClient whose calls run in threads, for code that has threads of its own."""
        return self._client

    async def store(
        self,
        agent_id: str,
        request: MemoryStoreRequest | Mapping[str, Any],
        *,
        scope: Scope | Mapping[str, Any] | None = None,
        track: bool = True,
    ) -> StoreReceipt:
        """Send one memory, or a mapping of its fields, and return its id."""
        return await self._run(self._client.store, agent_id, request, scope=scope, track=track)

    async def store_many(
        self,
        agent_id: str,
        requests: Iterable[MemoryStoreRequest | Mapping[str, Any]],
        *,
        scope: Scope | Mapping[str, Any] | None = None,
        track: bool = True,
    ) -> StoreReceipt:
        """Send many memories of one agent in few jobs; all are validated before the first is sent."""
        return await self._run(self._client.store_many, agent_id, requests, scope=scope, track=track)

    async def import_many(
        self, records: Iterable[ImportRecord | Mapping[str, Any]], *, track: bool = True
    ) -> StoreReceipt:
        """Send memories of any agents, with creation times of their own, over the bulk queue."""
        return await self._run(self._client.import_many, records, track=track)

    async def maintain_now(self, agent_id: str, *, allow_large: bool = False) -> JobReceipt:
        """Ask for one agent's maintenance now; the job's id is the run's id."""
        return await self._run(self._client.maintain_now, agent_id, allow_large=allow_large)

    async def undo(self, agent_id: str, run_id: str) -> JobReceipt:
        """Ask for a run to be undone."""
        return await self._run(self._client.undo, agent_id, run_id)

    async def restore(self, agent_id: str, entry_id: str) -> JobReceipt:
        """Ask for a memory to be brought back from the archive, by archival id or its own."""
        return await self._run(self._client.restore, agent_id, entry_id)

    async def end_session(self, agent_id: str, session_id: str) -> JobReceipt:
        """Say that a session has ended."""
        return await self._run(self._client.end_session, agent_id, session_id)

    async def end_project(self, agent_id: str, project_id: str) -> JobReceipt:
        """Say that a project has ended."""
        return await self._run(self._client.end_project, agent_id, project_id)

    async def end_task(self, agent_id: str, task_id: str) -> JobReceipt:
        """Say that a task has ended."""
        return await self._run(self._client.end_task, agent_id, task_id)

    async def evolve_now(self) -> JobReceipt:
        """Request a cycle of the skill evolver now; the job's id is the cycle's id."""
        return await self._run(self._client.evolve_now)

    async def finetune(self, plan: "FineTunePlan | Mapping[str, Any]", *, request_id: str | None = None) -> JobReceipt:
        """Ask for the embedder to be trained on the fleet's own texts; the job's id is the run's id."""
        return await self._run(self._client.finetune, plan, request_id=request_id)

    async def record_use(self, uses: Iterable[Use], *, batch_id: str | None = None) -> JobReceipt:
        """Report the memories that agents were shown, up to 1,024 in one call; the job's id is the batch's."""
        return await self._run(self._client.record_use, uses, batch_id=batch_id)

    async def record_experience(
        self, agent_id: str, *, track: bool = True, **fields: Unpack[ExperienceFields]
    ) -> ExperienceReceipt:
        """Send a raw experience of an agent of level persistent, to be kept unchanged; a run may compress it."""
        return await self._run(self._client.record_experience, agent_id, track=track, **fields)

    async def distill(
        self,
        agent_id: str,
        trace: ExecutionTrace | Mapping[str, Any],
        *,
        scope: Scope | Mapping[str, Any] | None = None,
        track: bool = True,
    ) -> DistillReceipt | None:
        """Send how a task went; None, with a warning in the log, when it could not be sent."""
        return await self._run(self._client.distill, agent_id, trace, scope=scope, track=track)

    async def applied(
        self, agent_id: str, skill_id: str, outcome: ApplicationOutcome, *, task_id: str | None = None
    ) -> AppliedReceipt | None:
        """Report that an agent applied a skill; None, with a warning in the log, when it could not be sent."""
        return await self._run(self._client.applied, agent_id, skill_id, outcome, task_id=task_id)

    async def status(self, job_id: str) -> JobStatus:
        """Return the status of a job."""
        return await self._run(self._client.status, job_id)

    async def wait(self, job_ids: Iterable[str], *, timeout_seconds: float) -> AsyncIterator[JobStatus]:
        """Yield each job's status as it finishes; ends at once when its task is cancelled.

        Raises:
            TimeoutError: some had not finished in time.
            MemoryConnectionError: outcomes cannot be read.
        """
        pending_jobs = PendingJobs(tuple(job_ids), timeout_seconds=timeout_seconds)
        while pending_jobs.waiting:
            for status in pending_jobs.mark_finished(await self._run(self._client.finished, pending_jobs.waiting)):
                yield status
            if pending_jobs.waiting:
                await asyncio.sleep(pending_jobs.poll_delay())

    async def close(self) -> None:
        """Close the connections once running calls have ended; a closed client opens them again when used."""
        await self._run(self._client.close)
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _run(self, step: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs) -> Result:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="memtend-client")
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: step(*args, **kwargs))
