"""Records of crises and feedback: apart from memory, with their own retention, never in a prompt."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Generic, TypeVar

from sqlalchemy import select

from memcore.ledger.conversation.tables import crisis_log, session_feedback
from memcore.ledger.database import Records, Row, equals, insert_one, record_of
from memcore.ledger.rows import pack, unpack
from memcore.models.conversation import CrisisLogRecord, SessionFeedbackRecord

#: Most records of a page.
MAX_PAGE = 500


_Record = TypeVar("_Record", CrisisLogRecord, SessionFeedbackRecord)


class _Notes(Records[_Record], Generic[_Record]):
    """Records with one text each, which is packed."""

    _page_size = MAX_PAGE
    #: The field of the text.
    _text: str

    def record(self, company: str, record: _Record) -> bool:
        """Keep a record once, and return whether it is new."""
        row: Row = {"company": company, **record.model_dump(mode="python", exclude={self._text})}
        body = pack("a record", {self._text: getattr(record, self._text)})
        with self._database.write() as connection:
            return insert_one(connection, self._table, row | {"body": body})

    def page(
        self,
        company: str,
        agent_id: str,
        *,
        subject: str | None = None,
        before: _Record | None = None,
        limit: int = MAX_PAGE,
    ) -> tuple[_Record, ...]:
        """Return an agent's records, or those of one subject, the newest first."""
        query = select(self._table).where(equals(self._table, company=company, agent_id=agent_id))
        if subject is not None:
            query = query.where(self._table.c.subject == subject)
        return self._page(query, before=before, limit=limit)

    def expire(self, company: str, *, before: datetime) -> int:
        """Delete the records from before then, and return how many."""
        return self._delete(self._table.c.company == company, self._table.c.at < before)

    def _record(self, row: Mapping[Any, Any]) -> _Record:
        return record_of(self._model, row, **unpack("a record", row["body"]))


class CrisisLog(_Notes[CrisisLogRecord]):
    """The log of crises that engines detected."""

    _table = crisis_log
    _model = CrisisLogRecord
    _newest_by = (crisis_log.c.at, crisis_log.c.record_id)
    _text = "action"


class SessionFeedback(_Notes[SessionFeedbackRecord]):
    """What people thought of sessions."""

    _table = session_feedback
    _model = SessionFeedbackRecord
    _newest_by = (session_feedback.c.at, session_feedback.c.record_id)
    _text = "comment"
