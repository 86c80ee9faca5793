"""Records of crises and feedback: apart from memory, with their own retention, never in a prompt."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import select

from memcore.ledger.conversation.tables import crisis_log, session_feedback
from memcore.ledger.database import Records, Row, equals, insert_one, record_of
from memcore.ledger.rows import pack, unpack
from memcore.models.conversation import CrisisLogRecord, SessionFeedbackRecord

#: Most records of a page.
MAX_PAGE = 500


class CrisisLog(Records[CrisisLogRecord]):
    """The log of crises that engines detected."""

    _table = crisis_log
    _model = CrisisLogRecord
    _newest_by = (crisis_log.c.at, crisis_log.c.record_id)
    _page_size = MAX_PAGE

    def record(self, company: str, record: CrisisLogRecord) -> bool:
        """Keep a record once, and return whether it is new."""
        row: Row = {"company": company, **record.model_dump(mode="python", exclude={"action"})}
        with self._database.write() as connection:
            return insert_one(connection, crisis_log, row | {"body": pack("a record", {"action": record.action})})

    def page(
        self,
        company: str,
        agent_id: str,
        *,
        subject: str | None = None,
        before: CrisisLogRecord | None = None,
        limit: int = MAX_PAGE,
    ) -> tuple[CrisisLogRecord, ...]:
        """Return an agent's records, or those of one subject, the newest first."""
        query = select(crisis_log).where(equals(crisis_log, company=company, agent_id=agent_id))
        if subject is not None:
            query = query.where(crisis_log.c.subject == subject)
        return self._page(query, before=before, limit=limit)

    def expire(self, company: str, *, before: datetime) -> int:
        """Delete the records from before then, and return how many."""
        return self._delete(crisis_log.c.company == company, crisis_log.c.at < before)

    def _record(self, row: Mapping[Any, Any]) -> CrisisLogRecord:
        return record_of(CrisisLogRecord, row, action=unpack("a record", row["body"])["action"])


class SessionFeedback(Records[SessionFeedbackRecord]):
    """What people thought of sessions."""

    _table = session_feedback
    _model = SessionFeedbackRecord
    _newest_by = (session_feedback.c.at, session_feedback.c.record_id)
    _page_size = MAX_PAGE

    def record(self, company: str, record: SessionFeedbackRecord) -> bool:
        """Keep a record once, and return whether it is new."""
        row: Row = {"company": company, **record.model_dump(mode="python", exclude={"comment"})}
        body = pack("a record", {"comment": record.comment})
        with self._database.write() as connection:
            return insert_one(connection, session_feedback, row | {"body": body})

    def page(
        self,
        company: str,
        agent_id: str,
        *,
        subject: str | None = None,
        before: SessionFeedbackRecord | None = None,
        limit: int = MAX_PAGE,
    ) -> tuple[SessionFeedbackRecord, ...]:
        """Return what was thought of an agent's sessions, or those of one subject, the newest first."""
        query = select(session_feedback).where(equals(session_feedback, company=company, agent_id=agent_id))
        if subject is not None:
            query = query.where(session_feedback.c.subject == subject)
        return self._page(query, before=before, limit=limit)

    def expire(self, company: str, *, before: datetime) -> int:
        """Delete the records from before then, and return how many."""
        return self._delete(session_feedback.c.company == company, session_feedback.c.at < before)

    def _record(self, row: Mapping[Any, Any]) -> SessionFeedbackRecord:
        return record_of(SessionFeedbackRecord, row, comment=unpack("a record", row["body"])["comment"])
