"""The names under which approvals log; id, action and risk stand beside them in ``extra``, no text ever does."""

from enum import StrEnum


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
    #: It could not be; the sweep, or the next approve, tries again.
    UNSETTLED = "approval.unsettled"
    #: The webhook was not told; nothing else depends on it.
    WEBHOOK_FAILED = "approval.webhook.failed"
