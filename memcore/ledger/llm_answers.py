"""Questions to models with their answers, and the parts of runs that wait for them; both are work items."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from pydantic import Field
from sqlalchemy import ColumnElement, and_, distinct, exists, func, literal, or_, select, update

from memcore.errors import MemoryInputError
from memcore.jobs import MaintenancePayload, SynthesisPayload
from memcore.ledger.database import Row, UtcDateTime, add_new, equals, insert_one, record_of
from memcore.ledger.tables import OPEN_WORK, answers, syntheses, work_items
from memcore.ledger.work_items import (
    OPEN_STATES,
    Work,
    WorkEvent,
    WorkRecord,
    WorkState,
    add_items,
    is_item,
    move,
    move_leased,
    new_item,
)
from memcore.models.memory import BoundedTime, MemoryCategory


class Answer(WorkRecord):
    """A question to a model, and its answer.

    Attributes:
        run_id: for which run it was asked last.
        state: leased while somebody waits for the model; done with its answer; failed when it was asked in vain.
        text: the answer; it stays out of the repr, and so out of logs.
        asked_at: when it was asked for last, or last used where its cache says so.
    """

    question_id: str
    run_id: str | None
    state: WorkState
    text: str | None = Field(default=None, repr=False)
    reason: str | None = None
    asked_at: BoundedTime


class Answers(Work[Answer]):
    """The answers table and its work items: a question is asked once, however often the asker dies.

    No message asks for a question; who needs its answer claims it.
    """

    _kind = "question"
    _table = answers
    _model = Answer

    def claim_question(
        self, company: str, question_id: str, *, agent_id: str, run_id: str | None, purpose: str, lease: timedelta
    ) -> Answer | None:
        """Claim a question under a fresh token and return it; None while another asker holds it.

        An answer comes back as it is, and so does a failure of the same run; another run asks again.

        Raises:
            MemoryInputError: the question is another company's.
        """
        now, name = self._clock(), self._name(company, question_id)
        own: Row = {"run_id": run_id, "purpose": purpose, "text": None, "asked_at": now}
        with self._database.write() as connection:
            if add_items(connection, [new_item(name, None, now=now, agent_id=agent_id)]):
                row = {"company": company, "question_id": question_id, **own}
                if not insert_one(connection, answers, row):
                    raise MemoryInputError("question_id", "names a question of another company")
            known = self._in(connection, company, question_id)
            if known.state is WorkState.FAILED and known.run_id != run_id:
                move(connection, "replay", is_item(name), now=now)
            elif known.state in {WorkState.DONE, WorkState.FAILED}:
                return known
            return self._claimed(connection, company, question_id, lease=lease, own=own)

    def finish(self, company: str, question_id: str, token: str, text: str) -> Answer:
        """Keep the answer. Raises LeaseLostError: somebody else has taken the question since."""
        return self._leased(company, question_id, token, "finish", own={"text": text.encode("utf-8", "surrogatepass")})

    def unanswered(self, company: str, *purposes: str) -> tuple[int, int, datetime] | None:
        """Return how many questions of a company have no answer yet, of how many agents, and since when; None if none.

        Their purposes begin with one of those given. One that was not asked again is forgotten with the answers.
        """
        waits = and_(answers.c.company == company, work_items.c.state != WorkState.DONE.value)
        waits &= or_(*(answers.c.purpose.startswith(each, autoescape=True) for each in purposes))
        agents = func.count(distinct(work_items.c.agent_id)).label("agents")
        since = func.min(work_items.c.created_at, type_=UtcDateTime()).label("since")
        counted = self._rows().with_only_columns(func.count().label("questions"), agents, since)
        (row,) = self._database.rows(counted.where(waits))
        return (row["questions"], row["agents"], row["since"]) if row["questions"] else None

    def expire(self, company: str, *, before: datetime) -> int:
        """Delete a company's answers to questions asked before a time and return how many."""
        return self._drop(company, answers.c.asked_at < before)

    def touch(self, company: str, question_id: str) -> None:
        """Note that an answer was used now: ``trim`` keeps the last used ones."""
        self._update(equals(answers, company=company, question_id=question_id), {"asked_at": self._clock()})

    def trim(self, company: str, purpose: str, *, before: datetime, keep: int) -> int:
        """Delete the answers to one purpose used before a time, and all but the last used; return how many."""
        mine = equals(answers, company=company, purpose=purpose)
        newest = select(answers.c.question_id).where(mine).order_by(answers.c.asked_at.desc(), answers.c.question_id)
        is_old = or_(answers.c.asked_at < before, answers.c.question_id.in_(newest.offset(keep)))
        return self._drop(company, answers.c.purpose == purpose, is_old)

    def forget(self, company: str, run_id: str) -> None:
        """Delete the answers that a company's run asked for."""
        self._drop(company, answers.c.run_id == run_id)

    def _record(self, row: Mapping[Any, Any]) -> Answer:
        kept: bytes | None = row["text"]
        return record_of(Answer, row, text=None if kept is None else kept.decode("utf-8", "surrogatepass"))


class Synthesis(WorkRecord):
    """One part of a run, about which a model is asked.

    Attributes:
        place: its place in the run, from 0.
        source_ids: the memories that the summary will replace.
        kept_id: the memory of their group that stays.
        replaced_at: when the run had replaced the memories; None while it has not.
        away_since: when the model failed for the first time since it last answered the run; None while it answers.
        state: done when the model was asked; failed when its server refused.
        reason: why it waits, or why the server refused.
    """

    run_id: str
    place: int = Field(ge=0)
    company: str
    agent_id: str
    category: MemoryCategory
    source_ids: tuple[str, ...]
    kept_id: str | None = None
    replaced_at: BoundedTime | None = None
    away_since: BoundedTime | None = None
    state: WorkState = WorkState.AVAILABLE
    reason: str | None = None
    dispatch_after: BoundedTime | None = None

    @property
    def key(self) -> str:
        """The key of its work item."""
        return f"{self.run_id}.{self.place}"

    @property
    def is_open(self) -> bool:
        """Whether a model has still to be asked."""
        return self.state in OPEN_STATES

    @property
    def is_ready(self) -> bool:
        """Whether the run may replace its memories."""
        return self.state is WorkState.DONE and self.replaced_at is None


class Syntheses(Work[Synthesis]):
    """The syntheses table and its work items."""

    _kind = SynthesisPayload.task
    _table = syntheses
    _model = Synthesis

    def plan(self, parts: Sequence[Synthesis]) -> None:
        """Insert a run's parts, all or none; a run that has some keeps those: a plan is made once."""
        if not parts:
            return
        now, columns = self._clock(), set(syntheses.c.keys())
        rows = [
            {**part.model_dump(include=columns), "part_id": part.key, "source_ids": list(part.source_ids)}
            for part in parts
        ]
        # Due at once: the run sends them when its lease is free.
        items = [self._new_item(part, now=now) | {"dispatch_after": now} for part in parts]
        with self._database.write() as connection:
            if add_items(connection, items[:1]):
                add_items(connection, items[1:])
                add_new(connection, syntheses, rows)

    def of_run(self, company: str, run_id: str) -> tuple[Synthesis, ...]:
        """Return the run's parts in order."""
        query = self._rows().where(equals(syntheses, company=company, run_id=run_id))
        return self._all(query.order_by(syntheses.c.place))

    def finish(self, part: Synthesis, *, is_back: bool = True) -> bool:
        """Note that the model was asked about a leased part; True if none of its run is open then.

        A model that is back has answered: the next failure is a first one again, for all parts of the run.

        Raises LeaseLostError.
        """
        self._leased(part.company, part.key, part.token or "", "finish")
        parts = self.of_run(part.company, part.run_id)
        if is_back and any(each.away_since for each in parts):
            self._update(equals(syntheses, company=part.company, run_id=part.run_id), {"away_since": None})
        return not any(each.is_open for each in parts)

    def wait_together(
        self, part: Synthesis, *, until: datetime, reason: str, away_since: datetime | None = None
    ) -> None:
        """Let a leased part, and all of its run that nobody holds, wait until a time. Raises LeaseLostError.

        They may wait often: it uses up no attempt. With ``away_since`` they wait for a model that is away.
        """
        self._move_together(part, "wait", "postpone", away_since=away_since, reason=reason, dispatch_after=until)

    def away(self, company: str) -> tuple[int, datetime] | None:
        """Return how many of a company's runs wait for a model that is away, and since when; None if none does."""
        waits = and_(syntheses.c.company == company, syntheses.c.away_since.is_not(None), OPEN_WORK)
        counted = func.count(distinct(syntheses.c.run_id)).label("runs")
        since = func.min(syntheses.c.away_since, type_=UtcDateTime()).label("since")
        (row,) = self._database.rows(self._rows().with_only_columns(counted, since).where(waits))
        return (row["runs"], row["since"]) if row["runs"] else None

    def refuse_together(self, part: Synthesis, *, reason: str) -> None:
        """Give up a leased part, and all of its run that nobody holds: the server that refused one will refuse all.

        Raises LeaseLostError.
        """
        self._move_together(part, "fail", "refuse", reason=reason)

    def replaced(self, part: Synthesis) -> None:
        """Note that the run has replaced the memories of a part."""
        self._update(self._is(part.company, part.key), {"replaced_at": self._clock()})

    def ask_again(self, part: Synthesis, source_ids: Collection[str]) -> None:
        """Have the model asked about these memories of a part: the others have changed since."""
        now = self._clock()
        self._move(part.company, part.key, "replay", own={"source_ids": list(source_ids)}, dispatch_after=now)

    def forget(self, company: str) -> int:
        """Delete a company's parts whose runs have ended, and return how many; they name ids, and nothing else."""
        its = work_items.alias("its")
        is_run = equals(its, company=company, kind=MaintenancePayload.task) & its.c.state.in_(OPEN_STATES)
        is_open = exists().where(is_run, its.c.key == syntheses.c.run_id)
        return self._drop(company, ~is_open)

    def _new_item(self, part: Synthesis, *, now: datetime) -> Row:
        payload = SynthesisPayload(company=part.company, agent_id=part.agent_id, run_id=part.run_id, place=part.place)
        return new_item(self._name(part.company, part.key), payload, now=now, agent_id=part.agent_id)

    def _move_together(
        self,
        part: Synthesis,
        leased: WorkEvent,
        ready: WorkEvent,
        *,
        away_since: datetime | None = None,
        **values: Any,
    ) -> None:
        now, name = self._clock(), self._name(part.company, part.key)
        mine = equals(syntheses, company=part.company, run_id=part.run_id)
        its = select(syntheses.c.part_id).where(mine)
        of_run: ColumnElement[bool] = equals(work_items, company=part.company, kind=self._kind)
        unused = {"attempt": work_items.c.attempt - 1} if leased == "wait" else {}
        with self._database.write() as connection:
            move_leased(connection, leased, name, part.token or "", now=now, **values, **unused)
            move(connection, ready, of_run & work_items.c.key.in_(its), now=now, **values)
            if away_since is not None:
                first = func.coalesce(syntheses.c.away_since, literal(away_since, UtcDateTime()))
                connection.execute(update(syntheses).where(mine).values(away_since=first))
