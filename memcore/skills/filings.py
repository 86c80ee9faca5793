"""Which patterns were proposed before, and whether one may be proposed again."""

from datetime import datetime, timedelta

from memcore import ids
from memcore.approval_models import Approval, ApprovalNeed, ApprovalState
from memcore.clock import Clock
from memcore.skills.promotion import ORG_PROMOTION
from memcore.skills.sources import ApprovalSource


class Filings:
    """The proposals of patterns. A pattern has one id, and each proposal of it a number, from 0.

    Args:
        approvals: what was proposed.
        company: whose.
        rest: how long a pattern is left alone after a person said no.
        clock: the time.
    """

    def __init__(self, approvals: ApprovalSource, *, company: str, rest: timedelta, clock: Clock) -> None:
        self._approvals = approvals
        self._company = company
        self._rest = rest
        self._clock = clock

    def next_of(self, pattern_id: str, *, cycle_id: str) -> str | Approval:
        """Return the id under which a pattern may be proposed, or the proposal because of which it may not.

        That is one of this cycle's own, one that waits, one on its way, or one that a person has refused or taken back
        not long ago. One that expired, or was approved, leaves room for the next.
        """
        now, number = self._clock(), 0
        while True:
            approval_id = approval_id_of(self._company, pattern_id, number)
            found = self._approvals.get(self._company, approval_id)
            if found is None:
                return approval_id
            if found.proposal.details.get("cycle_id") == cycle_id or self._is_closed(found, now):
                return found
            number += 1

    def _is_closed(self, approval: Approval, now: datetime) -> bool:
        match approval.state:
            case ApprovalState.PENDING:
                return now < approval.expires_at
            case ApprovalState.APPROVED:
                return approval.needs is ApprovalNeed.EFFECT
            case ApprovalState.EXPIRED:
                return False
            case ApprovalState.REJECTED:
                return self._is_recent(approval.decided_at, now)
            case ApprovalState.UNDONE:
                return self._is_recent(approval.undone_at, now)

    def _is_recent(self, said_at: datetime | None, now: datetime) -> bool:
        return said_at is not None and now - said_at < self._rest


def approval_id_of(company: str, pattern_id: str, number: int) -> str:
    """Return the id of a pattern's proposal; the same proposal of the same pattern is filed once."""
    return ids.approval_id(company=company, action=ORG_PROMOTION, cause=f"{pattern_id}:{number}")
