"""Answers of models, and the parts of runs that wait for them; every method is one short transaction."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Literal

from pydantic import Field
from sqlalchemy import ColumnElement, delete, exists, select, update

from memcore import ids
from memcore.errors import MemoryInputError
from memcore.jobs import MaintenancePayload
from memcore.ledger.database import Row, equals, id_chunks, insert_for, insert_one, record_of
from memcore.ledger.rows import Records
from memcore.ledger.tables import OPEN_WORK, answers, syntheses, work_items
from memcore.models.base import Frozen
from memcore.models.memory import BoundedTime, MemoryCategory


class Answer(Frozen):
    """A question to a model, and its answer.

    Attributes:
        run_id: for which run it was asked last.
        state: asking: somebody waits for the model now; answered; or unusable: the model was asked and failed.
        text: the answer; it stays out of the repr, and so out of logs.
    """

    question_id: str
    run_id: str | None
    state: Literal["asking", "answered", "unusable"]
    text: str | None = Field(default=None, repr=False)
    reason: str | None = None
    token: str | None = None


class Answers(Records[Answer]):
    """The answers table: a question is asked once, however often the asker dies."""

    _table = answers
    _model = Answer

    def get(self, question_id: str) -> Answer | None:
        """Return what is known about a question."""
        return self._one(select(answers).where(answers.c.question_id == question_id))

    def claim(
        self, question_id: str, *, company: str, agent_id: str, run_id: str | None, purpose: str, lease: timedelta
    ) -> Answer | None:
        """Claim a question under a fresh token and return it; None while another asker holds it.

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
            row = {"question_id": question_id, "company": company, "agent_id": agent_id, **mine}
            if not insert_one(connection, answers, row):
                query = select(answers).where(answers.c.question_id == question_id).with_for_update()
                known = connection.execute(query).mappings().one()
                if known["company"] != company:
                    raise MemoryInputError("question_id", "names a question of another company")
                if known["state"] == "answered" or (known["state"] == "unusable" and known["run_id"] == run_id):
                    return self._record(known)
                if known["state"] == "asking" and known["lease_until"] > now:
                    return None
                query_again = update(answers).where(answers.c.question_id == question_id)
                connection.execute(query_again.values(**mine, text=None, reason=None, answered_at=None))
        return Answer(question_id=question_id, run_id=run_id, state="asking", token=token)

    def renew(self, question_id: str, token: str, *, lease: timedelta) -> bool:
        """Renew the lease on a question; False when another asker holds it."""
        return self._update(_held(question_id, token), {"lease_until": self._clock() + lease}) > 0

    def answered(self, question_id: str, token: str, text: str) -> bool:
        """Keep the answer; False when somebody else has taken the question since."""
        kept = text.encode("utf-8", "surrogatepass")
        return self._settled(question_id, token, state="answered", text=kept)

    def unusable(self, question_id: str, token: str, reason: str) -> bool:
        """Keep that the model was asked in vain; False when somebody else has taken the question since."""
        return self._settled(question_id, token, state="unusable", reason=reason)

    def release(self, question_id: str, token: str) -> None:
        """Release a question that was not asked: the next asker claims it at once."""
        self._delete(_held(question_id, token))

    def expire(self, company: str, *, before: datetime) -> int:
        """Delete a company's answers to questions asked before a time and return how many."""
        return self._delete(answers.c.company == company, answers.c.asked_at < before)

    def forget(self, company: str, run_id: str) -> None:
        """Delete the answers that a company's run asked for."""
        self._delete(equals(answers, company=company, run_id=run_id))

    def _settled(self, question_id: str, token: str, **values: object) -> bool:
        values |= {"token": None, "lease_until": None, "answered_at": self._clock()}
        return self._update(_held(question_id, token), values) > 0

    def _record(self, row: Mapping[Any, Any]) -> Answer:
        kept: bytes | None = row["text"]
        return record_of(Answer, row, text=None if kept is None else kept.decode("utf-8", "surrogatepass"))


def _held(question_id: str, token: str) -> ColumnElement[bool]:
    return equals(answers, question_id=question_id, token=token, state="asking")


class SynthesisState(StrEnum):
    """Where a part is.

    ::

        wanted --the model was asked--> ready --the run replaced it--> done
          ^  |                            |
          |  +--the model refused--> refused
          +------its memories changed-----+
    """

    WANTED = "wanted"
    READY = "ready"
    REFUSED = "refused"
    DONE = "done"


class Synthesis(Frozen):
    """One part of a run.

    Attributes:
        place: its place in the run, from 0.
        source_ids: the memories that the summary will replace.
        kept_id: the memory of their group that stays.
        reason: why it waits, or why the model refused.
        ring_at: when its job is sent, or sent again; None for at once.
    """

    run_id: str
    place: int = Field(ge=0)
    company: str
    agent_id: str
    category: MemoryCategory
    source_ids: tuple[str, ...]
    kept_id: str | None = None
    state: SynthesisState = SynthesisState.WANTED
    reason: str | None = None
    ring_at: BoundedTime | None = None

    def is_awake(self, now: datetime) -> bool:
        """Return whether its model may be asked now: it is wanted, and does not sleep for a reason."""
        sleeps = self.reason is not None and self.ring_at is not None and self.ring_at > now
        return self.state is SynthesisState.WANTED and not sleeps


_WANTED = syntheses.c.state == SynthesisState.WANTED.value


class Syntheses(Records[Synthesis]):
    """The syntheses table."""

    _table = syntheses
    _model = Synthesis

    def plan(self, parts: Sequence[Synthesis]) -> None:
        """Insert a run's parts, all or none; a run that has some keeps those: a plan is made once."""
        if not parts:
            return
        rows = [part.model_dump(mode="python") | {"source_ids": list(part.source_ids)} for part in parts]
        with self._database.write() as connection:
            if insert_one(connection, syntheses, rows[0]) and rows[1:]:
                # Not by add_new: PostgreSQL takes an array of JSON lists for one list.
                connection.execute(insert_for(connection, syntheses).on_conflict_do_nothing(), rows[1:])

    def of_run(self, run_id: str) -> tuple[Synthesis, ...]:
        """Return the run's parts in order."""
        return self._all(select(syntheses).where(syntheses.c.run_id == run_id).order_by(syntheses.c.place))

    def get(self, run_id: str, place: int) -> Synthesis | None:
        """Return one part, or None."""
        return self._one(select(syntheses).where(equals(syntheses, run_id=run_id, place=place)))

    def turn(
        self, run_id: str, place: int, state: SynthesisState, *, source_ids: Collection[str] | None = None
    ) -> None:
        """Put a part into a state; one that is wanted again, about these memories, is dispatched at once."""
        values: Row = {"state": state.value, "reason": None, "ring_at": None}
        values |= {} if source_ids is None else {"source_ids": list(source_ids)}
        self._update(equals(syntheses, run_id=run_id, place=place), values)

    def refuse(self, run_id: str, *, reason: str) -> bool:
        """Give up all wanted parts of a run, since the server that refused one will refuse them all; False for none."""
        refused = {"state": SynthesisState.REFUSED.value, "reason": reason, "ring_at": None}
        return self._update((syntheses.c.run_id == run_id) & _WANTED, refused) > 0

    def states(self, run_id: str) -> frozenset[SynthesisState]:
        """Return the states in which parts of the run are."""
        return frozenset(part.state for part in self.of_run(run_id))

    def to_dispatch(self, run_id: str) -> tuple[Synthesis, ...]:
        """Return the run's wanted parts that are due for dispatch."""
        now = self._clock()
        return tuple(
            part
            for part in self.of_run(run_id)
            if part.state is SynthesisState.WANTED and (part.ring_at is None or part.ring_at <= now)
        )

    def mark_dispatched(self, run_id: str, places: Collection[int], *, again_at: datetime) -> None:
        """Note that the jobs of these parts were sent, and when to send them again if nothing came of it."""
        mine = (syntheses.c.run_id == run_id) & syntheses.c.place.in_(sorted(places))
        self._update(mine & _WANTED, {"ring_at": again_at, "reason": None})

    def sleep(self, run_id: str, *, until: datetime, reason: str) -> bool:
        """Let all wanted parts of a run wait until a time; False when they do so already."""
        awake = syntheses.c.reason.is_(None) | syntheses.c.ring_at.is_(None) | (syntheses.c.ring_at < until)
        wanted = (syntheses.c.run_id == run_id) & _WANTED
        return self._update(wanted & awake, {"ring_at": until, "reason": reason}) > 0

    def revive(self, company: str) -> tuple[str, ...]:
        """Delete the questions whose asker died, make their parts due for dispatch, and return their runs, sorted.

        Doing it again returns nothing new, so that no message is sent twice for one death.
        """
        dead = (answers.c.company == company) & (answers.c.state == "asking") & (answers.c.lease_until <= self._clock())
        with self._database.write() as connection:
            run_ids = set(connection.execute(delete(answers).where(dead).returning(answers.c.run_id)).scalars())
            found = sorted(run_id for run_id in run_ids if run_id is not None)
            for part in id_chunks(found):
                theirs = syntheses.c.run_id.in_(part) & _WANTED & syntheses.c.reason.is_(None)
                connection.execute(update(syntheses).where(theirs).values(ring_at=None))
        return tuple(found)

    def forget(self, company: str) -> int:
        """Delete a company's parts whose runs have ended, and return how many; they name ids, and nothing else."""
        is_run = equals(work_items, company=company, kind=MaintenancePayload.task)
        is_open = exists().where(is_run, work_items.c.key == syntheses.c.run_id, OPEN_WORK)
        return self._delete(syntheses.c.company == company, ~is_open)
