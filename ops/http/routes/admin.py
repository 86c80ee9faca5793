"""``/admin/memory``: fine-tune runs, checkpoints, the embedder that serves, the removal of one memory."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Query

from memcore.finetune.deployment import ActiveEmbedderSnapshot
from memcore.ledger.access.keys import Verb
from memcore.models.finetune import FineTunePlan, FineTuneStatus
from memcore.service.finetune import MAX_PAGE
from memcore.service.runs import RunInfo
from ops.http.access import CurrentCaller
from ops.http.context import Service
from ops.http.operators import (
    AdminAgent,
    AdminBody,
    Cancelled,
    Checkpoints,
    CheckpointView,
    DeployBody,
    FineTuneRuns,
    FineTuneRunView,
    Named,
    PathId,
    PreflightView,
    ServingView,
    company_wide,
)

router = APIRouter(prefix="/admin/memory", tags=["admin"])

_COMPANY_WIDE = [company_wide(Verb.ADMIN)]

#: A page.
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE)]
Offset = Annotated[int, Query(ge=0, le=1_000_000_000)]


@router.post("/fine-tune", status_code=202, dependencies=_COMPANY_WIDE)
async def start(plan: FineTunePlan, service: Service) -> FineTuneRunView:
    """Queue a run; 409 while another one is active."""
    return FineTuneRunView.of(await service.finetune.start_fine_tune(plan))


@router.post("/fine-tune/resume/{run_id}", dependencies=_COMPANY_WIDE)
async def resume(run_id: PathId, service: Service) -> FineTuneRunView:
    """Let a failed or cancelled run go on behind the stages that it has finished; 409 for any other."""
    return FineTuneRunView.of(await service.finetune.resume_fine_tune(run_id))


@router.get("/fine-tune/status", dependencies=_COMPANY_WIDE)
async def status(service: Service, run_id: Named | None = None) -> FineTuneStatus:
    """Return how far a run is; without an id the active one, or idle."""
    return await service.finetune.get_fine_tune_status(run_id)


@router.post("/fine-tune/cancel", dependencies=_COMPANY_WIDE)
async def cancel(body: AdminBody, caller: CurrentCaller, service: Service) -> Cancelled:
    """End the active run, and return its id; null when none is active."""
    return Cancelled(cancelled_run_id=await service.finetune.cancel_fine_tune(body.confirmation(caller)))


@router.post("/fine-tune/preflight", dependencies=_COMPANY_WIDE)
async def preflight(
    service: Service,
    plan: Annotated[dict[str, Any], Body(description="A plan; a field out of bounds is a failed check.")],
) -> PreflightView:
    """Look whether a run of a plan could go well on the machine of this process."""
    return PreflightView.of(await service.finetune.run_preflight(plan))


@router.get("/fine-tune/runs", dependencies=_COMPANY_WIDE)
async def runs(service: Service, limit: Limit = 50, offset: Offset = 0) -> FineTuneRuns:
    """Return runs, newest first, and how many there are in all."""
    found, total = await service.finetune.list_runs(limit=limit, offset=offset)
    return FineTuneRuns(items=tuple(map(FineTuneRunView.of, found)), total=total)


@router.get("/fine-tune/checkpoints", dependencies=_COMPANY_WIDE)
async def checkpoints(service: Service, limit: Limit = 50, offset: Offset = 0) -> Checkpoints:
    """Return checkpoints, newest first, and how many there are in all."""
    found, total = await service.finetune.list_checkpoints(limit=limit, offset=offset)
    pointer = await service.finetune.get_serving()
    return Checkpoints(items=tuple(CheckpointView.of(each, pointer) for each in found), total=total)


@router.post("/fine-tune/checkpoints/{checkpoint_id}/deploy", dependencies=_COMPANY_WIDE)
async def deploy(checkpoint_id: PathId, body: DeployBody, caller: CurrentCaller, service: Service) -> ServingView:
    """Begin to fill a collection with a checkpoint, which serves once it has caught up.

    409 for one that the gate rejected, without ``force``; and while another switch is under way.
    """
    confirmation = body.confirmation(caller)
    pointer = await service.finetune.deploy_checkpoint(checkpoint_id, confirmation, is_forced=body.force)
    return ServingView.of(pointer)


@router.post("/fine-tune/checkpoints/{checkpoint_id}/rollback", dependencies=_COMPANY_WIDE)
async def rollback(checkpoint_id: PathId, body: AdminBody, caller: CurrentCaller, service: Service) -> ServingView:
    """Begin to switch back to a checkpoint that is kept; what serves goes on until then."""
    return ServingView.of(await service.finetune.rollback_checkpoint(checkpoint_id, body.confirmation(caller)))


@router.delete("/fine-tune/checkpoints/{checkpoint_id}", dependencies=_COMPANY_WIDE)
async def delete_checkpoint(
    checkpoint_id: PathId, body: AdminBody, caller: CurrentCaller, service: Service
) -> CheckpointView:
    """Delete a checkpoint and its files, and return what it was; 409 for one that serves or is kept."""
    return CheckpointView.of(await service.finetune.delete_checkpoint(checkpoint_id, body.confirmation(caller)))


@router.get("/embedder", dependencies=_COMPANY_WIDE)
async def embedder(service: Service) -> ActiveEmbedderSnapshot:
    """Return what serves now; 404 before anybody has connected to the store."""
    return await service.finetune.get_active_embedder()


@router.delete("/agents/{agent_id}/memories/{memory_id}")
async def delete_memory(
    agent_id: AdminAgent, memory_id: PathId, body: AdminBody, caller: CurrentCaller, service: Service
) -> RunInfo:
    """Queue the removal of one memory, and return its run, which can be undone while the journal keeps it."""
    run = await service.finetune.delete_memory_entry(agent_id, memory_id, body.confirmation(caller))
    return RunInfo.of(run)
