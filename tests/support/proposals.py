"""Proposals for tests, and effects that only write down what they were asked."""

from dataclasses import dataclass, field
from typing import Any

from memcore.approvals import ApprovalNotifier, ApprovalService, EffectRegistry
from memcore.config.learning import ApprovalsConfig
from memcore.ledger.organization.approvals import Approvals, CapacityLimit
from memcore.models.approval import Approval, Decision, Proposal

ADA = Decision(by="ada", reason="it is true")
BOB = Decision(by="bob")


def proposal(content: str = "The lift is out of order.", **more: Any) -> Proposal:
    """Return a proposal; nothing must be said about it."""
    given = {"action": "test:note", "title": "A text for all", "proposed_by": "eve", "content": content, **more}
    return Proposal.model_validate(given)


@dataclass
class RecordingEffects:
    """Effects of the action ``test:note``: published contents by approval, and every call; what was undone stays so."""

    action: str = "test:note"
    is_published: dict[str, str] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    calls: list[str] = field(default_factory=list)
    error: Exception | None = None
    bound: CapacityLimit | None = None

    def room(self, approval: Approval) -> CapacityLimit | None:  # noqa: ARG002  # the protocol's
        return self.bound

    async def publish(self, approval: Approval) -> str:
        self.calls.append("publish")
        if self.error is not None:
            raise self.error
        if approval.approval_id not in self.gone:
            self.is_published[approval.approval_id] = approval.proposal.content
        return f"note of {approval.approval_id}"

    async def take_back(self, approval: Approval) -> None:
        self.calls.append("take_back")
        if self.error is not None:
            raise self.error
        self.gone.add(approval.approval_id)
        self.is_published.pop(approval.approval_id, None)


@dataclass
class RecordingNotifier:
    """Remembers what it was told."""

    notifications: list[str] = field(default_factory=list)

    async def notify(self, approval: Approval) -> None:
        self.notifications.append(approval.approval_id)


def service_of(
    approvals: Approvals, *effects: RecordingEffects, notice: ApprovalNotifier | None = None
) -> ApprovalService:
    return ApprovalService(
        approvals, EffectRegistry(effects), company="acme", lasts=ApprovalsConfig().lasts, notice=notice
    )
