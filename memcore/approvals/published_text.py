"""The text that an approval publishes, and how it says whose it is."""

from pydantic import ValidationError

from memcore.approval_models import Approval, Proposal
from memcore.errors import MemoryInputError
from memcore.models import MemoryCategory, MemoryEntry, MemoryMetadata, MemoryStoreRequest

#: Under whose name approved texts are published: no agent's, so that each agent finds them and none takes them back.
PUBLISHER = "approvals"

#: The tag of every text that a person approved.
APPROVED_TAG = "approved"

_BY_TAG = "approved-by:"

#: What the source of an approved text begins with; the approval's id follows.
_SOURCE = "approval:"


def text_of(approval: Approval) -> MemoryStoreRequest:
    """Return what an approval publishes; raises as :func:`request_of`."""
    return request_of(approval.proposal, source=f"{_SOURCE}{approval.approval_id}", by=approval.decided_by)


def approval_id_of(entry: MemoryEntry) -> str | None:
    """Return whose text shared knowledge is, or None when no approval published it."""
    source = entry.metadata.source or ""
    if entry.agent_id != PUBLISHER or not source.startswith(_SOURCE):
        return None
    return source.removeprefix(_SOURCE)


def request_of(proposal: Proposal, *, source: str, by: str | None) -> MemoryStoreRequest:
    """Return what is published of a proposal: the text, its source the approval, the approver among its tags.

    Raises MemoryInputError when it cannot be published.
    """
    details = proposal.details
    tags = (*details.get("tags", ()), APPROVED_TAG, f"{_BY_TAG}{by}")
    try:
        return MemoryStoreRequest.model_validate(
            {
                "category": details.get("category", MemoryCategory.SEMANTIC),
                "namespace": details.get("namespace", "default"),
                "content": proposal.content,
                "metadata": MemoryMetadata(source=source, confidence=details.get("confidence", 1.0), tags=tags),
            }
        )
    except ValidationError as error:
        raise MemoryInputError.of(error) from None
