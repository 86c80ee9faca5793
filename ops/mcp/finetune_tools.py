"""Operator tools of fine-tuning: the eight of the reference, and ``delete_checkpoint``."""

from typing import TYPE_CHECKING

from pydantic import Field

from memcore.ledger.finetune_runs import FineTuneRun
from memcore.ledger.organization.audit import Confirmation
from memcore.models.base import ValidatedModel
from memcore.models.finetune import FineTunePlan
from memcore.models.memory import Key
from memcore.service.finetune_views import CheckpointView, FineTuneRuns, FineTuneRunView, ServingView
from ops.mcp.operator_tools import Done, Facts, NoArguments, ToolList

if TYPE_CHECKING:
    from memcore.service import MemoryService

#: Most rows of a page, and how many there are when the caller does not say.
_MAX_ROWS, _ROWS = 200, 50

TOOLS = ToolList()


class RunArguments(ValidatedModel):
    """Names a fine-tune run."""

    run_id: Key = Field(description="A run's id, from list_runs.")


class StatusArguments(ValidatedModel):
    """Names a fine-tune run, or none."""

    run_id: Key | None = Field(default=None, description="A run's id; the active run when left out.")


class PageArguments(ValidatedModel):
    """A page of rows, newest first."""

    limit: int = Field(default=_ROWS, ge=1, le=_MAX_ROWS, description="Most rows.")
    offset: int = Field(default=0, ge=0, description="Rows that are passed over.")


class CheckpointArguments(ValidatedModel):
    """Names a checkpoint."""

    checkpoint_id: Key = Field(description="A checkpoint's id.")


@TOOLS.plain("admin", is_read_only=False, is_idempotent=False)
async def start_fine_tune(service: "MemoryService", plan: FineTunePlan) -> Facts:
    """Queue a fine-tune run of the embedder; one of a company is active at a time."""
    return _run_facts(await service.finetune.start_fine_tune(plan))


@TOOLS.plain("admin", is_read_only=False, is_idempotent=False)
async def resume_fine_tune(service: "MemoryService", asked: RunArguments) -> Facts:
    """Let a failed or cancelled fine-tune run go on behind the stages that it has finished."""
    return _run_facts(await service.finetune.resume_fine_tune(asked.run_id))


@TOOLS.plain("admin")
async def get_fine_tune_status(service: "MemoryService", asked: StatusArguments) -> Facts:
    """Show how far a fine-tune run is: the active one, or the one named."""
    return (await service.finetune.get_fine_tune_status(asked.run_id)).model_dump(mode="json")


@TOOLS.destructive("admin", is_idempotent=True)
async def cancel_fine_tune(service: "MemoryService", _asked: NoArguments, confirmation: Confirmation) -> Done:
    """End the active fine-tune run; what its finished stages made stays for a resume."""
    run_id = await service.finetune.cancel_fine_tune(confirmation)
    return Done(facts={"cancelled_run_id": run_id}, target_id=run_id)


@TOOLS.plain("admin")
async def run_preflight(service: "MemoryService", plan: FineTunePlan) -> Facts:
    """Check whether a fine-tune run of a plan could go well on this machine; nothing is started."""
    found = await service.finetune.run_preflight(plan)
    return {**found.model_dump(mode="json"), "can_proceed": found.can_proceed}


@TOOLS.plain("admin")
async def list_runs(service: "MemoryService", asked: PageArguments) -> Facts:
    """List fine-tune runs, newest first."""
    found = await service.finetune.list_runs(limit=asked.limit, offset=asked.offset)
    return FineTuneRuns.of(found).model_dump(mode="json")


@TOOLS.plain("admin")
async def get_active_embedder(service: "MemoryService", _asked: NoArguments) -> Facts:
    """Show the embedder that serves now."""
    return (await service.finetune.get_active_embedder()).model_dump(mode="json")


@TOOLS.destructive("admin")
async def rollback_checkpoint(service: "MemoryService", asked: CheckpointArguments, confirmation: Confirmation) -> Done:
    """Begin to switch back to what served before; the id must be that of what is kept."""
    pointer = await service.finetune.rollback_checkpoint(asked.checkpoint_id, confirmation)
    return Done(facts=ServingView.of(pointer).model_dump(mode="json"), target_id=asked.checkpoint_id)


@TOOLS.destructive("admin")
async def delete_checkpoint(service: "MemoryService", asked: CheckpointArguments, confirmation: Confirmation) -> Done:
    """Delete a checkpoint and its files; refused for one that serves, is filled, or is kept."""
    gone = await service.finetune.delete_checkpoint(asked.checkpoint_id, confirmation)
    return Done(facts=CheckpointView.of(gone).model_dump(mode="json"), target_id=gone.checkpoint_id)


def _run_facts(run: FineTuneRun) -> Facts:
    return FineTuneRunView.of(run).model_dump(mode="json")
