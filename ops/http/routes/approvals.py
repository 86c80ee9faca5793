"""Approvals: propose a text for all agents; the rest follows from the service."""

from typing import Annotated

from pydantic import Field

from memcore.ledger.access.keys import Verb
from memcore.models.approval import MAX_SUPERSEDED, MAX_TITLE_CHARS, ApprovalRisk
from memcore.models.base import Frozen, naming_fields
from memcore.models.memory import (
    MAX_KEY_CHARS,
    MAX_TAGS,
    MemoryCategory,
    MemoryStoreRequest,
    StoredKey,
)
from memcore.service.approvals import ApprovalInfo, ApprovalOperations
from ops.http.access import CurrentCaller
from ops.http.context import Service
from ops.http.declared import router_of
from ops.http.models import Text
from ops.http.operators import company_wide

router = router_of("approvals", ApprovalOperations)


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


@router.post("/approvals", status_code=201, dependencies=[company_wide(Verb.WRITE)])
async def propose(body: ProposalBody, caller: CurrentCaller, service: Service) -> ApprovalInfo:
    """Propose a text as shared knowledge of all agents; it is published once a person approves it."""
    approval = await service.approvals.propose(
        body.request(), by=caller.name, title=body.title, risk=body.risk, supersedes=body.supersedes
    )
    return ApprovalInfo.of(approval)
