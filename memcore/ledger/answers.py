"""What models answered: asked once, however often the asker dies; every method is one short transaction."""

from datetime import datetime, timedelta
from typing import Literal

from pydantic import Field
from sqlalchemy import delete, select, update

from memcore import ids
from memcore.clock import Clock
from memcore.errors import MemoryInputError
from memcore.frozen import Frozen
from memcore.ledger.engine import Database
from memcore.ledger.insert import insert_for
from memcore.ledger.ledger_tables import answers


class Answer(Frozen):
    """What became of a question.

    Attributes:
        run_id: for which run it was asked last.
        state: asking: somebody waits for the model now; answered; or unusable: the model was asked and failed.
        text: the answer; it stays out of the repr, and so out of logs.
        reason: why it is unusable.
        token: of the one who asks, while asking.
    """

    question_id: str
    run_id: str | None
    state: Literal["asking", "answered", "unusable"]
    text: str | None = Field(default=None, repr=False)
    reason: str | None = None
    token: str | None = None


class Answers:
    """The answers table.

    Args:
        database: the ledger.
        clock: what time it is.
    """

    def __init__(self, database: Database, *, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def get(self, question_id: str) -> Answer | None:
        """Return what is known about a question."""
        with self._database.read() as connection:
            row = connection.execute(select(answers).where(answers.c.question_id == question_id)).mappings().first()
        return _answer(dict(row)) if row else None

    def take(
        self, question_id: str, *, company: str, agent_id: str, run_id: str | None, purpose: str, lease: timedelta
    ) -> Answer | None:
        """Take a question that nobody asks now and return it under a fresh token; None when somebody does.

        An answer comes back as it is, and so does a failure of the same run; another run asks again.

        Raises:
            MemoryInputError: the question is another company's.
        """
        now, token = self._clock(), ids.new_id()
        mine = {
            "run_id": run_id,
            "purpose": purpose,
            "state": "asking",
            "token": token,
            "lease_until": now + lease,
            "asked_at": now,
        }
        with self._database.write() as connection:
            insert = insert_for(connection, answers).on_conflict_do_nothing(index_elements=["question_id"])
            insert = insert.values(question_id=question_id, company=company, agent_id=agent_id, **mine)
            if connection.execute(insert.returning(answers.c.question_id)).scalar_one_or_none() is None:
                query = select(answers).where(answers.c.question_id == question_id).with_for_update()
                row = connection.execute(query).mappings().one()
                if row["company"] != company:
                    raise MemoryInputError("question_id", "names a question of another company")
                if row["state"] == "answered" or (row["state"] == "unusable" and row["run_id"] == run_id):
                    return _answer(dict(row))
                if row["state"] == "asking" and row["lease_until"] > now:
                    return None
                query_again = update(answers).where(answers.c.question_id == question_id)
                connection.execute(query_again.values(**mine, text=None, reason=None, answered_at=None))
        return Answer(question_id=question_id, run_id=run_id, state="asking", token=token)

    def renew(self, question_id: str, token: str, *, lease: timedelta) -> bool:
        """Keep a question for another lease; False when somebody else has it."""
        return self._held(question_id, token, lease_until=self._clock() + lease)

    def answered(self, question_id: str, token: str, text: str) -> bool:
        """Keep the answer; False when somebody else has taken the question since."""
        kept = text.encode("utf-8", "surrogatepass")
        return self._settled(question_id, token, state="answered", text=kept)

    def unusable(self, question_id: str, token: str, reason: str) -> bool:
        """Keep that the model was asked in vain; False when somebody else has taken the question since."""
        return self._settled(question_id, token, state="unusable", reason=reason)

    def let_go(self, question_id: str, token: str) -> None:
        """Give a question back that was not asked: whoever comes next takes it at once."""
        mine = (answers.c.question_id == question_id) & (answers.c.token == token)
        with self._database.write() as connection:
            connection.execute(delete(answers).where(mine, answers.c.state == "asking"))

    def expire(self, company: str, *, before: datetime) -> int:
        """Delete a company's answers to questions asked before a time and return how many."""
        query = delete(answers).where(answers.c.company == company, answers.c.asked_at < before)
        with self._database.write() as connection:
            return connection.execute(query).rowcount

    def forget(self, company: str, run_id: str) -> None:
        """Delete the answers that a company's run asked for."""
        with self._database.write() as connection:
            connection.execute(delete(answers).where(answers.c.company == company, answers.c.run_id == run_id))

    def _settled(self, question_id: str, token: str, **values: object) -> bool:
        return self._held(question_id, token, **values, token=None, lease_until=None, answered_at=self._clock())

    def _held(self, question_id: str, mark: str, **values: object) -> bool:
        mine = (answers.c.question_id == question_id) & (answers.c.token == mark) & (answers.c.state == "asking")
        with self._database.write() as connection:
            return connection.execute(update(answers).where(mine).values(**values)).rowcount > 0


def _answer(row: dict[str, object]) -> Answer:
    known = {name: row[name] for name in ("question_id", "run_id", "state", "reason", "token")}
    text = row["text"]
    if isinstance(text, bytes):
        known["text"] = text.decode("utf-8", "surrogatepass")
    return Answer.model_validate(known)
