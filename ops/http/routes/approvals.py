"""Approvals: propose a text for all agents; list, show and decide the proposals that wait for a person."""

from asyncio import to_thread
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from memcore.ledger.access.keys import Verb
from memcore.models.approval import MAX_SUPERSEDED, MAX_TITLE_CHARS, ApprovalRisk, ApprovalState, Decision
from memcore.models.base import Frozen, naming_fields
from memcore.models.memory import (
    MAX_KEY_CHARS,
    MAX_TAGS,
    MemoryCategory,
    MemoryStoreRequest,
    StoredKey,
)
from memcore.service.approvals import MAX_PAGE, ApprovalDetail, ApprovalInfo
from ops.http.access import Caller, CurrentCaller
from ops.http.context import Service
from ops.http.models import Text
from ops.http.operators import ConfirmBody, PathId, company_wide

router = APIRouter(prefix="/v1/approvals", tags=["approvals"])


class ApprovalPage(Frozen):
    """Approvals, newest first, without their texts."""

    approvals: tuple[ApprovalInfo, ...]


class ProposalBody(Frozen):
    """A text to propose as shared knowledge of all agents.

    Attributes:
        content: the text, at most 65,536 bytes.
        title: one line for lists and the webhook, with no word of the text.
        supersedes: the ids of shared knowledge whose place it takes.
    """

    content: Text
    category: MemoryCategory = MemoryCategory.SEMANTIC
    namespace: str = Field(default="default", min_length=1, max_length=MAX_KEY_CHARS)
    tags: tuple[Annotated[str, Field(min_length=1, max_length=MAX_KEY_CHARS)], ...] = Field(
        default=(), max_length=MAX_TAGS
    )
    title: str | None = Field(default=None, min_length=1, max_length=MAX_TITLE_CHARS)
    risk: ApprovalRisk = ApprovalRisk.MEDIUM
    supersedes: tuple[StoredKey, ...] = Field(default=(), max_length=MAX_SUPERSEDED)

    def request(self) -> MemoryStoreRequest:
        """Return what is published once it is approved. Raises MemoryInputError."""
        with naming_fields():
            return MemoryStoreRequest.model_validate(
                {
                    "content": self.content,
                    "category": self.category,
                    "namespace": self.namespace,
                    "metadata": {"tags": self.tags},
                }
            )


@router.get("", dependencies=[company_wide(Verb.READ)])
async def list_approvals(
    service: Service,
    state: ApprovalState | None = None,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 20,
) -> ApprovalPage:
    """Return the proposals that wait for a person, and those that were decided, newest first."""
    found = await service.approvals.list(state=state, limit=limit)
    return ApprovalPage(approvals=tuple(map(ApprovalInfo.of, found)))


@router.post("", status_code=201, dependencies=[company_wide(Verb.WRITE)])
async def propose(body: ProposalBody, caller: CurrentCaller, service: Service) -> ApprovalInfo:
    """Propose a text as shared knowledge of all agents; it is published once a person approves it."""
    approval = await service.approvals.propose(
        body.request(), by=caller.name, title=body.title, risk=body.risk, supersedes=body.supersedes
    )
    return ApprovalInfo.of(approval)


@router.get("/{approval_id}", dependencies=[company_wide(Verb.READ)])
async def get_approval(approval_id: PathId, service: Service) -> ApprovalDetail:
    """Return one approval: who proposed and decided, its figures, its text, and what it changes."""
    return await to_thread(ApprovalDetail.of, await service.approvals.get(approval_id))


@router.post("/{approval_id}/approve", dependencies=[company_wide(Verb.APPROVE)])
async def approve(approval_id: PathId, body: ConfirmBody, caller: CurrentCaller, service: Service) -> ApprovalInfo:
    """Approve a proposal and carry it out; 409 when somebody decided before."""
    return ApprovalInfo.of(await service.approvals.approve(approval_id, _decision(caller, body)))


@router.post("/{approval_id}/reject", dependencies=[company_wide(Verb.APPROVE)])
async def reject(approval_id: PathId, body: ConfirmBody, caller: CurrentCaller, service: Service) -> ApprovalInfo:
    """Reject a proposal: nothing is published; 409 when somebody decided before."""
    return ApprovalInfo.of(await service.approvals.reject(approval_id, _decision(caller, body)))


@router.post("/{approval_id}/undo", dependencies=[company_wide(Verb.APPROVE)])
async def undo(approval_id: PathId, body: ConfirmBody, caller: CurrentCaller, service: Service) -> ApprovalInfo:
    """Undo an approval: remove what it published, and restore what it superseded."""
    return ApprovalInfo.of(await service.approvals.undo(approval_id, _decision(caller, body)))


def _decision(caller: Caller, body: ConfirmBody) -> Decision:
    return Decision(by=caller.name, reason=body.reason)
