"""``MemoryService``: fine-tune runs, checkpoints, the removal of a memory; HTTP, MCP and the command line call it."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import KW_ONLY, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memcore.backends.factory import create_worker_backend
from memcore.clock import Clock, utc_now
from memcore.company import JobDispatcher, dispatch_open
from memcore.config.finetune import FineTuneExecutionConfig
from memcore.errors import (
    CheckpointNotFoundError,
    FineTuneRunNotFoundError,
    MemoryConnectionError,
    MemoryInputError,
    MemoryNotFoundError,
    MemoryStoreError,
)
from memcore.finetune.dataset import Gathering
from memcore.finetune.deployment import ActiveEmbedderSnapshot, active_embedder, create_deployment
from memcore.finetune.execution.factory import execution_of
from memcore.finetune.markers import FineTuneEvent
from memcore.finetune.preflight import PreflightResult, preflight
from memcore.finetune.run_folder import RUNS
from memcore.jobs import FineTunePayload, Payload, ReindexPayload
from memcore.ledger.collections import Checkpoint, CollectionPointer
from memcore.ledger.finetune_runs import FineTuneRun
from memcore.ledger.ledger import Ledger
from memcore.ledger.organization.audit import Confirmation
from memcore.ledger.runs import NewRun, Run
from memcore.models.finetune import FineTunePlan, FineTuneStatus
from memcore.reindex import create_reindex_target

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from memcore.backends.factory import WorkerBackend
    from memcore.config.policy import Policy
    from memcore.config.settings import Settings
    from memcore.finetune.deployment import CheckpointDeployment


#: Most rows of a page.
MAX_PAGE = 200

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class MemoryService:
    """Carries out requests about a company's embedder and memories, with the ledger's rows as the truth.

    Args:
        ledger: runs, checkpoints, what serves, the audit.
        company: whose.
        dispatcher: publishes jobs for rows; what it cannot send, the sweep dispatches.
        open_backend: opens the memories, for the calls that need them.
        open_deployment: opens what deploys checkpoints; MemoryBackendUnsupportedError where no backend embeds anything.
        runs: the folder of this machine's runs, which a preflight looks at.
        execution: where stages run.
        clock: the time.
    """

    ledger: Ledger
    _: KW_ONLY
    company: str
    dispatcher: JobDispatcher
    open_backend: Callable[[], AbstractAsyncContextManager["WorkerBackend"]]
    open_deployment: Callable[[], AbstractAsyncContextManager["CheckpointDeployment"]]
    runs: Path
    execution: FineTuneExecutionConfig = FineTuneExecutionConfig()  # noqa: RUF009  # a frozen value
    clock: Clock = utc_now

    async def start_fine_tune(self, plan: FineTunePlan | Mapping[str, Any]) -> FineTuneRun:
        """Queue a run, and dispatch it. Raises MemoryInputError naming a field, FineTuneRunActiveError."""
        checked = plan if isinstance(plan, FineTunePlan) else FineTunePlan.model_validate(dict(plan))
        rows = self.ledger.finetune_runs
        run = await asyncio.to_thread(rows.start, self.company, checked.model_dump(mode="json"))
        await self._dispatch_open(FineTunePayload)
        return run

    async def resume_fine_tune(self, run_id: str) -> FineTuneRun:
        """Let a failed or cancelled run go on behind the stages that it has finished.

        Raises FineTuneRunNotFoundError, FineTuneRunNotResumableError, FineTuneRunActiveError.
        """
        run = await asyncio.to_thread(self.ledger.finetune_runs.resume, self.company, run_id)
        await self._dispatch_open(FineTunePayload)
        return run

    async def get_fine_tune_status(self, run_id: str | None = None) -> FineTuneStatus:
        """Return how far a run is; without an id the active one, or idle. Raises FineTuneRunNotFoundError."""
        if run_id is not None:
            run: FineTuneRun | None = await self.get_run(run_id)
        else:
            run = await asyncio.to_thread(self.ledger.finetune_runs.active, self.company)
        if run is None:
            return FineTuneStatus()
        return FineTuneStatus(run_id=run.run_id, stage=run.stage, progress=run.progress, error=run.reason)

    async def cancel_fine_tune(self, confirmation: Confirmation) -> str | None:
        """End the active run, and return its id; None when none is active, and nothing is noted then.

        One that runs is stopped by its worker within seconds: its status tells.
        """
        note = partial(confirmation.note, "finetune.cancel")
        run = await asyncio.to_thread(self.ledger.finetune_runs.cancel, self.company, note=note)
        if run is None:
            return None
        if not run.stage.is_end:
            # Its worker may be dead: the first worker that gets the job ends the run.
            await self._dispatch_open(FineTunePayload)
        return run.run_id

    async def run_preflight(self, plan: FineTunePlan | Mapping[str, Any]) -> PreflightResult:
        """Look whether a run of a plan could go well on this machine; a field out of bounds is a failed check."""
        loop = asyncio.get_running_loop()

        def memories(enough: int) -> int:
            # Asked by the thread that looks, and only where documents are few.
            return asyncio.run_coroutine_threadsafe(self._memories(enough), loop).result()

        def sample(most: int) -> list[str]:
            return asyncio.run_coroutine_threadsafe(self._sample(most), loop).result()

        return await asyncio.to_thread(
            preflight, plan, runs=self.runs, memories=memories, execution=self.execution, sample=sample
        )

    async def get_run(self, run_id: str) -> FineTuneRun:
        """Return a run. Raises FineTuneRunNotFoundError."""
        run = await asyncio.to_thread(self.ledger.finetune_runs.get, self.company, run_id)
        if run is None:
            raise FineTuneRunNotFoundError
        return run

    async def list_runs(self, *, limit: int, offset: int) -> tuple[tuple[FineTuneRun, ...], int]:
        """Return 1 to 200 runs, newest first, and how many there are in all. Raises MemoryInputError."""
        _check_page(limit, offset)
        return await asyncio.to_thread(self.ledger.finetune_runs.page, self.company, limit=limit, offset=offset)

    async def get_active_embedder(self) -> ActiveEmbedderSnapshot:
        """Return what serves now. Raises MemoryNotFoundError before anybody has connected to the store."""
        return await asyncio.to_thread(active_embedder, self.ledger, self.company)

    async def list_checkpoints(self, *, limit: int, offset: int) -> tuple[tuple[Checkpoint, ...], int]:
        """Return 1 to 200 checkpoints, newest first, and how many there are in all. Raises MemoryInputError."""
        _check_page(limit, offset)
        rows = self.ledger.checkpoints
        found = await asyncio.to_thread(rows.page, self.company, limit=limit, offset=offset)
        return found, await asyncio.to_thread(rows.count, self.company)

    async def get_checkpoint(self, checkpoint_id: str) -> Checkpoint:
        """Return a checkpoint. Raises CheckpointNotFoundError."""
        found = await asyncio.to_thread(self.ledger.checkpoints.get, self.company, checkpoint_id)
        if found is None:
            raise CheckpointNotFoundError
        return found

    async def deploy_checkpoint(
        self, checkpoint_id: str, confirmation: Confirmation, *, is_forced: bool = False
    ) -> CollectionPointer:
        """Begin to fill a collection with a checkpoint, which serves once it has caught up; agents go on meanwhile.

        Raises:
            MemoryBackendUnsupportedError: no backend of this policy embeds anything.
            CheckpointNotFoundError, CheckpointConflictError, CheckpointCorruptError: as CheckpointDeployment.deploy.
        """
        async with self.open_deployment() as deployment:
            # The first connection inserts the pointer.
            async with self.open_backend():
                pass
            pointer = await deployment.deploy(checkpoint_id, confirmation, is_forced=is_forced)
        await self._dispatch_open(ReindexPayload)
        return pointer

    async def rollback_checkpoint(self, checkpoint_id: str | None, confirmation: Confirmation) -> CollectionPointer:
        """Begin to switch back to this checkpoint, or to whatever served before where the id is None.

        Raises:
            MemoryBackendUnsupportedError: no backend of this policy embeds anything.
            CheckpointNotFoundError, CheckpointRollbackUnavailableError, CheckpointRollbackCorruptError: as
                CheckpointDeployment.rollback; what serves goes on.
        """
        async with self.open_deployment() as deployment:
            pointer = await deployment.rollback(checkpoint_id, confirmation)
        await self._dispatch_open(ReindexPayload)
        return pointer

    async def delete_checkpoint(self, checkpoint_id: str, confirmation: Confirmation) -> Checkpoint:
        """Delete a checkpoint and its files, and return what it was.

        Raises CheckpointNotFoundError; CheckpointConflictError for one that serves, is being filled, or is kept;
        MemoryBackendUnsupportedError.
        """
        async with self.open_deployment() as deployment:
            return await deployment.delete(checkpoint_id, confirmation)

    async def delete_memory_entry(self, agent_id: str, memory_id: str, confirmation: Confirmation) -> Run:
        """Queue the removal of one memory, and return its run, which can be undone while the journal keeps it.

        Raises:
            MemoryNotFoundError: the agent has no such memory.
            MemoryStoreError: another run of the agent is under way: try again.
        """
        async with self.open_backend() as backend:
            found = await backend.get_many(agent_id, [memory_id])
        if not found:
            raise MemoryNotFoundError("memory_id: names no memory of this agent")
        removal = NewRun(
            company=self.company,
            agent_id=agent_id,
            kind="remove",
            origin="manual",
            # An engine's clock may be ahead of this one; what is stored anew behind this stays.
            planned_at=max(self.clock(), found[0].entry.created_at),
            scope_id=memory_id,
        )
        note = confirmation.note("memory.remove", memory_id)
        run = await asyncio.to_thread(self.ledger.runs.create, removal, note=note)
        if run is None:
            raise MemoryStoreError("another run of this agent is under way; nothing was removed, try again")
        item = await asyncio.to_thread(self.ledger.runs.item, self.company, run.run_id)
        await self._dispatch(self.dispatcher.dispatch, [item])
        return run

    async def _memories(self, enough: int) -> int:
        async with self.open_backend() as backend:
            gathering = Gathering(backend, self.ledger, company=self.company, alive=lambda: None)
            return await gathering.count(enough=enough)

    async def _sample(self, most: int) -> list[str]:
        async with self.open_backend() as backend:
            gathering = Gathering(backend, self.ledger, company=self.company, alive=lambda: None)
            return await gathering.sample(most=most)

    async def _dispatch_open(self, kind: type[Payload]) -> None:
        await self._dispatch(dispatch_open, self.dispatcher, self.ledger, self.company, kind)

    async def _dispatch(self, dispatch: Callable[..., None], *given: object) -> None:
        try:
            await asyncio.to_thread(dispatch, *given)
        except MemoryConnectionError:
            # What was asked for stands in its row, and the sweep dispatches when the broker is back.
            _log.warning(FineTuneEvent.DISPATCH_FAILED, extra={"company": self.company})


def _check_page(limit: int, offset: int) -> None:
    if not 1 <= limit <= MAX_PAGE:
        raise MemoryInputError("limit", f"must be 1 to {MAX_PAGE}")
    if offset < 0:
        raise MemoryInputError("offset", "must be 0 or more")


def create_memory_service(
    settings: "Settings", policy: "Policy", ledger: Ledger, dispatcher: JobDispatcher, *, clock: Clock = utc_now
) -> MemoryService:
    """Return the service of an installation; the caller closes the ledger, the service what else it opens."""

    @asynccontextmanager
    async def open_backend() -> "AsyncIterator[WorkerBackend]":
        backend = create_worker_backend(settings, policy)
        await backend.connect()
        try:
            yield backend
        finally:
            await backend.disconnect()

    @asynccontextmanager
    async def open_deployment() -> "AsyncIterator[CheckpointDeployment]":
        async with create_reindex_target(settings, policy) as reindex_target:
            yield create_deployment(settings, policy, ledger, reindex_target)

    return MemoryService(
        ledger,
        company=settings.company,
        dispatcher=dispatcher,
        open_backend=open_backend,
        open_deployment=open_deployment,
        runs=settings.home / RUNS,
        execution=execution_of(settings, policy),
        clock=clock,
    )
