"""Embedder: what serves, reindex and fine-tune runs, checkpoints; deploy, go back, cancel, delete."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from memcore.ledger.access.keys import Verb
from memcore.ledger.collections import CollectionUse
from memcore.service.finetune_views import CheckpointView
from ops.http.access import CurrentCaller
from ops.http.context import Service
from ops.http.operators import company_wide
from ops.web.forms import Form
from ops.web.pages import back_to, facts, page

router = APIRouter(prefix="/embedder", dependencies=[company_wide(Verb.ADMIN)])

#: Fine-tune runs and checkpoints that are shown.
_MOST = 20


@router.get("")
async def embedder(request: Request, service: Service) -> Response:
    """Show what serves, what is being filled, and the last runs and checkpoints."""
    status = await service.reindex.status()
    runs, total = await service.finetune.list_runs(limit=_MOST, offset=0)
    checkpoints, kept = await service.finetune.list_checkpoints(limit=_MOST, offset=0)
    pointer = status.pointer
    views = [CheckpointView.of(each, pointer) for each in checkpoints]
    return page(
        request,
        "embedder",
        serving=None if pointer is None else await service.finetune.get_active_embedder(),
        pointer=pointer,
        reindex=status.reindex,
        marked=status.marked,
        runs=runs,
        total=total,
        checkpoints=[(each, facts(_figures(each))) for each in views],
        kept=kept,
        uses=CollectionUse,
    )


@router.post("/deploy")
async def deploy(caller: CurrentCaller, service: Service, form: Form) -> Response:
    """Begin to fill a collection with a checkpoint; one that the gate rejected only where the form says so."""
    is_forced = form.optional("force") == "yes"
    await service.finetune.deploy_checkpoint(form.text("checkpoint"), form.confirmation(caller), force=is_forced)
    return back_to("embedder", "deploying")


@router.post("/rollback")
async def rollback(caller: CurrentCaller, service: Service, form: Form) -> Response:
    """Begin to switch back to what served before, or to a checkpoint that is kept."""
    await service.finetune.rollback_checkpoint(form.optional("checkpoint"), form.confirmation(caller))
    return back_to("embedder", "deploying")


@router.post("/cancel")
async def cancel(caller: CurrentCaller, service: Service, form: Form) -> Response:
    """End the fine-tune run that is active."""
    ended = await service.finetune.cancel_fine_tune(form.confirmation(caller))
    return back_to("embedder", "nothing" if ended is None else "cancelled")


@router.post("/delete")
async def delete(caller: CurrentCaller, service: Service, form: Form) -> Response:
    """Delete a checkpoint and its files."""
    await service.finetune.delete_checkpoint(form.text("checkpoint"), form.confirmation(caller))
    return back_to("embedder", "deleted")


def _figures(checkpoint: CheckpointView) -> dict[str, float | str]:
    # A report has parts of parts; the page shows its plain figures.
    return {name: value for name, value in checkpoint.report.items() if isinstance(value, (int, float, str))}
