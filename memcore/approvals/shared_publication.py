"""The action ``shared:publish``: a text that a person approved becomes shared knowledge of all agents."""

from collections.abc import Sequence

from pydantic import ValidationError

from memcore.approval_models import Approval, ApprovalRisk, ApprovalState, Proposal, Superseded
from memcore.backends.shared import SharedKnowledgeStore
from memcore.clock import Clock
from memcore.errors import MemoryInputError, MemoryNotFoundError
from memcore.ledger.approvals import Approvals
from memcore.ledger.shared_entry import SharedEntry
from memcore.ledger.shared_log import SharedLog
from memcore.models import MemoryCategory, MemoryEntry, MemoryMetadata, MemoryStoreRequest

#: The action's name.
SHARED_PUBLISH = "shared:publish"

#: Under whose name approved texts are published: no agent's, so that each agent finds them and none takes them back.
PUBLISHER = "approvals"

#: The tag of every text that a person approved.
APPROVED_TAG = "approved"

_BY_TAG = "approved-by:"

#: What the source of an approved text begins with; the approval's id follows.
_SOURCE = "approval:"


class SharedPublication:
    """Publish what was approved, under the approval's id, and retract what it supersedes.

    The log of shared knowledge is the truth: a text is published at most once for each approval, also by a process that
    slept through its undo, and what was superseded comes back only where this approval had ended it.

    Args:
        store: where shared knowledge is kept.
        log: its log.
        approvals: the decisions.
        company: whose.
        clock: the time.
    """

    def __init__(
        self, store: SharedKnowledgeStore, log: SharedLog, approvals: Approvals, *, company: str, clock: Clock
    ) -> None:
        self._store = store
        self._log = log
        self._approvals = approvals
        self._company = company
        self._clock = clock

    @property
    def action(self) -> str:
        """``shared:publish``."""
        return SHARED_PUBLISH

    async def publish(self, approval: Approval) -> str:
        """Publish the text, then retract what it supersedes; return the id under which it is found."""
        request = request_of(approval.proposal, source=f"{_SOURCE}{approval.approval_id}", by=approval.decided_by)
        memory_id = await self._store.publish(PUBLISHER, request, once=True)
        for each in approval.proposal.supersedes:
            # The very publication that the person saw: one that came back since is not this approval's to end.
            await self._store.retract(each.owner or PUBLISHER, each.id)
        return memory_id

    async def take_back(self, approval: Approval) -> None:
        """Publish anew what it ended, then retract the text."""
        own = self._log.history(self._company, approval.effect or "")
        if not own:
            return
        since = own[0].version
        until = own[-1].version if own[-1].kind == "retract" else None
        for each in approval.proposal.supersedes:
            ended = self._ended(each, since, until)
            if ended is not None:
                await self._store.publish(ended.agent_id, _again(ended))
        # By its last id: it may have been superseded itself, and have come back.
        await self._store.retract(own[-1].agent_id, own[-1].memory_id)

    def _ended(self, superseded: Superseded, since: int, until: int | None) -> MemoryEntry | None:
        """Return what this approval retracted, unless others did, or it is there, or should not be."""
        lines = self._log.history(self._company, superseded.id)
        if not lines or lines[-1].kind != "retract" or lines[-1].memory_id != superseded.id:
            return None
        at = lines[-1].version
        if at < since or (until is not None and at > until):
            return None
        entry = _published(lines, superseded.id)
        if entry is None or (entry.expires_at is not None and entry.expires_at <= self._clock()):
            return None
        return None if self._was_undone(entry) else entry

    def _was_undone(self, entry: MemoryEntry) -> bool:
        source = entry.metadata.source or ""
        if entry.agent_id != PUBLISHER or not source.startswith(_SOURCE):
            return False
        approval = self._approvals.get(self._company, source.removeprefix(_SOURCE))
        return approval is not None and approval.state is ApprovalState.UNDONE


def shared_proposal(
    request: MemoryStoreRequest,
    *,
    title: str,
    proposed_by: str,
    risk: ApprovalRisk = ApprovalRisk.MEDIUM,
    supersedes: Sequence[Superseded] = (),
) -> Proposal:
    """Return the proposal to publish a text for all agents; its source and confidence become those of the approval.

    Raises MemoryInputError when a value breaks its limit.
    """
    proposal = Proposal(
        action=SHARED_PUBLISH,
        risk=risk,
        title=title,
        content=request.content,
        proposed_by=proposed_by,
        supersedes=tuple(supersedes),
        details={
            "category": str(request.category),
            "namespace": request.namespace,
            "tags": list(request.metadata.tags),
        },
    )
    # With the tags of an approval beside its own it must still be what can be published: better refused here than when
    # somebody has approved it.
    request_of(proposal, source="approval", by=proposed_by)
    return proposal


def superseded_by_id(log: SharedLog, company: str, memory_id: str) -> Superseded:
    """Return shared knowledge as something to be superseded; MemoryNotFoundError when it is not published now."""
    lines = log.history(company, memory_id)
    if not lines or lines[-1].record is None or lines[-1].memory_id != memory_id:
        raise MemoryNotFoundError(f"supersedes: {memory_id!r} is not published; see `memtend shared search`")
    entry = lines[-1].record.entry
    return Superseded(id=memory_id, content=entry.content, owner=entry.agent_id)


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


def _published(lines: Sequence[SharedEntry], memory_id: str) -> MemoryEntry | None:
    records = (line.record for line in lines if line.memory_id == memory_id)
    return next((record.entry for record in records if record is not None), None)


def _again(entry: MemoryEntry) -> MemoryStoreRequest:
    return MemoryStoreRequest(
        category=entry.category,
        namespace=entry.namespace,
        content=entry.content,
        metadata=entry.metadata,
        expires_at=entry.expires_at,
    )
