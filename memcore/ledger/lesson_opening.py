"""The beginning of a lesson's row, inside of whatever transaction says that its task is over."""

from datetime import datetime

from sqlalchemy import Connection

from memcore.ledger.agent import checked_key
from memcore.ledger.insert import insert_for
from memcore.ledger.learning_tables import lessons


def open_lesson(connection: Connection, company: str, agent_id: str, lesson_id: str, *, at: datetime) -> bool:
    """Note that a task's lesson is to be drawn and return True; False when that was noted before.

    Raises MemoryInputError when a key is too long.
    """
    row = {
        "company": checked_key("company", company),
        "lesson_id": checked_key("lesson_id", lesson_id),
        "agent_id": checked_key("agent_id", agent_id),
        "created_at": at,
        "rung_at": at,
        "tries": 0,
    }
    statement = insert_for(connection, lessons).values(row).on_conflict_do_nothing()
    return connection.execute(statement.returning(lessons.c.lesson_id)).scalar_one_or_none() is not None
