"""Calls and views of a company's conversations; see test_companies."""

from collections.abc import Callable, Iterable
from datetime import timedelta

import numpy as np

from memcore.errors import LeaseLostError, MemoryNotFoundError
from memcore.ledger.conversation.memory import Commit, Embedded, Searchable, StaleOwnerError
from memcore.ledger.conversation.turns import Session, Turn
from memcore.ledger.ledger import Ledger
from memcore.models.conversation import CrisisLogRecord, FactState, SessionFeedbackRecord
from support.conversations import ADA, IDLE, arc, fact, held, rule, session_key, turn_payload, write
from support.ledger_records import COMPANY, StoppedClock

#: Later than every row, and than its retention.
LATE = timedelta(days=400)

Call = Callable[[Ledger, StoppedClock, str], object]

#: The first company's turn and session, at which the other one aims.
TURN, KEY = f"turn of {COMPANY}", session_key()

VECTOR = Embedded("space", np.array([1.0, 0.0], np.float32))

OF = {**ADA.model_dump(), "session_id": "s-1"}


def _said(ledger: Ledger, clock: StoppedClock, company: str) -> object:
    payload = turn_payload(f"turn of {company}", company=company, at=clock())
    return ledger.turns.record(payload, idle=IDLE)


def _kept(ledger: Ledger, _clock: StoppedClock, company: str) -> object:
    commit = Commit(
        facts=(fact(f"fact of {company}"), fact(f"another fact of {company}", unsure_with=(f"fact of {company}",))),
        rules=(rule(f"rule of {company}"),),
        arc=arc("s-1"),
        vectors={"s-1": VECTOR},
    )
    return write(ledger, commit, company=company)


def _refused(call: Callable[[], object]) -> object:
    try:
        return call()
    except (LeaseLostError, MemoryNotFoundError, StaleOwnerError) as refused:
        return str(refused)


def _before_a_later_turn(ledger: Ledger, _clock: StoppedClock, company: str) -> object:
    turn = ledger.turns.get(COMPANY, TURN)
    later = turn and turn.model_copy(update={"at": turn.at + timedelta(hours=1)})
    return later and ledger.turns.before(company, later, limit=9)


def _turn_settled(ledger: Ledger, _clock: StoppedClock, company: str) -> object:
    turn = ledger.turns.get(COMPANY, TURN)
    assert isinstance(turn, Turn)
    version = ledger.conversation.state(company, ADA).version
    return _refused(
        lambda: ledger.turns.settle(
            turn, company, turn.token or "none", Commit(bumped=[f"fact of {COMPANY}"]),
            [held(f"candidate of {company}", TURN)], {}, expected=version, max_rules=1,
        )
    )  # fmt: skip


def _session_settled(ledger: Ledger, _clock: StoppedClock, company: str) -> object:
    session = ledger.sessions.get(COMPANY, KEY)
    assert isinstance(session, Session)
    version = ledger.conversation.state(company, ADA).version
    return _refused(
        lambda: ledger.sessions.settle(
            session, company, session.token or "none", Commit(), {}, {},
            expected=version, max_rules=1, idle=IDLE,
        )
    )  # fmt: skip


def _crisis(ledger: Ledger, clock: StoppedClock, company: str) -> object:
    said = {"record_id": f"crisis of {company}", "level": "high", "path": "model", "action": "a call", "at": clock()}
    return ledger.crises.record(company, CrisisLogRecord.model_validate({**OF, **said}))


def _feedback(ledger: Ledger, clock: StoppedClock, company: str) -> object:
    said = {"record_id": f"feedback of {company}", "label": "helpful", "source": "person", "at": clock()}
    return ledger.feedback.record(company, SessionFeedbackRecord.model_validate({**OF, **said}))


#: Calls that write.
WRITES: dict[str, Call] = {
    "turns.record": _said,
    "turns.settle": _turn_settled,
    "turns.expire": lambda ledger, clock, c: ledger.turns.expire(c, before=clock() + LATE),
    "sessions.close_now": lambda ledger, clock, c: ledger.sessions.close_now(c, KEY, at=clock()),
    "sessions.settle": _session_settled,
    "conversation.write": _kept,
    "conversation.set_recall": lambda ledger, _, c: ledger.conversation.set_recall(c, ADA, is_on=False),
    "conversation.change_state": lambda ledger, _, c: ledger.conversation.change_state(
        c, ADA, [f"fact of {COMPANY}"], to=FactState.FORGOTTEN, sources=list(FactState)
    ),
    "conversation.supersede": lambda ledger, _, c: ledger.conversation.supersede(
        c, ADA, f"fact of {COMPANY}", f"another fact of {COMPANY}"
    ),
    "conversation.both_hold": lambda ledger, _, c: ledger.conversation.both_hold(
        c, ADA, f"fact of {COMPANY}", f"another fact of {COMPANY}"
    ),
    "conversation.age": lambda ledger, clock, c: ledger.conversation.age(c, before=clock() + LATE),
    "crises.record": _crisis,
    "crises.expire": lambda ledger, clock, c: ledger.crises.expire(c, before=clock() + LATE),
    "feedback.record": _feedback,
    "feedback.expire": lambda ledger, clock, c: ledger.feedback.expire(c, before=clock() + LATE),
}

#: What the first company begins with, in this order.
BEGUN = ("turns.record", "turns.claim", "conversation.write", "crises.record", "feedback.record")


def _without_vectors(found: Iterable[Searchable]) -> list[tuple[object, object]]:
    return [(each.entry, each.embedded and each.embedded.space) for each in found]


#: Calls that read.
VIEWS: dict[str, Call] = {
    "conversation.state": lambda ledger, _, c: ledger.conversation.state(c, ADA),
    "conversation.facts": lambda ledger, _, c: ledger.conversation.facts(c, ADA, states=list(FactState)),
    "conversation.fact": lambda ledger, _, c: ledger.conversation.fact(c, ADA, f"fact of {COMPANY}"),
    "conversation.unsure": lambda ledger, _, c: ledger.conversation.unsure(c, ADA.agent_id),
    "conversation.find": lambda ledger, _, c: ledger.conversation.find(c, f"fact of {COMPANY}"),
    "conversation.newest": lambda ledger, _, c: ledger.conversation.newest(c, ADA, limit=9),
    "conversation.searchable": lambda ledger, _, c: _without_vectors(ledger.conversation.searchable(c, ADA)),
    "conversation.rules": lambda ledger, _, c: ledger.conversation.rules(c, ADA, states=list(FactState)),
    "conversation.arcs": lambda ledger, _, c: _without_vectors(ledger.conversation.arcs(c, ADA)),
    "conversation.arc": lambda ledger, _, c: ledger.conversation.arc(c, ADA, "s-1"),
    "conversation.listed_arcs": lambda ledger, _, c: ledger.conversation.listed_arcs(c, ADA),
    "conversation.counts": lambda ledger, _, c: ledger.conversation.counts(c, ADA),
    "conversation.subjects": lambda ledger, _, c: ledger.conversation.subjects(c, ADA.agent_id),
    "turns.get": lambda ledger, _, c: ledger.turns.get(c, TURN),
    "turns.item": lambda ledger, _, c: ledger.turns.item(c, TURN),
    "turns.of_session": lambda ledger, _, c: ledger.turns.of_session(c, KEY),
    "turns.before": _before_a_later_turn,
    "turns.waiting": lambda ledger, _, c: ledger.turns.waiting(c, KEY),
    "turns.is_private": lambda ledger, clock, c: ledger.turns.is_private(c, KEY, at=clock()),
    "sessions.get": lambda ledger, _, c: ledger.sessions.get(c, KEY),
    "sessions.item": lambda ledger, _, c: ledger.sessions.item(c, KEY),
    "sessions.page": lambda ledger, _, c: ledger.sessions.page(c, ADA),
    "sessions.held": lambda ledger, _, c: ledger.sessions.held(c, KEY),
    "sessions.held_before": lambda ledger, _, c: ledger.sessions.held_before(c, ADA, "another"),
    "sessions.ended_candidates": lambda ledger, _, c: ledger.sessions.ended_candidates(c, KEY),
    "crises.page": lambda ledger, _, c: ledger.crises.page(c, ADA.agent_id),
    "feedback.page": lambda ledger, _, c: ledger.feedback.page(c, ADA.agent_id),
}
