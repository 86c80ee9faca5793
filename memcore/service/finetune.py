"""Fine-tune runs, checkpoints and what serves; and the removal of one memory by a run."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from memcore.backends.factory import embedder_choice, followed_row
from memcore.embedding.selection import EmbedderChoice
from memcore.errors import (
    CheckpointNotFoundError,
    FineTuneRunNotFoundError,
    MemoryConfigError,
    MemoryInputError,
    MemoryNotFoundError,
    MemoryStoreError,
)
from memcore.finetune.dataset import Gathering
from memcore.finetune.deployment import ActiveEmbedderSnapshot, active_embedder, create_deployment
from memcore.finetune.execution.factory import execution_of
from memcore.finetune.markers import StageProgress
from memcore.finetune.preflight import PreflightResult, preflight
from memcore.finetune.run_folder import runs_of
from memcore.finetune.trial import DEFAULT_TEXTS, WORDS, Trial, run_trial
from memcore.jobs import FineTunePayload, ReindexPayload
from memcore.ledger.access.keys import Verb
from memcore.ledger.collections import Checkpoint, CollectionPointer
from memcore.ledger.finetune_runs import FineTuneRun
from memcore.ledger.organization.audit import Confirmation
from memcore.ledger.runs import NewRun, Run
from memcore.models.finetune import FineTunePlan, FineTuneStatus
from memcore.reindex import create_reindex_target
from memcore.service.finetune_views import CheckpointView, FineTuneRuns, FineTuneRunView, ServingView
from memcore.service.operation import Named, operation
from memcore.service.resources import MAX_OFFSET, CompanyPart, ServiceResources, check_page
from memcore.service.runs import RunInfo

if TYPE_CHECKING:
    from memcore.finetune.deployment import CheckpointDeployment

#: Most rows of a page.
MAX_PAGE = 200

#: Opens what deploys checkpoints; MemoryBackendUnsupportedError where no backend embeds anything.
DeploymentOpener = Callable[[], AbstractAsyncContextManager["CheckpointDeployment"]]


_ONE = "/fine-tune/checkpoints/{checkpoint_id}"

#: A page.
Limit = Annotated[int, Field(ge=1, le=MAX_PAGE)]
Offset = Annotated[int, Field(ge=0, le=MAX_OFFSET)]


class FineTuneOperations(CompanyPart):
    """Carries out requests about a company's embedder, with the ledger's rows as the truth.

    Args:
        open_deployment: opens what deploys checkpoints; left out, as settings and policy say.
    """

    def __init__(self, resources: ServiceResources, *, open_deployment: DeploymentOpener | None = None) -> None:
        super().__init__(resources)
        self._open_deployment = self._configured_deployment if open_deployment is None else open_deployment

    async def start_fine_tune(self, plan: FineTunePlan | Mapping[str, Any]) -> FineTuneRun:
        """Queue a run, and dispatch it. Raises MemoryInputError naming a field, FineTuneRunActiveError."""
        checked = plan if isinstance(plan, FineTunePlan) else FineTunePlan.model_validate(dict(plan))
        rows = self._ledger.finetune_runs
        run = await asyncio.to_thread(rows.start, self._company, checked.model_dump(mode="json"))
        await self._resources.dispatch_open(FineTunePayload)
        return run

    @operation("POST /fine-tune/resume/{run_id}", Verb.ADMIN, shows=FineTuneRunView)
    async def resume_fine_tune(self, run_id: str) -> FineTuneRun:
        """Let a failed or cancelled run go on behind the stages that it has finished.

        Raises FineTuneRunNotFoundError, FineTuneRunNotResumableError, FineTuneRunActiveError.
        """
        run = await self._ask(self._ledger.finetune_runs.resume, run_id)
        await self._resources.dispatch_open(FineTunePayload)
        return run

    @operation("GET /fine-tune/status", Verb.ADMIN)
    async def get_fine_tune_status(self, run_id: Named | None = None) -> FineTuneStatus:
        """Return how far a run is; without an id the active one, or idle. Raises FineTuneRunNotFoundError."""
        if run_id is not None:
            run: FineTuneRun | None = await self.get_run(run_id)
        else:
            run = await self._ask(self._ledger.finetune_runs.active)
        if run is None:
            return FineTuneStatus()
        return FineTuneStatus(run_id=run.run_id, stage=run.stage, progress=run.progress, error=run.reason)

    @operation("POST /fine-tune/cancel", Verb.ADMIN, under="cancelled_run_id")
    async def cancel_fine_tune(self, confirmation: Confirmation) -> str | None:
        """End the active run, and return its id; None when none is active, and nothing is noted then.

        One that runs is stopped by its worker within seconds: its status tells.
        """
        note = partial(confirmation.note, "finetune.cancel")
        run = await self._ask(self._ledger.finetune_runs.cancel, note=note)
        if run is None:
            return None
        if not run.stage.is_end:
            # Its worker may be dead: the first worker that gets the job ends the run.
            await self._resources.dispatch_open(FineTunePayload)
        return run.run_id

    async def run_preflight(self, plan: FineTunePlan | Mapping[str, Any]) -> PreflightResult:
        """Look whether a run of a plan could go well on this machine; a field out of bounds is a failed check."""
        loop = asyncio.get_running_loop()

        def memories(enough: int) -> int:
            # Asked by the thread that looks, and only where documents are few.
            return asyncio.run_coroutine_threadsafe(self._memories(enough), loop).result()

        def sample(most: int) -> list[str]:
            return asyncio.run_coroutine_threadsafe(self._sample(most), loop).result()

        settings = self._resources.settings
        execution = execution_of(settings, self._resources.policy)
        return await asyncio.to_thread(
            preflight,
            plan,
            runs=runs_of(settings.home, self._company),
            memories=memories,
            execution=execution,
            sample=sample,
        )

    async def try_embedder(
        self, choice: EmbedderChoice | None = None, *, texts: int = DEFAULT_TEXTS, watch: StageProgress | None = None
    ) -> Trial:
        """Measure an embedder beside the one that serves, on what agents remember and ask; nothing is switched.

        Args:
            choice: the embedder; None takes the configured one, to which a reindex would switch.
            texts: how many passages are searched, drawn from all agents.
            watch: takes the progress.

        Raises MemoryInputError for the one that serves, FineTuneTrainingDataError where there is no memory,
        MemoryConfigError, MemoryEmbeddingError.
        """
        settings, policy = self._resources.settings, self._resources.policy
        gathering = await self._gathering()
        pointer = await self.get_serving()
        if pointer is None:
            raise MemoryConfigError("embedder: no backend of this policy embeds anything")
        load = followed_row(settings, policy).load
        serves = await asyncio.to_thread(load, pointer.current.choice)
        tried = await asyncio.to_thread(load, choice or embedder_choice(settings, policy))
        if tried.name == serves.name:
            raise MemoryInputError("embedder", f"{serves.name} serves already: name another one, or configure it")
        memories = [each async for each in gathering.passages(chunk_words=WORDS)]
        count = await gathering.count(enough=sys.maxsize)
        since = self._resources.clock() - timedelta(days=policy.memory.retrieval.query_days)
        recorded = [each async for each in gathering.recorded(since=since, chunk_words=WORDS)]
        return await asyncio.to_thread(
            run_trial, memories, recorded, serves, tried, count=count, texts=texts, watch=watch or StageProgress()
        )

    async def get_run(self, run_id: str) -> FineTuneRun:
        """Return a run. Raises FineTuneRunNotFoundError."""
        run = await self._ask(self._ledger.finetune_runs.get, run_id)
        if run is None:
            raise FineTuneRunNotFoundError
        return run

    @operation("GET /fine-tune/runs", Verb.ADMIN, shows=FineTuneRuns)
    async def list_runs(self, *, limit: Limit = 50, offset: Offset = 0) -> tuple[tuple[FineTuneRun, ...], int]:
        """Return runs, newest first, and how many there are in all. Raises MemoryInputError."""
        check_page(limit, MAX_PAGE, offset=offset)
        return await self._ask(self._ledger.finetune_runs.page, limit=limit, offset=offset)

    @operation("GET /embedder", Verb.ADMIN)
    async def get_active_embedder(self) -> ActiveEmbedderSnapshot:
        """Return the embedder that serves now. Raises MemoryNotFoundError before anybody has connected to the store."""
        return await asyncio.to_thread(active_embedder, self._ledger, self._company)

    async def get_serving(self) -> CollectionPointer | None:
        """Return what serves, is being filled, and is kept; None before anybody has connected to the store."""
        return await self._ask(self._ledger.collection_pointers.get)

    async def list_checkpoints(self, *, limit: int, offset: int) -> tuple[tuple[Checkpoint, ...], int]:
        """Return 1 to 200 checkpoints, newest first, and how many there are in all. Raises MemoryInputError."""
        check_page(limit, MAX_PAGE, offset=offset)
        rows = self._ledger.checkpoints
        found = await asyncio.to_thread(rows.page, self._company, limit=limit, offset=offset)
        return found, await asyncio.to_thread(rows.count, self._company)

    async def get_checkpoint(self, checkpoint_id: str) -> Checkpoint:
        """Return a checkpoint. Raises CheckpointNotFoundError."""
        found = await self._ask(self._ledger.checkpoints.get, checkpoint_id)
        if found is None:
            raise CheckpointNotFoundError
        return found

    @operation(f"POST {_ONE}/deploy", Verb.ADMIN, shows=ServingView)
    async def deploy_checkpoint(
        self,
        checkpoint_id: str,
        confirmation: Confirmation,
        *,
        force: Annotated[bool, Field(description="Also a checkpoint that the gate rejected.")] = False,
    ) -> CollectionPointer:
        """Begin to fill a collection with a checkpoint, which serves once it has caught up; agents go on meanwhile.

        Refused for one that the gate rejected, without ``force``; and while another switch is under way.

        Raises:
            MemoryBackendUnsupportedError: no backend of this policy embeds anything.
            CheckpointNotFoundError, CheckpointConflictError, CheckpointCorruptError: as CheckpointDeployment.deploy.
        """
        async with self._open_deployment() as deployment:
            # The first connection inserts the pointer.
            await self._resources.backend()
            pointer = await deployment.deploy(checkpoint_id, confirmation, is_forced=force)
        await self._resources.dispatch_open(ReindexPayload)
        return pointer

    @operation(f"POST {_ONE}/rollback", Verb.ADMIN, shows=ServingView)
    async def rollback_checkpoint(self, checkpoint_id: str | None, confirmation: Confirmation) -> CollectionPointer:
        """Begin to switch back to a checkpoint that is kept; what serves goes on until then.

        Where the id is None, to whatever served before.

        Raises:
            MemoryBackendUnsupportedError: no backend of this policy embeds anything.
            CheckpointNotFoundError, CheckpointRollbackUnavailableError, CheckpointRollbackCorruptError: as
                CheckpointDeployment.rollback; what serves goes on.
        """
        async with self._open_deployment() as deployment:
            pointer = await deployment.rollback(checkpoint_id, confirmation)
        await self._resources.dispatch_open(ReindexPayload)
        return pointer

    @operation(f"DELETE {_ONE}", Verb.ADMIN, shows=CheckpointView)
    async def delete_checkpoint(self, checkpoint_id: str, confirmation: Confirmation) -> Checkpoint:
        """Delete a checkpoint and its files, and return what it was; refused for one that serves or is kept.

        Raises CheckpointNotFoundError; CheckpointConflictError for one that serves, is being filled, or is kept;
        MemoryBackendUnsupportedError.
        """
        async with self._open_deployment() as deployment:
            return await deployment.delete(checkpoint_id, confirmation)

    @operation("DELETE /agents/{agent_id}/memories/{memory_id}", Verb.ADMIN, shows=RunInfo)
    async def delete_memory_entry(self, agent_id: str, memory_id: str, confirmation: Confirmation) -> Run:
        """Queue the removal of one memory, and return its run, which can be undone while the journal keeps it.

        Raises:
            MemoryNotFoundError: the agent has no such memory.
            MemoryStoreError: another run of the agent is under way: try again.
        """
        backend = await self._resources.backend()
        found = await backend.get_many(agent_id, [memory_id])
        if not found:
            raise MemoryNotFoundError("memory_id: names no memory of this agent")
        removal = NewRun(
            company=self._company,
            agent_id=agent_id,
            kind="remove",
            origin="manual",
            # An engine's clock may be ahead of this one; what is stored anew behind this stays.
            planned_at=max(self._resources.clock(), found[0].entry.created_at),
            scope_id=memory_id,
        )
        note = confirmation.note("memory.remove", memory_id)
        run = await asyncio.to_thread(self._ledger.runs.create, removal, note=note)
        if run is None:
            raise MemoryStoreError("another run of this agent is under way; nothing was removed, try again")
        item = await self._ask(self._ledger.runs.item, run.run_id)
        await self._resources.dispatch([item])
        return run

    async def _memories(self, enough: int) -> int:
        return await (await self._gathering()).count(enough=enough)

    async def _sample(self, most: int) -> list[str]:
        return await (await self._gathering()).sample(most=most)

    async def _gathering(self) -> Gathering:
        backend = await self._resources.backend()
        return Gathering(backend, self._ledger, company=self._company, alive=lambda: None)

    @asynccontextmanager
    async def _configured_deployment(self) -> "AsyncIterator[CheckpointDeployment]":
        settings, policy = self._resources.settings, self._resources.policy
        async with create_reindex_target(settings, policy) as reindex_target:
            yield create_deployment(settings, policy, self._ledger, reindex_target)
