"""Turns, sessions, and what sessions hold back until their ends.

The work item of a turn waits for a model; that of a session waits for its end. In every transaction the owner's row is
locked first, then the item of a session's end, as a claim does, then the session, so that no two of them wait for each
other.
"""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Literal

from pydantic import Field, TypeAdapter
from sqlalchemy import ColumnElement, Connection, and_, case, func, or_, select, update

from memcore import ids
from memcore.jobs import EndSessionPayload, ExtractPayload, TurnPayload
from memcore.ledger.conversation.memory import (
    Commit,
    advance,
    change_state_in,
    commit_in,
    require_version,
    written_in,
)
from memcore.ledger.conversation.tables import candidates, sessions, turns
from memcore.ledger.database import Row, UtcDateTime, equals, insert_for, insert_one, later_of, record_of
from memcore.ledger.rows import pack, unpack
from memcore.ledger.tables import OPEN_WORK, work_items
from memcore.ledger.work_items import (
    OPEN_STATES,
    Work,
    WorkItem,
    WorkKey,
    WorkRecord,
    WorkState,
    add_items,
    is_item,
    move,
    new_item,
    raise_lost,
)
from memcore.models.conversation import Candidate, Decision, FactState, HeldCandidate, Layer, Owner
from memcore.models.memory import BoundedTime
from memcore.models.origin import SPOKEN, Origin


class Control(StrEnum):
    """What a person asked about memory itself in a turn."""

    #: That this be not kept.
    NOT_THIS = "not_this"
    #: That what was said be forgotten.
    FORGET = "forget"
    #: That nothing be kept from here on.
    INCOGNITO = "incognito"


class Turn(WorkRecord):
    """A recorded turn, and its work item.

    Attributes:
        at: when the person said it.
        user_text: what the person said; None once the text is no longer kept.
        assistant_text: what the agent answered, likewise.
        control: what the person asked about memory itself.
        outcome: counts and ids of what came of it, without any text; None while it waits.
        origin: by which channel the person's words came; None for the person's own.
    """

    turn_id: str
    agent_id: str
    subject: str
    session_key: str
    at: BoundedTime
    user_text: str | None = Field(default=None, repr=False)
    assistant_text: str | None = Field(default=None, repr=False)
    control: Control | None = None
    outcome: dict[str, Any] | None = None
    origin: Origin | None = None
    state: WorkState = WorkState.AVAILABLE
    reason: str | None = None

    @property
    def owner(self) -> Owner:
        """Whose memory it is."""
        return Owner(agent_id=self.agent_id, subject=self.subject)

    @property
    def spoken(self) -> Origin:
        """Where the person's words come from."""
        return self.origin or SPOKEN

    @property
    def answered(self) -> Origin:
        """Where the agent's words come from."""
        return Origin(principals=self.spoken.principals)


class Session(WorkRecord):
    """A session, and the work item that ends it.

    Attributes:
        turns: how many were recorded.
        is_private: whether somebody asked in it that nothing be kept.
        begun_at: its first turn.
        last_turn_at: its last one.
        recorded_at: when a turn of it came in last.
        ended_at: when somebody ended it, or it was found to have ended; None while it goes on.
        outcome: counts of what its last end did.
    """

    session_key: str
    agent_id: str
    subject: str
    session_id: str
    turns: int
    is_private: bool
    begun_at: BoundedTime
    last_turn_at: BoundedTime
    recorded_at: BoundedTime
    ended_at: BoundedTime | None = None
    outcome: dict[str, Any] | None = None
    state: WorkState = WorkState.AVAILABLE
    reason: str | None = None

    @property
    def owner(self) -> Owner:
        """Whose memory it is."""
        return Owner(agent_id=self.agent_id, subject=self.subject)


#: What became of a candidate that waited for the end of its session.
CandidateEnd = Literal["promoted", "known", "dropped"]

_CANDIDATE: TypeAdapter[Candidate] = TypeAdapter(Candidate)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What recording a turn did.

    Attributes:
        is_new: whether this is the first time.
        forgotten: how many facts and rules the person's words took out of memory.
        dropped: how many held candidates they dropped.
    """

    is_new: bool
    forgotten: int = 0
    dropped: int = 0


#: What is asked of more than the turn in which it is asked.
_FROM_NOW_OR_BEFORE = frozenset({Control.FORGET, Control.INCOGNITO})


class Turns(Work[Turn]):
    """The table of turns and their work items."""

    _kind = ExtractPayload.task
    _table = turns
    _model = Turn
    _newest_by = (turns.c.at, turns.c.turn_id)
    _page_size = 500

    def record(
        self,
        payload: TurnPayload,
        *,
        idle: timedelta,
        control: Control | None = None,
        forgotten: Collection[str] = (),
    ) -> Recorded:
        """Record a turn once, let its session wait for its end anew, and do what the person asked about memory.

        A session that has ended goes on, unless the turn was said before its end and comes late. ``forgotten`` are the
        ids of facts and rules that the person asks to forget; where none is named, all that was written in the session
        goes. A turn of which nothing may be kept is recorded without its text.
        """
        company, now = payload.company, self._clock()
        owner = Owner(agent_id=payload.agent_id, subject=payload.subject)
        session_key = ids.session_key(company=company, session_id=payload.session_id, **owner.model_dump())
        item = new_item(
            self._name(company, payload.turn_id),
            ExtractPayload(company=company, agent_id=payload.agent_id, turn_id=payload.turn_id),
            now=now,
            agent_id=payload.agent_id,
        )
        # Of a turn whose text is not kept, nothing is made that would need an origin.
        kept = payload.model_dump(mode="json", include={"user_text", "assistant_text", "origin"}, exclude_none=True)
        row: Row = {
            "company": company,
            **owner.model_dump(),
            "turn_id": payload.turn_id,
            "session_key": session_key,
            # An engine's clock may be ahead.
            "at": min(payload.at, now),
            "body": pack("a turn", kept),
            "control": control,
        }
        if control is not None:
            row["body"] = None
        with suppress(_RecordedMeanwhileError), self._database.write() as connection:
            if connection.execute(select(turns.c.turn_id).where(self._is(company, payload.turn_id))).first():
                return Recorded(is_new=False)
            gone = dropped = 0
            if control in _FROM_NOW_OR_BEFORE:
                # A step that has read the session's turns already must look at them again before it writes.
                advance(connection, company, owner, at=now)
            if control is Control.FORGET:
                gone = change_state_in(
                    connection,
                    company,
                    owner,
                    forgotten or written_in(connection, company, owner, payload.session_id),
                    to=FactState.FORGOTTEN,
                    sources=(FactState.ACTIVE, FactState.SUPERSEDED),
                    at=now,
                )
            _lock_end(connection, company, session_key)
            closed_at = _touch(
                connection, company, owner, payload, session_key, at=row["at"], now=now, is_private=control is not None
            )
            # Behind the session's row, at which another turn of it waits: of two at once the second sees the first.
            if connection.execute(select(turns.c.turn_id).where(_kept_from(company, session_key, row["at"]))).first():
                row["body"] = None
            if control is Control.FORGET:
                dropped = _drop_held(connection, company, session_key, reason="the person asked to forget it")
            if control in _FROM_NOW_OR_BEFORE:
                is_meant = turns.c.at <= row["at"] if control is Control.FORGET else turns.c.at >= row["at"]
                its = equals(turns, company=company, session_key=session_key)
                connection.execute(update(turns).where(its, is_meant).values(body=None))
            if not (add_items(connection, [item]) and insert_one(connection, turns, row)):
                # Another worker has recorded it since: all of this is undone.
                raise _RecordedMeanwhileError
            until = now + idle if closed_at is None else now
            _await_end(connection, company, owner.agent_id, session_key, until=until, now=now)
            return Recorded(is_new=True, forgotten=gone, dropped=dropped)
        return Recorded(is_new=False)

    def settle(
        self,
        turn: Turn,
        company: str,
        token: str,
        commit: Commit,
        held: Iterable[HeldCandidate],
        outcome: Mapping[str, Any],
        *,
        expected: int,
        max_rules: int,
    ) -> Turn:
        """End a leased turn with all that comes of it, in one transaction.

        Raises LeaseLostError; StaleOwnerError where the owner's memory was written since version ``expected``, or the
        person asked meanwhile to forget.
        """
        now = self._clock()
        rows: list[Row] = [
            {
                "company": company,
                "agent_id": turn.agent_id,
                "subject": turn.subject,
                "session_key": turn.session_key,
                "candidate_id": each.candidate_id,
                "turn_id": each.turn_id,
                "layer": each.layer.value,
                "state": "held",
                "reason": each.decision.reason,
                "created_at": each.created_at,
                "body": pack("a candidate", each.model_dump(mode="json", include={"candidate", "decision", "origin"})),
            }
            for each in held
        ]
        with self._database.write() as connection:
            if rows and not commit:
                require_version(connection, company, turn.owner, expected=expected, at=now)
            commit_in(connection, company, turn.owner, commit, expected=expected, at=now, max_rules=max_rules)
            for row in sorted(rows, key=lambda row: str(row["candidate_id"])):
                insert_one(connection, candidates, row)
            own: Row = {"outcome": dict(outcome)}
            return self._leased_in(connection, company, turn.turn_id, token, "finish", own=own)

    def of_session(self, company: str, session_key: str) -> tuple[Turn, ...]:
        """Return a session's turns in order; those whose text is no longer kept have none."""
        which = equals(turns, company=company, session_key=session_key)
        return self._all(self._rows().where(which).order_by(turns.c.at, turns.c.turn_id))

    def before(self, company: str, turn: Turn, *, limit: int) -> tuple[Turn, ...]:
        """Return the last turns of a session before one, in order."""
        own = equals(turns, company=company, session_key=turn.session_key)
        earlier = or_(turns.c.at < turn.at, and_(turns.c.at == turn.at, turns.c.turn_id < turn.turn_id))
        newest = self._rows().where(own, earlier).order_by(turns.c.at.desc(), turns.c.turn_id.desc())
        return self._all(newest.limit(limit))[::-1]

    def is_private(self, company: str, session_key: str, *, at: datetime) -> bool:
        """Return whether nothing may be kept of what was said in a session then.

        It is so from a request to keep nothing on, and up to a request to forget what was said.
        """
        return self._database.count(turns, _kept_from(company, session_key, at)) > 0

    def waiting(self, company: str, session_key: str) -> int:
        """Return how many turns of a session no model was asked about yet."""
        its = equals(turns, company=company, session_key=session_key)
        item = equals(work_items, company=company, kind=self._kind) & (work_items.c.key == turns.c.turn_id)
        query = select(func.count()).select_from(turns).join(work_items, item).where(its, OPEN_WORK)
        return int(self._database.value(query) or 0)

    def unanswered(self, company: str) -> tuple[int, datetime] | None:
        """Return how many turns of a company no model was asked about yet, and since when; None for none."""
        since = func.min(work_items.c.created_at, type_=UtcDateTime()).label("since")
        its = equals(work_items, company=company, kind=self._kind)
        (row,) = self._database.rows(select(func.count().label("turns"), since).where(its, OPEN_WORK))
        return (row["turns"], row["since"]) if row["turns"] else None

    def expire(self, company: str, *, before: datetime) -> int:
        """Delete the texts of turns whose session ended before then, once a model was asked about them."""
        ended = select(sessions.c.session_key).where(
            sessions.c.company == company, sessions.c.ended_at < before, sessions.c.last_turn_at < before
        )
        asked = and_(
            work_items.c.company == company,
            work_items.c.kind == self._kind,
            work_items.c.key == turns.c.turn_id,
            OPEN_WORK,
        )
        which = [turns.c.company == company, turns.c.body.is_not(None), turns.c.session_key.in_(ended)]
        which.append(~select(work_items.c.key).where(asked).exists())
        return self._database.change(update(turns).where(*which).values(body=None))

    def _record(self, row: Mapping[Any, Any]) -> Turn:
        texts = {} if row["body"] is None else unpack("a turn", row["body"])
        return record_of(Turn, row, **texts)


class _RecordedMeanwhileError(Exception):
    pass


class Sessions(Work[Session]):
    """The table of sessions, their work items, and their held candidates."""

    _kind = EndSessionPayload.task
    _table = sessions
    _model = Session
    _newest_by = (sessions.c.last_turn_at, sessions.c.session_key)
    _page_size = 500

    def close_now(self, company: str, session_key: str, *, at: datetime) -> WorkItem | None:
        """Note that a session was ended, and return its work item, to be dispatched; None where nothing is to end.

        A session that has ended already, with no turn since, is left alone.
        """
        now = self._clock()
        with self._database.write() as connection:
            _lock_end(connection, company, session_key)
            its = self._is(company, session_key) & sessions.c.ended_at.is_(None)
            changed = connection.execute(update(sessions).where(its).values(ended_at=min(at, now))).rowcount
            if not changed:
                return None
            item = is_item(self._name(company, session_key))
            move(connection, "wake", item, now=now)
            connection.execute(
                update(work_items)
                .where(item, work_items.c.state == WorkState.AVAILABLE.value)
                .values(dispatch_after=now, dispatches=0)
            )
            row = connection.execute(select(work_items).where(item)).mappings().one()
            return record_of(WorkItem, row) if row["state"] in OPEN_STATES else None

    def page(
        self, company: str, owner: Owner, *, before: Session | None = None, limit: int = 500
    ) -> tuple[Session, ...]:
        """Return an owner's sessions, the newest first."""
        query = self._rows().where(equals(sessions, company=company, **owner.model_dump()))
        return self._page(query, before=before, limit=limit)

    def held(self, company: str, session_key: str) -> tuple[HeldCandidate, ...]:
        """Return what a session holds back, in the order in which it was said."""
        its = equals(candidates, company=company, session_key=session_key, state="held")
        order = (candidates.c.created_at, candidates.c.turn_id, candidates.c.candidate_id)
        return tuple(map(_held, self._database.rows(select(candidates).where(its).order_by(*order))))

    def ended_candidates(self, company: str, session_key: str) -> dict[str, tuple[str, str]]:
        """Return by id what became of the candidates that a session held, and why."""
        its = equals(candidates, company=company, session_key=session_key)
        rows = self._database.rows(select(candidates).where(its))
        return {row["candidate_id"]: (row["state"], row["reason"]) for row in rows}

    def held_before(
        self, company: str, owner: Owner, session_key: str, *, limit: int = 200
    ) -> tuple[HeldCandidate, ...]:
        """Return the candidates that other sessions of an owner held, whatever became of them, the newest first."""
        its = equals(candidates, company=company, **owner.model_dump()) & (candidates.c.session_key != session_key)
        # What a person asked not to keep supports nothing.
        private = equals(sessions, company=company, **owner.model_dump(), is_private=True)
        its &= candidates.c.session_key.not_in(select(sessions.c.session_key).where(private))
        query = select(candidates).where(its).order_by(candidates.c.created_at.desc(), candidates.c.candidate_id)
        return tuple(map(_held, self._database.rows(query.limit(limit))))

    def settle(
        self,
        session: Session,
        company: str,
        token: str,
        commit: Commit,
        ended: Mapping[str, tuple[CandidateEnd, str]],
        outcome: Mapping[str, Any],
        *,
        expected: int,
        max_rules: int,
        idle: timedelta,
    ) -> bool:
        """End a leased session with all that comes of it, in one transaction; False where it goes on.

        It goes on where a turn was recorded since it was claimed: what is promoted is written all the same, the rest is
        held on for the end that follows. Raises LeaseLostError; MemoryNotFoundError; StaleOwnerError.
        """
        now, key = self._clock(), session.session_key
        with self._database.write() as connection:
            commit_in(connection, company, session.owner, commit, expected=expected, at=now, max_rules=max_rules)
            _lock_end(connection, company, key)
            of = sessions.c
            query = select(of.turns, of.recorded_at, of.ended_at).where(self._is(company, key)).with_for_update()
            row = connection.execute(query).one_or_none()
            if row is None:
                raise_lost(connection, self._name(company, key))
            has_ended = row.turns == session.turns
            for candidate_id, (state, reason) in sorted(ended.items()):
                if state == "dropped" and not has_ended:
                    continue
                its = equals(candidates, company=company, candidate_id=candidate_id, state="held")
                connection.execute(update(candidates).where(its).values(state=state, reason=reason))
            own: Row = {"outcome": dict(outcome)}
            if has_ended:
                own["ended_at"] = func.coalesce(sessions.c.ended_at, now)
                self._leased_in(connection, company, key, token, "finish", own=own)
                return True
            at = row.recorded_at + idle if row.ended_at is None else now
            values: Row = {"reason": "a turn came while it ended", "dispatch_after": at}
            self._leased_in(connection, company, key, token, "wait", own=own, **values)
            return False


def _kept_from(company: str, session_key: str, at: datetime) -> ColumnElement[bool]:
    """Return the condition for turns that ask to keep nothing of what was said in their session at a time."""
    control, its = turns.c.control, equals(turns, company=company, session_key=session_key)
    from_now = (control == Control.INCOGNITO) & (turns.c.at <= at)
    before = (control == Control.FORGET) & (turns.c.at >= at)
    return its & (from_now | before)


def _lock_end(connection: Connection, company: str, session_key: str) -> None:
    name = WorkKey(company, EndSessionPayload.task, session_key)
    connection.execute(select(work_items.c.key).where(is_item(name)).with_for_update())


def _touch(
    connection: Connection,
    company: str,
    owner: Owner,
    payload: TurnPayload,
    session_key: str,
    *,
    at: datetime,
    now: datetime,
    is_private: bool,
) -> datetime | None:
    """Make or move on a session's row for a further turn, and return when it ended, where that was after the turn."""
    row: Row = {
        "company": company,
        **owner.model_dump(),
        "session_key": session_key,
        "session_id": payload.session_id,
        "turns": 1,
        "is_private": is_private,
        "begun_at": at,
        "last_turn_at": at,
        "recorded_at": now,
    }
    statement = insert_for(connection, sessions).values(row)
    new, old = statement.excluded, sessions.c
    values = {
        "turns": old.turns + 1,
        "is_private": old.is_private | new.is_private,
        "begun_at": case((new.begun_at < old.begun_at, new.begun_at), else_=old.begun_at),
        "last_turn_at": later_of(new.last_turn_at, old.last_turn_at),
        "recorded_at": later_of(new.recorded_at, old.recorded_at),
        "ended_at": case((old.ended_at >= new.last_turn_at, old.ended_at)),
    }
    touched = statement.on_conflict_do_update(index_elements=list(sessions.primary_key), set_=values)
    ended: datetime | None = connection.execute(touched.returning(old.ended_at)).scalar_one()
    return ended


def _await_end(
    connection: Connection, company: str, agent_id: str, session_key: str, *, until: datetime, now: datetime
) -> None:
    """Let the end of a session wait until then: the item is made, put off, or made anew where it had ended."""
    name = WorkKey(company, EndSessionPayload.task, session_key)
    payload = EndSessionPayload(company=company, agent_id=agent_id, session_key=session_key)
    item = new_item(name, payload, now=now, agent_id=agent_id)
    if add_items(connection, [item | {"dispatch_after": until}]):
        return
    move(connection, "replay", is_item(name), now=now, attempt=0, reason=None)
    # One that a worker ends now is put off by that worker.
    is_ready = is_item(name) & work_items.c.state.in_((WorkState.AVAILABLE.value, WorkState.WAITING.value))
    connection.execute(update(work_items).where(is_ready).values(dispatch_after=until, dispatches=0))


def _drop_held(connection: Connection, company: str, session_key: str, *, reason: str) -> int:
    its = equals(candidates, company=company, session_key=session_key, state="held")
    return connection.execute(update(candidates).where(its).values(state="dropped", reason=reason)).rowcount


def _held(row: Mapping[Any, Any]) -> HeldCandidate:
    body = unpack("a candidate", row["body"])
    return HeldCandidate(
        candidate_id=row["candidate_id"],
        layer=Layer(row["layer"]),
        candidate=_CANDIDATE.validate_python(body["candidate"], extra="ignore"),
        decision=Decision.model_validate(body["decision"], extra="ignore"),
        turn_id=row["turn_id"],
        created_at=row["created_at"],
        origin=body.get("origin"),
    )
