"""The audit: what was refused, and what people did; append-only."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BeforeValidator
from sqlalchemy import Connection, select

from memcore import ids
from memcore.ledger.database import Records, checked_key
from memcore.ledger.tables import audit
from memcore.models.approval import Name, Reason
from memcore.models.base import Frozen, NotBlankStr, ValidatedModel
from memcore.models.memory import BoundedTime, Key

#: Most lines of a page.
MAX_PAGE = 256

#: How the name of a person, an agent and a key of the policy begin: an agent who is called like a person is none.
_PERSON, _AGENT, _POLICY = "person:", "agent:", "policy:"


class AuditVerdict(StrEnum):
    """The outcome of an audited action."""

    DONE = "done"
    DENIED = "denied"


class AuditNote(Frozen):
    """A line to add; never the text of a fact or a memory.

    The actor is named as :func:`person`, :func:`agent` and :func:`policy` do, the subject is the id of what it was done
    to.
    """

    actor: NotBlankStr
    action: Key
    subject: NotBlankStr | None = None
    verdict: AuditVerdict
    reason: NotBlankStr | None = None


class AuditLine(AuditNote):
    """A stored line of the audit."""

    audit_id: NotBlankStr
    at: BoundedTime


class Audit(Records[AuditLine]):
    """The audit table."""

    _table = audit
    _model = AuditLine
    _newest_by = (audit.c.at, audit.c.audit_id)
    _page_size = MAX_PAGE

    def note(self, company: str, line: AuditNote) -> None:
        """Add a line. Raises MemoryStoreError, MemoryConnectionError."""
        with self._database.write() as connection:
            append(connection, checked_key("company", company), line, at=self._clock())

    def page(
        self,
        company: str,
        *,
        actor: str | None = None,
        action: str | None = None,
        before: AuditLine | None = None,
        limit: int = MAX_PAGE,
    ) -> tuple[AuditLine, ...]:
        """Return at most 256 of a company's lines, newest first, behind the last line of the page before.

        An actor is named with or without ``person:`` or ``agent:`` before the name.
        """
        query = select(audit).where(audit.c.company == company)
        if actor is not None:
            query = query.where(audit.c.actor.in_([actor, person(actor), agent(actor)]))
        if action is not None:
            query = query.where(audit.c.action == action)
        return self._page(query, before=before, limit=limit)


def append(connection: Connection, company: str, line: AuditNote, *, at: datetime) -> None:
    """Add a line in a transaction of the caller's: it is there exactly when what it records is."""
    row = {"company": company, "audit_id": ids.new_id(), "at": at, **line.model_dump(mode="json")}
    connection.execute(audit.insert().values(row))


def person(name: str | None) -> str:
    """Return how the audit names a person."""
    return f"{_PERSON}{name or 'unknown'}"


def agent(agent_id: str) -> str:
    """Return how the audit names an agent."""
    return f"{_AGENT}{agent_id}"


def policy(key: str) -> str:
    """Return how the audit names a key of the policy that decides."""
    return f"{_POLICY}{key}"


def done_by(name: str | None, action: str, subject: str, *, reason: str | None = None) -> AuditNote:
    """Return the line of what a person has done; without a name it says ``unknown``."""
    return AuditNote(actor=person(name), action=action, subject=subject, verdict=AuditVerdict.DONE, reason=reason)


def _literally(value: object) -> object:
    if value is not True:
        raise ValueError("must be True")
    return value


#: True, and nothing like it.
Confirmed = Annotated[Literal[True], BeforeValidator(_literally)]


class Confirmation(ValidatedModel):
    """A person's confirmation of an action that cannot simply be undone: ``confirm`` is True, and nothing like it.

    Raises MemoryInputError, which names the field, when one of the three is missing, blank or too long.
    """

    actor: Name
    confirm: Confirmed
    reason: Reason

    def note(self, action: str, subject: str) -> AuditNote:
        """Return the line for the audit."""
        return done_by(self.actor, action, subject, reason=self.reason)
