"""The action ``shared:publish``: a text that a person approved becomes shared knowledge of all agents."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from memcore.approval_models import Approval, ApprovalRisk, ApprovalState, Proposal, Superseded
from memcore.approvals.notes import NoNotes, Notes
from memcore.approvals.published_text import PUBLISHER, approval_id_of, request_of, text_of
from memcore.backends.facts import ORGANISATION
from memcore.backends.shared import SharedKnowledgeStore
from memcore.clock import Clock
from memcore.errors import MemoryInputError, MemoryNotFoundError
from memcore.ledger.approvals import Approvals
from memcore.ledger.room import Room
from memcore.ledger.shared_entry import SharedEntry
from memcore.models import MemoryEntry, MemoryStoreRequest

#: The action's name.
SHARED_PUBLISH = "shared:publish"


class PublicationLog(Protocol):
    """The log of shared knowledge; the ledger's SharedLog is one."""

    def history(self, company: str, memory_id: str) -> Sequence[SharedEntry]:
        """Return all lines of the fact that was once published under this id, in order; none for an unknown id."""
        ...


@runtime_checkable
class KeepsOwnLog(Protocol):
    """A store whose log of shared knowledge is its own, and not the ledger's."""

    @property
    def shared_log(self) -> PublicationLog:
        """The log."""
        ...


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
        action: the action that this carries out.
        notes: what is written down beside; None writes nothing.
    """

    def __init__(
        self,
        store: SharedKnowledgeStore,
        log: PublicationLog,
        approvals: Approvals,
        *,
        company: str,
        clock: Clock,
        action: str = SHARED_PUBLISH,
        notes: Notes | None = None,
    ) -> None:
        self._store = store
        self._log = log
        self._approvals = approvals
        self._company = company
        self._clock = clock
        self._action = action
        self._notes = notes or NoNotes()

    @property
    def action(self) -> str:
        """``shared:publish``, or the one that it was made for."""
        return self._action

    def room(self, approval: Approval) -> Room | None:
        """Return how many such texts may stand; raises MemoryInputError when this one could not be published."""
        text_of(approval)
        return self._notes.room(approval)

    async def publish(self, approval: Approval) -> str:
        """Publish the text, then retract what it supersedes; return the id under which it is found."""
        memory_id = await self._store.publish(PUBLISHER, text_of(approval), once=True)
        lines = self._log.history(self._company, memory_id)
        # A store that keeps its log to itself: what it says is all that is known.
        fact_id = lines[0].memory_id if lines else memory_id
        await self._notes.published(approval, fact_id)
        for each in approval.proposal.supersedes:
            # The very publication that the person saw: one that came back since is not this approval's to end.
            await self._store.retract(each.owner or PUBLISHER, each.id)
            await self._notes.superseded(fact_id, each)
        return memory_id

    async def take_back(self, approval: Approval) -> None:
        """Publish anew what it ended, then retract the text."""
        if approval.effect is None:
            return
        own = self._log.history(self._company, approval.effect)
        if not own:
            await self._notes.withdrawn(approval.effect)
            await self._store.retract(PUBLISHER, approval.effect)
            return
        fact_id = own[0].memory_id
        await self._notes.withdrawn(fact_id)
        for each in approval.proposal.supersedes:
            ended = self._ended(each, own)
            if ended is not None:
                await self._store.publish(ended.agent_id, _again(ended))
            await self._notes.returned(fact_id, each)
        # By its last id: it may have been superseded itself, and have come back.
        await self._store.retract(own[-1].agent_id, own[-1].memory_id)

    def _ended(self, superseded: Superseded, own: Sequence[SharedEntry]) -> MemoryEntry | None:
        """Return what this approval retracted, unless others did, or it is there, or should not be."""
        lines = self._log.history(self._company, superseded.id)
        if not lines or lines[-1].kind != "retract" or lines[-1].memory_id != superseded.id:
            return None
        is_ours = self._notes.ended(own[0].memory_id, superseded)
        if not (_is_between(lines[-1], own) if is_ours is None else is_ours):
            return None
        entry = _published(lines, superseded.id)
        if entry is None or (entry.expires_at is not None and entry.expires_at <= self._clock()):
            return None
        return None if self._was_undone(entry) else entry

    def _was_undone(self, entry: MemoryEntry) -> bool:
        approval_id = approval_id_of(entry)
        approval = None if approval_id is None else self._approvals.get(self._company, approval_id)
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


def superseded_by_id(log: PublicationLog, company: str, memory_id: str) -> Superseded:
    """Return shared knowledge as something to be superseded; MemoryNotFoundError when it is not published now."""
    lines = log.history(company, memory_id)
    if not lines or lines[-1].record is None or lines[-1].memory_id != memory_id:
        raise MemoryNotFoundError(f"supersedes: {memory_id!r} is not published; see `memtend shared search`")
    entry = lines[-1].record.entry
    if entry.agent_id == ORGANISATION:
        raise MemoryInputError("supersedes", f"{memory_id} is a fact of the organisation: `memtend org` changes those")
    return Superseded(id=memory_id, content=entry.content, owner=entry.agent_id)


def _is_between(retraction: SharedEntry, own: Sequence[SharedEntry]) -> bool:
    """Tell whether it was retracted while a text was there, and so by its approval."""
    since = own[0].version
    until = own[-1].version if own[-1].kind == "retract" else None
    return since <= retraction.version and (until is None or retraction.version <= until)


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
