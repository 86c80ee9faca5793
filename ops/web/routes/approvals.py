"""Approvals: the proposals that wait for a person, each with what it changes; approve, reject, undo."""

from asyncio import to_thread

from fastapi import APIRouter, Request
from starlette.responses import Response

from memcore.approvals import visible
from memcore.ledger.access.keys import Verb
from memcore.models.approval import ApprovalState, Decision
from memcore.service.approvals import MAX_PAGE, ApprovalInfo
from ops.http.access import CurrentCaller
from ops.http.context import Service
from ops.http.operators import PathId, company_wide
from ops.web.forms import Form
from ops.web.pages import back_to, facts, page
from ops.web.text_diff import difference

router = APIRouter(prefix="/approvals")


@router.get("", dependencies=[company_wide(Verb.READ)])
async def list_approvals(request: Request, service: Service, state: ApprovalState | None = None) -> Response:
    """Show proposals, newest first, without their texts."""
    found = await service.approvals.list(state=state, limit=MAX_PAGE)
    return page(
        request,
        "approvals",
        approvals=[ApprovalInfo.of(each) for each in found],
        state=state,
        states=list(ApprovalState),
        most=MAX_PAGE,
    )


@router.get("/{approval_id}", dependencies=[company_wide(Verb.READ)])
async def show(request: Request, approval_id: PathId, caller: CurrentCaller, service: Service) -> Response:
    """Show a proposal beside each text whose place it would take."""
    found = await service.approvals.get(approval_id)
    proposal = found.proposal
    changes = [(each.id, await to_thread(difference, each.content, proposal.content)) for each in proposal.supersedes]
    return page(
        request,
        "approval",
        approval=ApprovalInfo.of(found),
        content=visible(proposal.content),
        changes=changes,
        evidence=facts(proposal.figures),
        may_approve=Verb.APPROVE in caller.verbs,
    )


@router.post("/{approval_id}/approve", dependencies=[company_wide(Verb.APPROVE)])
async def approve(approval_id: PathId, caller: CurrentCaller, service: Service, form: Form) -> Response:
    """Approve a proposal and carry it out."""
    await service.approvals.approve(approval_id, Decision(**form.decision(caller)))
    return back_to(f"approvals/{approval_id}", "approved")


@router.post("/{approval_id}/reject", dependencies=[company_wide(Verb.APPROVE)])
async def reject(approval_id: PathId, caller: CurrentCaller, service: Service, form: Form) -> Response:
    """Reject a proposal: nothing is published."""
    await service.approvals.reject(approval_id, Decision(**form.decision(caller)))
    return back_to(f"approvals/{approval_id}", "rejected")


@router.post("/{approval_id}/undo", dependencies=[company_wide(Verb.APPROVE)])
async def undo(approval_id: PathId, caller: CurrentCaller, service: Service, form: Form) -> Response:
    """Undo an approval: remove what it published, and restore what it superseded."""
    await service.approvals.undo(approval_id, Decision(**form.decision(caller)))
    return back_to(f"approvals/{approval_id}", "undone")
