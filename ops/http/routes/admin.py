"""``/admin/memory``: fine-tune runs, checkpoints, the embedder that serves, the removal of one memory."""

from typing import Annotated, Any

from fastapi import Body

from memcore.ledger.access.keys import Verb
from memcore.models.finetune import FineTunePlan
from memcore.service.finetune import FineTuneOperations, Limit, Offset
from memcore.service.finetune_views import Checkpoints, CheckpointView, FineTuneRunView, PreflightView
from ops.http.context import Service
from ops.http.declared import router_of
from ops.http.operators import AdminBody, company_wide

router = router_of("finetune", FineTuneOperations, tag="admin", prefix="/admin/memory", confirm=AdminBody)

_COMPANY_WIDE = [company_wide(Verb.ADMIN)]


@router.post("/fine-tune", status_code=202, dependencies=_COMPANY_WIDE)
async def start(plan: FineTunePlan, service: Service) -> FineTuneRunView:
    """Queue a run; 409 while another one is active."""
    return FineTuneRunView.of(await service.finetune.start_fine_tune(plan))


@router.post("/fine-tune/preflight", dependencies=_COMPANY_WIDE)
async def preflight(
    service: Service,
    plan: Annotated[dict[str, Any], Body(description="A plan; a field out of bounds is a failed check.")],
) -> PreflightView:
    """Look whether a run of a plan could go well on the machine of this process."""
    return PreflightView.of(await service.finetune.run_preflight(plan))


@router.get("/fine-tune/checkpoints", dependencies=_COMPANY_WIDE)
async def checkpoints(service: Service, limit: Limit = 50, offset: Offset = 0) -> Checkpoints:
    """Return checkpoints, newest first, and how many there are in all."""
    found, total = await service.finetune.list_checkpoints(limit=limit, offset=offset)
    pointer = await service.finetune.get_serving()
    return Checkpoints(items=tuple(CheckpointView.of(each, pointer) for each in found), total=total)
