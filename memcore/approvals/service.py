"""Files proposals, stores a person's decision once, and carries it out once, whenever a process dies."""

import logging
from datetime import timedelta
from enum import StrEnum
from typing import Protocol

from memcore.approvals.effects import EffectRegistry
from memcore.errors import (
    ApprovalClosedError,
    MemoryError,  # noqa: A004  # the reference's name
    MemoryNotFoundError,
)
from memcore.ledger.organization.approvals import Approvals
from memcore.models.approval import Approval, ApprovalNeed, ApprovalState, Decision, Proposal


class ApprovalEvent(StrEnum):
    """A log event of approvals."""

    #: A proposal waits for a person.
    FILED = "approval.filed"
    APPROVED = "approval.approved"
    REJECTED = "approval.rejected"
    UNDONE = "approval.undone"
    #: Nobody decided in time; how many stands beside.
    EXPIRED = "approval.expired"
    #: What was decided is carried out, or taken back.
    SETTLED = "approval.settled"
    #: An effect failed; the sweep, or the next approve, tries again.
    UNSETTLED = "approval.unsettled"
    #: The webhook was not reached; nothing else depends on it.
    WEBHOOK_FAILED = "approval.webhook.failed"


#: Approvals carried out in one call of `finish` at most: the sweep has other things to do.
AT_A_TIME = 20

_log = logging.getLogger(__name__)


class ApprovalNotifier(Protocol):
    """Tells somebody that a proposal waits."""

    async def notify(self, approval: Approval) -> None:
        """Send the notice; raises nothing."""
        ...


class ApprovalService:
    """Files proposals, and carries out a person's decisions.

    A decision is one committed row that says what remains to be done; then the effect runs; then the row is settled. A
    process that dies in between leaves a row that :meth:`finish`, or the next :meth:`approve`, carries on with. A
    proposal waits ``lasts`` for a person, whom ``notice`` tells of it.
    """

    def __init__(
        self,
        approvals: Approvals,
        effects: EffectRegistry,
        *,
        company: str,
        lasts: timedelta,
        notice: ApprovalNotifier | None = None,
    ) -> None:
        self._approvals = approvals
        self._effects = effects
        self._company = company
        self._lasts = lasts
        self._notifier = notice

    async def propose(self, approval_id: str, proposal: Proposal) -> Approval:
        """File a proposal and return it; for an existing id, return what was filed first and its state.

        Raises MemoryInputError when a value breaks its limit.
        """
        is_new = self._approvals.file(self._company, approval_id, proposal, lasts=self._lasts)
        approval = self._found(approval_id)
        if is_new:
            _logged(ApprovalEvent.FILED, approval)
            if self._notifier is not None:
                await self._notifier.notify(approval)
        return approval

    async def approve(self, approval_id: str, word: Decision) -> Approval:
        """Approve a proposal and carry it out; the answer's ``effect`` is the id of the result.

        An approval that is not carried out yet is carried out first, and refused with ApprovalClosedError.

        Raises:
            ApprovalClosedError: somebody decided before, or it has expired.
            MemoryNotFoundError, MemoryCapabilityError, MemoryInputError, SkillLimitError: there is none with that id,
                nothing here carries it out, or it cannot be now; nothing was decided.
            MemoryError: the effect failed; the approval stands, and the effect is tried again later.
        """
        found = self._found(approval_id)
        capacity = self._effects.of(found.proposal.action).room(found)
        try:
            approval = self._approvals.decide(
                self._company, approval_id, ApprovalState.APPROVED, word, capacity=capacity
            )
        except ApprovalClosedError:
            await self._settled(self._found(approval_id))
            raise
        _logged(ApprovalEvent.APPROVED, approval)
        return await self._settled(approval)

    async def reject(self, approval_id: str, word: Decision) -> Approval:
        """Reject a proposal; raises ApprovalClosedError, MemoryNotFoundError."""
        approval = self._approvals.decide(self._company, approval_id, ApprovalState.REJECTED, word)
        _logged(ApprovalEvent.REJECTED, approval)
        return approval

    async def undo(self, approval_id: str, word: Decision) -> Approval:
        """Take an approval back, and what it left.

        Raises:
            ApprovalClosedError: it is not approved, or was undone before; one that is not taken back yet is first.
            MemoryNotFoundError, MemoryCapabilityError: there is none with that id, or nothing here carries it out.
            MemoryError: taking back failed; the undo stands, and it is tried again later.
        """
        self._effects.of(self._found(approval_id).proposal.action)
        # Otherwise a pending effect could still be carried out after it was undone.
        await self._settled(self._found(approval_id))
        approval = self._approvals.undo(self._company, approval_id, word)
        _logged(ApprovalEvent.UNDONE, approval)
        return await self._settled(approval)

    async def finish(self, *, limit: int = AT_A_TIME) -> int:
        """Carry on with what dead processes left open and return how many were settled; failures are logged."""
        settled = 0
        for approval in self._approvals.unsettled(self._company, limit=limit):
            try:
                await self._settled(approval)
            except MemoryError as error:
                _log.warning(ApprovalEvent.UNSETTLED, extra={**_about(approval), "error": type(error).__name__})
            else:
                settled += 1
        return settled

    def expire(self) -> int:
        """Mark what waited too long, and return how many there were."""
        expired = self._approvals.expire(self._company)
        if expired:
            _log.info(ApprovalEvent.EXPIRED, extra={"company": self._company, "count": expired})
        return expired

    async def _settled(self, approval: Approval) -> Approval:
        need, effect = approval.needs, None
        if need is ApprovalNeed.EFFECT:
            effect = await self._effects.of(approval.proposal.action).publish(approval)
        elif need is ApprovalNeed.TAKING_BACK:
            await self._effects.of(approval.proposal.action).take_back(approval)
        else:
            return approval
        if self._approvals.settle(self._company, approval.approval_id, need, effect=effect):
            _logged(ApprovalEvent.SETTLED, approval)
        return self._found(approval.approval_id)

    def _found(self, approval_id: str) -> Approval:
        approval = self._approvals.get(self._company, approval_id)
        if approval is None:
            raise MemoryNotFoundError(f"approval_id: {approval_id!r} names no approval; see `memtend approvals list`")
        return approval


def _logged(event: ApprovalEvent, approval: Approval) -> None:
    _log.info(event, extra=_about(approval))


def _about(approval: Approval) -> dict[str, str]:
    proposal = approval.proposal
    return {
        "approval_id": approval.approval_id,
        "action": proposal.action,
        "risk": str(proposal.risk),
        "state": str(approval.state),
    }
