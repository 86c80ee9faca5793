"""Approvals: proposals for a person, each filed, decided and carried out once, and undone at most once."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, and_, select, update

from memcore.errors import ApprovalClosedError, ApprovalLimitError, MemoryInputError, MemoryNotFoundError
from memcore.ledger.database import CompanyRecords, Row, checked_key, count_rows, equals, insert_one
from memcore.ledger.organization.audit import AuditNote, AuditVerdict, append, person
from memcore.ledger.organization.shared_log import lock_shared_head
from memcore.ledger.rows import pack, unpack
from memcore.ledger.tables import approvals
from memcore.ledger.webhooks.outbox import announce
from memcore.models.approval import (
    MAX_NAME_CHARS,
    MAX_TITLE_CHARS,
    Approval,
    ApprovalNeed,
    ApprovalState,
    Decision,
    Proposal,
)
from memcore.models.base import escaped
from memcore.models.webhook import EventNotice, WebhookEventType

#: Locks a company's count until the transaction ends, and raises a MemoryError when an approval would be above a limit.
CapacityLimit = Callable[[Connection, str], None]

#: Most approvals of a page.
MAX_PAGE = 100

#: Largest proposal, in bytes of its JSON (1 MiB): as much as a job on the wire.
MAX_BODY_BYTES = 1_048_576

#: What of a proposal stands in columns of its own, or goes into the body untouched.
_ELSEWHERE = {"action", "risk", "title", "details"}

Verdict = Literal[ApprovalState.APPROVED, ApprovalState.REJECTED]


class Approvals(CompanyRecords[Approval]):
    """The approvals table.

    ``needs`` is the outbox: the sweep finds an approval that needs its effect, or its taking back, and
    settles it once that is done.
    """

    _table = approvals
    _model = Approval
    _newest_by = (approvals.c.created_at, approvals.c.approval_id)
    _page_size = MAX_PAGE

    def file(
        self,
        company: str,
        approval_id: str,
        proposal: Proposal,
        *,
        lasts: timedelta,
        most_waiting: int | None = None,
        for_person: bool = True,
    ) -> bool:
        """Keep the proposal until a person decides and return True; False when its id is there, whatever became of it.

        No webhook says so unless it is ``for_person``.

        Raises MemoryInputError when a key is too long, a text is no valid Unicode, or the whole is larger than 1 MiB;
        ApprovalLimitError where ``most_waiting`` of its action wait.
        """
        now = self._clock()
        row: Row = {
            "company": checked_key("company", company),
            "approval_id": checked_key("approval_id", approval_id),
            "action": proposal.action,
            "risk": str(proposal.risk),
            "state": str(ApprovalState.PENDING),
            "needs": str(ApprovalNeed.WORD),
            "title": proposal.title,
            "body": _encoded(proposal),
            "created_at": now,
            "expires_at": now + lasts,
        }
        with self._database.write() as connection:
            if most_waiting is not None:
                # The row by which publications take turns: of two that file at once the later one counts the first.
                lock_shared_head(connection, row["company"])
            is_new = insert_one(connection, approvals, row)
            if is_new and most_waiting is not None:
                others = equals(approvals, company=row["company"], action=proposal.action) & self._waiting(now)
                waiting = count_rows(connection, approvals, others) - 1
                if waiting >= most_waiting:
                    raise ApprovalLimitError(waiting, limit=most_waiting)
            if is_new and for_person:
                # Not the title, which a model or an agent may have written.
                data = {"approval_id": row["approval_id"], "action": proposal.action, "risk": str(proposal.risk)}
                announce(
                    connection, row["company"], EventNotice(event=WebhookEventType.APPROVAL_FILED, data=data), at=now
                )
            return is_new

    def page(
        self, company: str, *, state: ApprovalState | None = None, before: Approval | None = None, limit: int = MAX_PAGE
    ) -> tuple[Approval, ...]:
        """Return a company's approvals, newest first; ``before`` is the last one of the page before."""
        query = select(approvals).where(approvals.c.company == company)
        query = query if state is None else query.where(approvals.c.state == state.value)
        return self._page(query, before=before, limit=limit)

    def decide(
        self,
        company: str,
        approval_id: str,
        verdict: Verdict,
        word: Decision,
        *,
        capacity: CapacityLimit | None = None,
        actor: str | None = None,
    ) -> Approval:
        """Save a decision, once, and return the approval; an approved one then needs its effect.

        ``actor`` is how the audit names who decides where that is no person.

        The capacity is checked in the same transaction; where it refuses, nothing is written. Raises what it raises,
        ApprovalClosedError when somebody decided before, even a moment ago, or it has expired, and MemoryNotFoundError.
        """
        now = self._clock()
        needs = ApprovalNeed.EFFECT if verdict is ApprovalState.APPROVED else None
        decided = {
            "state": str(verdict),
            "needs": None if needs is None else str(needs),
            "decided_at": now,
            "decided_by": word.by,
            "reason": word.reason,
        }
        waiting = self._waiting(now)
        with self._database.write() as connection:
            is_waiting = select(approvals.c.approval_id).where(self._is(company, approval_id) & waiting)
            if capacity is not None and connection.execute(is_waiting).first() is not None:
                capacity(connection, company)
            return self._moved_on(connection, company, approval_id, waiting, decided, word, actor=actor)

    def undo(self, company: str, approval_id: str, word: Decision) -> Approval:
        """Undo an approval that was carried out, once, and return it; its effect then needs its taking back.

        Raises ApprovalClosedError when it is not approved, or not carried out yet, or was undone before, and
        MemoryNotFoundError.
        """
        now = self._clock()
        undone = {
            "state": str(ApprovalState.UNDONE),
            "needs": str(ApprovalNeed.TAKING_BACK),
            "undone_at": now,
            "undone_by": word.by,
            "undo_reason": word.reason,
        }
        is_carried_out = and_(approvals.c.state == str(ApprovalState.APPROVED), approvals.c.needs.is_(None))
        with self._database.write() as connection:
            return self._moved_on(connection, company, approval_id, is_carried_out, undone, word)

    def settle(self, company: str, approval_id: str, need: ApprovalNeed, *, effect: str | None = None) -> bool:
        """Note that what an approval needed is done, and the id that it left; False when it needs that no more."""
        values: Row = {"needs": None} if effect is None else {"needs": None, "effect": effect}
        return self._update(self._is(company, approval_id) & (approvals.c.needs == str(need)), values) > 0

    def unsettled(self, company: str, *, limit: int = MAX_PAGE) -> tuple[Approval, ...]:
        """Return what was decided and is not carried out, or not taken back, oldest first."""
        needs = approvals.c.needs.in_([str(ApprovalNeed.EFFECT), str(ApprovalNeed.TAKING_BACK)])
        query = select(approvals).where(approvals.c.company == company, needs)
        return self._all(query.order_by(approvals.c.decided_at, approvals.c.approval_id).limit(min(limit, MAX_PAGE)))

    def count_waiting(self, company: str) -> int:
        """Return how many approvals wait for a person."""
        needs_word = approvals.c.needs == str(ApprovalNeed.WORD)
        return self._database.count(approvals, approvals.c.company == company, needs_word, self._waiting(self._clock()))

    def expire(self, company: str) -> int:
        """Mark what waited too long, and return how many there were."""
        over = and_(
            approvals.c.company == company,
            approvals.c.needs == str(ApprovalNeed.WORD),
            approvals.c.expires_at <= self._clock(),
        )
        if self._database.row(select(approvals.c.approval_id).where(over).limit(1)) is None:
            return 0
        return self._update(over, {"state": str(ApprovalState.EXPIRED), "needs": None})

    def waits(self, approval: Approval) -> bool:
        """Return whether a person can still decide it."""
        return approval.state is ApprovalState.PENDING and approval.expires_at > self._clock()

    @staticmethod
    def _waiting(now: datetime) -> ColumnElement[bool]:
        return and_(approvals.c.state == str(ApprovalState.PENDING), approvals.c.expires_at > now)

    def _moved_on(
        self,
        connection: Connection,
        company: str,
        approval_id: str,
        which: ColumnElement[bool],
        new: Row,
        by: Decision,
        *,
        actor: str | None = None,
    ) -> Approval:
        # One statement checks and writes: of two concurrent ones the later finds nothing that waits.
        is_it = self._is(company, approval_id)
        is_first = connection.execute(update(approvals).where(is_it & which).values(new)).rowcount > 0
        row = connection.execute(select(approvals).where(is_it)).mappings().one_or_none()
        if row is None:
            raise MemoryNotFoundError(f"approval_id: {approval_id!r} names no approval; see `memtend approvals list`")
        approval = self._record(row)
        if not is_first:
            raise _closed(approval, self._clock())
        note = AuditNote(
            actor=actor or person(by.by),
            action=f"approval.{approval.state}",
            subject=approval_id,
            verdict=AuditVerdict.DONE,
            reason=by.reason,
        )
        append(connection, company, note, at=self._clock())
        return approval

    def _record(self, row: Mapping[Any, Any]) -> Approval:
        body = unpack("an approval", row["body"])
        shown = {key: value for key, value in row.items() if key not in {"company", "action", "risk", "title", "body"}}
        # Older releases took control characters; a proposal must not become unreadable for one.
        title, proposed_by = escaped(row["title"])[:MAX_TITLE_CHARS], escaped(body["proposed_by"])[:MAX_NAME_CHARS]
        proposal = {**body, "action": row["action"], "risk": row["risk"], "title": title, "proposed_by": proposed_by}
        return Approval.model_validate({**shown, "proposal": proposal}, extra="ignore")


def _closed(approval: Approval, now: datetime) -> ApprovalClosedError:
    if approval.state is ApprovalState.UNDONE:
        return ApprovalClosedError(approval.approval_id, "undone", by=approval.undone_by, at=approval.undone_at)
    if approval.decided_by is not None:
        return ApprovalClosedError(approval.approval_id, approval.state, by=approval.decided_by, at=approval.decided_at)
    if approval.expires_at <= now:
        return ApprovalClosedError(approval.approval_id, "expired", at=approval.expires_at)
    return ApprovalClosedError(approval.approval_id, "pending")


def _encoded(proposal: Proposal) -> bytes:
    try:
        # As they are: pydantic would write what is no JSON value as something else.
        body = {"details": proposal.details, **proposal.model_dump(mode="json", exclude=_ELSEWHERE)}
        text = pack("proposal", body, allow_nan=False)
    except (TypeError, ValueError):
        raise MemoryInputError("details", "must be made of JSON values alone") from None
    if len(text) > MAX_BODY_BYTES:
        raise MemoryInputError("proposal", f"has {len(text)} bytes; the limit is {MAX_BODY_BYTES}")
    return text
