"""Approvals: proposals for a person, each filed, decided and carried out once, and undone at most once."""

import json
from datetime import datetime, timedelta
from typing import Any, Literal, Protocol

from sqlalchemy import ColumnElement, Connection, RowMapping, Select, and_, func, or_, select, update

from memcore.clock import Clock
from memcore.errors import ApprovalClosedError, MemoryInputError, MemoryNotFoundError, MemoryRetrievalError
from memcore.ledger.database import Database, Row, checked_key, insert_new
from memcore.ledger.organization.audit import AuditNote, AuditVerdict, append, person
from memcore.ledger.tables import approvals
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


class CapacityLimit(Protocol):
    """Refuses an approval above a limit."""

    def require(self, connection: "Connection", company: str) -> None:
        """Lock the count until the transaction ends; raise a MemoryError when the limit is reached."""
        ...


#: Most approvals of a page.
MAX_PAGE = 100

#: Largest proposal, in bytes of its JSON (1 MiB): as much as a job on the wire.
MAX_BODY_BYTES = 1_048_576

#: The form of the body; a reader refuses a newer one rather than guess.
_VERSION = 1

#: What of a proposal stands in columns of its own, or goes into the body untouched.
_ELSEWHERE = {"action", "risk", "title", "details"}

Verdict = Literal[ApprovalState.APPROVED, ApprovalState.REJECTED]


class Approvals:
    """The approvals table; every method is one short transaction.

    ``needs`` is the outbox: the sweep finds an approval that needs its effect, or its taking back, and
    settles it once that is done.

    Args:
        database: the ledger.
        clock: what time it is.
    """

    def __init__(self, database: Database, *, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def file(self, company: str, approval_id: str, proposal: Proposal, *, lasts: timedelta) -> bool:
        """Keep the proposal until a person decides and return True; False when its id is there, whatever became of it.

        Raises MemoryInputError when a key is too long, a text is no valid Unicode, or the whole is larger than 1 MiB.
        """
        now = self._clock()
        row = {
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
            return bool(insert_new(connection, approvals, [row], key="approval_id"))

    def get(self, company: str, approval_id: str) -> Approval | None:
        """Return the approval, or None when the company has none with that id."""
        with self._database.read() as connection:
            return _read(connection, company, approval_id)

    def page(
        self,
        company: str,
        *,
        state: ApprovalState | None = None,
        before: Approval | None = None,
        limit: int = MAX_PAGE,
    ) -> tuple[Approval, ...]:
        """Return a company's approvals, newest first; ``before`` is the last one of the page before."""
        at, key = approvals.c.created_at, approvals.c.approval_id
        query = select(approvals).where(_of(company, state)).order_by(at.desc(), key.desc())
        if before is not None:
            query = query.where(at <= before.created_at, or_(at < before.created_at, key < before.approval_id))
        return self._read(query.limit(min(limit, MAX_PAGE)))

    def count(self, company: str, *, state: ApprovalState | None = None) -> int:
        """Return how many approvals the company has, of one state or of all."""
        query = select(func.count()).select_from(approvals).where(_of(company, state))
        with self._database.read() as connection:
            return connection.execute(query).scalar_one()

    def decide(
        self, company: str, approval_id: str, verdict: Verdict, word: Decision, *, capacity: CapacityLimit | None = None
    ) -> Approval:
        """Save a person's decision, once, and return the approval; an approved one then needs its effect.

        Args:
            company: the company.
            approval_id: which one.
            verdict: approved or rejected.
            word: who decides, and why.
            capacity: checked in the same transaction; where it refuses, nothing is written.

        Raises:
            ApprovalClosedError: somebody decided before, even a moment ago, or it has expired.
            MemoryNotFoundError: the company has none with that id.
            MemoryError: of ``capacity``.
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
        waiting = and_(approvals.c.state == str(ApprovalState.PENDING), approvals.c.expires_at > now)
        with self._database.write() as connection:
            is_waiting = select(approvals.c.approval_id).where(_is(company, approval_id) & waiting)
            if capacity is not None and connection.execute(is_waiting).first() is not None:
                capacity.require(connection, company)
            # One statement checks and writes: of two concurrent ones the later finds nothing that waits.
            is_first = _change(connection, _is(company, approval_id) & waiting, decided)
            if is_first:
                append(connection, company, _noted(verdict, approval_id, word), at=now)
            approval = _read(connection, company, approval_id)
        if approval is None:
            raise MemoryNotFoundError(_unknown(approval_id))
        if not is_first:
            raise _closed(approval, now)
        return approval

    def undo(self, company: str, approval_id: str, word: Decision) -> Approval:
        """Undo an approval that was carried out, once, and return it; its effect then needs its taking back.

        Raises:
            ApprovalClosedError: it is not approved, or not carried out yet, or was undone before.
            MemoryNotFoundError: the company has none with that id.
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
            is_first = _change(connection, _is(company, approval_id) & is_carried_out, undone)
            if is_first:
                append(connection, company, _noted(ApprovalState.UNDONE, approval_id, word), at=now)
            approval = _read(connection, company, approval_id)
        if approval is None:
            raise MemoryNotFoundError(_unknown(approval_id))
        if not is_first:
            raise _closed(approval, now)
        return approval

    def settle(self, company: str, approval_id: str, need: ApprovalNeed, *, effect: str | None = None) -> bool:
        """Note that what an approval needed is done; False when it does not need that any more.

        Args:
            company: the company.
            approval_id: which one.
            need: what was done.
            effect: what it left, an id; None leaves what is written.
        """
        values: Row = {"needs": None} if effect is None else {"needs": None, "effect": effect}
        with self._database.write() as connection:
            return _change(connection, _is(company, approval_id) & (approvals.c.needs == str(need)), values)

    def unsettled(self, company: str, *, limit: int = MAX_PAGE) -> tuple[Approval, ...]:
        """Return what was decided and is not carried out, or not taken back, oldest first."""
        needs = approvals.c.needs.in_([str(ApprovalNeed.EFFECT), str(ApprovalNeed.TAKING_BACK)])
        query = select(approvals).where(approvals.c.company == company, needs)
        return self._read(query.order_by(approvals.c.decided_at, approvals.c.approval_id).limit(min(limit, MAX_PAGE)))

    def expire(self, company: str) -> int:
        """Mark what waited too long, and return how many there were."""
        over = and_(
            approvals.c.company == company,
            approvals.c.needs == str(ApprovalNeed.WORD),
            approvals.c.expires_at <= self._clock(),
        )
        with self._database.read() as connection:
            if connection.execute(select(approvals.c.approval_id).where(over).limit(1)).first() is None:
                return 0
        expired = update(approvals).where(over).values(state=str(ApprovalState.EXPIRED), needs=None)
        with self._database.write() as connection:
            return connection.execute(expired).rowcount

    def _read(self, query: Select[Any]) -> tuple[Approval, ...]:
        with self._database.read() as connection:
            return tuple(_approval(row) for row in connection.execute(query).mappings())


def _of(company: str, state: ApprovalState | None) -> ColumnElement[bool]:
    of_company = approvals.c.company == company
    return of_company if state is None else and_(of_company, approvals.c.state == str(state))


def _is(company: str, approval_id: str) -> ColumnElement[bool]:
    return and_(approvals.c.company == company, approvals.c.approval_id == approval_id)


def _change(connection: Connection, which: ColumnElement[bool], values: Row) -> bool:
    return connection.execute(update(approvals).where(which).values(values)).rowcount > 0


def _read(connection: Connection, company: str, approval_id: str) -> Approval | None:
    row = connection.execute(select(approvals).where(_is(company, approval_id))).mappings().one_or_none()
    return _approval(row) if row else None


def _noted(state: ApprovalState, approval_id: str, word: Decision) -> AuditNote:
    return AuditNote(
        actor=person(word.by),
        action=f"approval.{state}",
        subject=approval_id,
        verdict=AuditVerdict.DONE,
        reason=word.reason,
    )


def _closed(approval: Approval, now: datetime) -> ApprovalClosedError:
    if approval.state is ApprovalState.UNDONE:
        return ApprovalClosedError(approval.approval_id, "undone", by=approval.undone_by, at=approval.undone_at)
    if approval.decided_by is not None:
        return ApprovalClosedError(approval.approval_id, approval.state, by=approval.decided_by, at=approval.decided_at)
    if approval.expires_at <= now:
        return ApprovalClosedError(approval.approval_id, "expired", at=approval.expires_at)
    return ApprovalClosedError(approval.approval_id, "pending")


def _unknown(approval_id: str) -> str:
    return f"approval_id: {approval_id!r} names no approval; see `memtend approvals list`"


def _encoded(proposal: Proposal) -> bytes:
    try:
        # As they are: pydantic would write what is no JSON value as something else.
        body = {
            "version": _VERSION,
            "details": proposal.details,
            **proposal.model_dump(mode="json", exclude=_ELSEWHERE),
        }
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except UnicodeEncodeError:
        raise MemoryInputError("proposal", "must be valid Unicode text") from None
    except (TypeError, ValueError):
        raise MemoryInputError("details", "must be made of JSON values alone") from None
    if len(text) > MAX_BODY_BYTES:
        raise MemoryInputError("proposal", f"has {len(text)} bytes; the limit is {MAX_BODY_BYTES}")
    return text


def _approval(row: RowMapping) -> Approval:
    body: dict[str, Any] = json.loads(row["body"])
    version = body.pop("version")
    if version != _VERSION:
        raise MemoryRetrievalError(f"an approval has form {version}; this release reads form {_VERSION}")
    shown = {key: value for key, value in row.items() if key not in {"company", "action", "risk", "title", "body"}}
    # Older releases took control characters; a proposal must not become unreadable for one.
    title, proposed_by = escaped(row["title"])[:MAX_TITLE_CHARS], escaped(body["proposed_by"])[:MAX_NAME_CHARS]
    proposal = {**body, "action": row["action"], "risk": row["risk"], "title": title, "proposed_by": proposed_by}
    return Approval.model_validate({**shown, "proposal": proposal})
