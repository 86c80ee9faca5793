"""Proposals for tests, and effects that only write down what they were asked."""

from dataclasses import dataclass, field
from typing import Any

from memcore.approvals.effects import EffectRegistry
from memcore.approvals.service import ApprovalService, Notice
from memcore.config.learning import ApprovalsConfig
from memcore.ledger.organization.approvals import Approvals, Room
from memcore.models.approval import Approval, Proposal, Word

ADA = Word(by="ada", reason="it is true")
BOB = Word(by="bob")


def proposal(content: str = "The lift is out of order.", **more: Any) -> Proposal:
    """Return a proposal; nothing must be said about it."""
    given = {"action": "test:note", "title": "A text for all", "proposed_by": "eve", "content": content, **more}
    return Proposal.model_validate(given)


@dataclass
class Notebook:
    """Effects of the action ``test:note``: what stands, by approval, and every call; once undone nothing returns."""

    action: str = "test:note"
    stands: dict[str, str] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    calls: list[str] = field(default_factory=list)
    error: Exception | None = None
    bound: Room | None = None

    def room(self, approval: Approval) -> Room | None:  # noqa: ARG002  # the protocol's
        return self.bound

    async def publish(self, approval: Approval) -> str:
        self.calls.append("publish")
        if self.error is not None:
            raise self.error
        if approval.approval_id not in self.gone:
            self.stands[approval.approval_id] = approval.proposal.content
        return f"note of {approval.approval_id}"

    async def take_back(self, approval: Approval) -> None:
        self.calls.append("take_back")
        if self.error is not None:
            raise self.error
        self.gone.add(approval.approval_id)
        self.stands.pop(approval.approval_id, None)


@dataclass
class Teller:
    """Remembers what it was told."""

    told: list[str] = field(default_factory=list)

    async def tell(self, approval: Approval) -> None:
        self.told.append(approval.approval_id)


def service_of(approvals: Approvals, *effects: Notebook, notice: Notice | None = None) -> ApprovalService:
    return ApprovalService(
        approvals, EffectRegistry(effects), company="acme", lasts=ApprovalsConfig().lasts, notice=notice
    )
