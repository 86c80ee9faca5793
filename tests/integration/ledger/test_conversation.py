"""Conversation memory in the ledger: one transaction for what a step decides, fenced; nobody reads another's."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import numpy as np
import pytest
from support.conversations import (
    ADA,
    IDLE,
    LEASE,
    arc,
    claimed_turn,
    fact,
    held,
    record_turn,
    rule,
    session_key,
    turn_payload,
    write,
)
from support.ledger_records import COMPANY, StoppedClock
from support.memories import DAWN
from support.present import present

from memcore.errors import LeaseLostError
from memcore.jobs import EndSessionPayload, ExtractPayload
from memcore.ledger.conversation.memory import Commit, Embedded, StaleOwnerError
from memcore.ledger.conversation.turns import CandidateEnd, Control, Session
from memcore.ledger.ledger import Ledger
from memcore.ledger.work_items import WorkState
from memcore.models.conversation import (
    CrisisLogRecord,
    FactState,
    HeldCandidate,
    LayerCounts,
    Owner,
    SessionFeedbackRecord,
)

MAX_RULES = 20


def _session(ledger: Ledger, session_id: str = "s-1") -> Session:
    return present(ledger.sessions.get(COMPANY, session_key(session_id)))


def _settle(ledger: Ledger, turn_id: str, commit: Commit, *held_back: HeldCandidate, expected: int = 0) -> None:
    turn = claimed_turn(ledger, turn_id)
    ledger.turns.settle(turn, COMPANY, turn.token or "", commit, held_back, {}, expected=expected, max_rules=MAX_RULES)


def test_a_turn_is_recorded_once_and_waits_for_a_model(ledger: Ledger) -> None:
    assert record_turn(ledger, "t-1").is_new
    assert not record_turn(ledger, "t-1").is_new
    turn = present(ledger.turns.get(COMPANY, "t-1"))
    assert (turn.user_text, turn.assistant_text, turn.state) == ("I like tea.", "Noted.", WorkState.AVAILABLE)
    assert "tea" not in repr(turn)
    item = ledger.turns.item(COMPANY, "t-1")
    assert (item.kind, item.queue) == (ExtractPayload.task, "memory.extract")
    assert "tea" not in str(item.payload)
    assert _session(ledger).turns == 1


def test_of_many_who_record_a_turn_one_does(ledger: Ledger) -> None:
    with ThreadPoolExecutor(8) as workers:
        recorded = list(workers.map(lambda _: record_turn(ledger, "t-1"), range(8)))
    assert sum(each.is_new for each in recorded) == 1
    assert _session(ledger).turns == 1


def test_a_session_waits_for_its_end_from_its_last_turn(ledger: Ledger, clock: StoppedClock) -> None:
    record_turn(ledger, "t-1", at=clock())
    clock.advance(timedelta(minutes=15))
    record_turn(ledger, "t-2", at=clock())
    clock.advance(timedelta(minutes=19))
    assert EndSessionPayload.task not in {each.kind for each in ledger.work.take_due(limit=9)}
    clock.advance(timedelta(minutes=1))
    assert EndSessionPayload.task in {each.kind for each in ledger.work.take_due(limit=9)}


def test_a_session_that_is_closed_is_due_at_once_and_only_once(ledger: Ledger, clock: StoppedClock) -> None:
    record_turn(ledger, "t-1", at=clock())
    item = present(ledger.sessions.close_now(COMPANY, session_key(), at=clock()))
    assert item.kind == EndSessionPayload.task
    assert ledger.sessions.close_now(COMPANY, session_key(), at=clock()) is None
    assert ledger.sessions.close_now(COMPANY, "unknown", at=clock()) is None


def test_a_turn_behind_the_end_opens_the_session_again(ledger: Ledger, clock: StoppedClock) -> None:
    record_turn(ledger, "t-1", at=clock())
    _end(ledger)
    assert ledger.sessions.item(COMPANY, session_key()).state is WorkState.DONE
    clock.advance(timedelta(minutes=1))
    record_turn(ledger, "t-2", at=clock())
    session = _session(ledger)
    assert (session.ended_at, session.turns, session.state) == (None, 2, WorkState.AVAILABLE)
    clock.advance(IDLE)
    assert EndSessionPayload.task in {each.kind for each in ledger.work.take_due(limit=9)}


def _end(ledger: Ledger, commit: Commit | None = None, **ended: tuple[CandidateEnd, str]) -> bool:
    session = present(ledger.sessions.claim(COMPANY, session_key(), lease=LEASE))
    version = ledger.conversation.state(COMPANY, ADA).version
    return ledger.sessions.settle(
        session, COMPANY, session.token or "", commit or Commit(), ended, {"writes": 1},
        expected=version, max_rules=MAX_RULES, idle=IDLE,
    )  # fmt: skip


def test_a_turn_that_comes_while_a_session_ends_keeps_it_open(ledger: Ledger, clock: StoppedClock) -> None:
    record_turn(ledger, "t-1", at=clock())
    session = present(ledger.sessions.claim(COMPANY, session_key(), lease=LEASE))
    record_turn(ledger, "t-2", at=clock())
    has_ended = ledger.sessions.settle(
        session, COMPANY, session.token or "", Commit(arc=arc("s-1")), {}, {},
        expected=0, max_rules=MAX_RULES, idle=IDLE,
    )  # fmt: skip
    assert not has_ended
    assert [each.entry.session_id for each in ledger.conversation.arcs(COMPANY, ADA)] == ["s-1"]
    assert (_session(ledger).ended_at, _session(ledger).state) == (None, WorkState.WAITING)
    clock.advance(IDLE)
    assert _end(ledger)
    assert _session(ledger).ended_at == clock()


def test_all_that_comes_of_a_turn_is_written_together_or_not_at_all(ledger: Ledger) -> None:
    record_turn(ledger, "t-1")
    turn = claimed_turn(ledger, "t-1")
    commit = Commit(facts=(fact("f-1"),), rules=(rule("r-1"),))
    with pytest.raises(LeaseLostError):
        ledger.turns.settle(turn, COMPANY, "another", commit, [held("c-1", "t-1")], {}, expected=0, max_rules=MAX_RULES)
    assert ledger.conversation.counts(COMPANY, ADA) == LayerCounts(open_sessions=1, waiting_turns=1)
    ledger.turns.settle(
        turn, COMPANY, turn.token or "", commit, [held("c-1", "t-1")], {"a": 1}, expected=0, max_rules=MAX_RULES
    )
    counts = LayerCounts(semantic=1, procedural=1, held=1, open_sessions=1)
    assert ledger.conversation.counts(COMPANY, ADA) == counts
    (waits,) = ledger.sessions.held(COMPANY, session_key())
    assert waits == held("c-1", "t-1")


def test_who_decided_from_an_older_version_writes_nothing(ledger: Ledger) -> None:
    record_turn(ledger, "t-1")
    assert write(ledger, Commit(facts=(fact("f-0"),))) == 1
    with pytest.raises(StaleOwnerError):
        _settle(ledger, "t-1", Commit(facts=(fact("f-1"),)), expected=0)
    assert [each.fact_id for each in ledger.conversation.facts(COMPANY, ADA)] == ["f-0"]


def test_of_concurrent_writers_none_is_lost_and_versions_have_no_gaps(ledger: Ledger) -> None:
    def add(number: int) -> int:
        while True:
            try:
                return write(ledger, Commit(facts=(fact(f"f-{number}"),)))
            except StaleOwnerError:
                continue

    with ThreadPoolExecutor(8) as workers:
        versions = list(workers.map(add, range(24)))
    assert sorted(versions) == list(range(1, 25))
    written = ledger.conversation.facts(COMPANY, ADA)
    assert sorted(each.version for each in written) == list(range(1, 25))


def test_what_is_superseded_stays_and_says_by_what(ledger: Ledger, clock: StoppedClock) -> None:
    write(ledger, Commit(facts=(fact("old"),), rules=(rule("r-old"),)))
    clock.advance(timedelta(days=1))
    replaced = {"old": "new", "r-old": "r-new"}
    new = Commit(facts=(fact("new", object="coffee"),), rules=(rule("r-new"),), superseded=replaced)
    write(ledger, new)
    assert [each.fact_id for each in ledger.conversation.facts(COMPANY, ADA)] == ["new"]
    (old,) = ledger.conversation.facts(COMPANY, ADA, states=[FactState.SUPERSEDED])
    assert (old.superseded_by, old.changed_at, old.evidence_quote) == ("new", clock(), "I like tea")
    assert [each.rule_id for each in ledger.conversation.rules(COMPANY, ADA)] == ["r-new"]


def test_what_is_said_again_is_noted_and_never_goes_back_in_time(ledger: Ledger, clock: StoppedClock) -> None:
    write(ledger, Commit(facts=(fact("f-1"),), rules=(rule("r-1"),)))
    clock.advance(timedelta(days=1))
    write(ledger, Commit(bumped=["f-1", "r-1"]))
    (bumped,) = ledger.conversation.facts(COMPANY, ADA)
    assert (bumped.last_referenced_at, bumped.created_at) == (clock(), DAWN)
    assert ledger.conversation.rules(COMPANY, ADA)[0].last_referenced_at == clock()


def test_the_newest_active_facts_are_read_in_order(ledger: Ledger) -> None:
    facts = [fact(f"f-{n}", created_at=DAWN + timedelta(days=n)) for n in range(4)]
    write(ledger, Commit(facts=(*facts, fact("gone", state=FactState.FORGOTTEN, created_at=DAWN + timedelta(days=9)))))
    assert [each.fact_id for each in ledger.conversation.newest(COMPANY, ADA, limit=2)] == ["f-2", "f-3"]


def test_of_too_many_rules_the_oldest_are_archived_and_none_is_deleted(ledger: Ledger, clock: StoppedClock) -> None:
    for number in range(5):
        at = DAWN + timedelta(days=number)
        write(ledger, Commit(rules=(rule(f"r-{number}", created_at=at, last_referenced_at=at),)), max_rules=3)
    assert [each.rule_id for each in ledger.conversation.rules(COMPANY, ADA)] == ["r-2", "r-3", "r-4"]
    archived = ledger.conversation.rules(COMPANY, ADA, states=[FactState.ARCHIVED])
    assert [(each.rule_id, each.superseded_by) for each in archived] == [("r-0", "eviction"), ("r-1", "eviction")]
    assert archived[0].changed_at == clock()


def test_a_session_has_one_arc_however_often_it_ends(ledger: Ledger) -> None:
    write(ledger, Commit(arc=arc("s-1"), vectors={"s-1": Embedded("space", np.array([0.5, 0.25], np.float32))}))
    write(ledger, Commit(arc=arc("s-1", summary="Ada spoke of coffee.", turns=4)))
    (only,) = ledger.conversation.arcs(COMPANY, ADA)
    assert (only.entry.version, only.embedded) == (2, None)
    assert only.entry.model_dump()["summary"] == "Ada spoke of coffee."


def test_vectors_come_back_as_they_were_written(ledger: Ledger) -> None:
    vector = np.array([0.5, -0.25, 1.0], np.float32)
    write(ledger, Commit(facts=(fact("f-1"), fact("f-2")), vectors={"f-1": Embedded("static/3", vector)}))
    first, second = ledger.conversation.searchable(COMPANY, ADA)
    assert first.embedded is not None
    assert first.embedded.space == "static/3"
    assert np.array_equal(first.embedded.vector, vector)
    assert second.embedded is None


def test_what_a_person_asks_to_forget_goes_at_once_and_can_come_back(ledger: Ledger) -> None:
    record_turn(ledger, "t-1")
    _settle(ledger, "t-1", Commit(facts=(fact("f-1"),)), held("c-1", "t-1"))
    done = record_turn(ledger, "t-2", control=Control.FORGET, forgotten=("f-1",))
    assert (done.forgotten, done.dropped) == (1, 1)
    assert ledger.conversation.facts(COMPANY, ADA) == ()
    assert ledger.sessions.held(COMPANY, session_key()) == ()
    assert ledger.sessions.ended_candidates(COMPANY, session_key())["c-1"][0] == "dropped"
    assert _session(ledger).is_private
    assert ledger.conversation.counts(COMPANY, ADA).forgotten == 1
    version = ledger.conversation.state(COMPANY, ADA).version
    back = ledger.conversation.change_state(COMPANY, ADA, ["f-1"], to=FactState.ACTIVE, sources=[FactState.FORGOTTEN])
    assert back == 1
    assert [each.fact_id for each in ledger.conversation.facts(COMPANY, ADA)] == ["f-1"]
    assert ledger.conversation.state(COMPANY, ADA).version == version + 1


@pytest.mark.parametrize(("control", "said_after"), [(Control.FORGET, -1), (Control.INCOGNITO, 1)])
def test_no_text_stays_beside_a_request_to_keep_none_whichever_worker_is_first(
    ledger: Ledger, control: Control, said_after: int
) -> None:
    at_once = threading.Barrier(2)

    def record(turn_id: str, session_id: str, minute: int, control: Control | None) -> None:
        at_once.wait(timeout=600)
        at = DAWN + timedelta(minutes=minute)
        record_turn(ledger, turn_id, session_id=session_id, at=at, control=control)

    with ThreadPoolExecutor(2) as workers:
        for number in range(15):
            session_id = f"s-{number}"
            asked = workers.submit(record, f"asked-{number}", session_id, 10, control)
            said = workers.submit(record, f"said-{number}", session_id, 10 + said_after, None)
            asked.result(timeout=600)
            said.result(timeout=600)
            turns = ledger.turns.of_session(COMPANY, session_key(session_id))
            assert [(each.user_text, each.assistant_text) for each in turns] == [(None, None)] * 2


def test_where_a_person_names_what_to_forget_the_rest_of_the_session_stays(ledger: Ledger) -> None:
    record_turn(ledger, "t-1")
    _settle(ledger, "t-1", Commit(facts=(fact("tea"), fact("walnuts"))))
    assert record_turn(ledger, "t-2", control=Control.FORGET, forgotten=("tea",)).forgotten == 1
    assert [each.fact_id for each in ledger.conversation.facts(COMPANY, ADA)] == ["walnuts"]
    assert record_turn(ledger, "t-3", control=Control.FORGET).forgotten == 1
    assert ledger.conversation.facts(COMPANY, ADA) == ()


def test_what_a_person_asked_not_to_keep_supports_no_later_session(ledger: Ledger) -> None:
    record_turn(ledger, "t-1")
    _settle(ledger, "t-1", Commit(), held("c-1", "t-1"))
    assert [each.candidate_id for each in ledger.sessions.held_before(COMPANY, ADA, session_key("s-2"))] == ["c-1"]
    record_turn(ledger, "t-2", control=Control.NOT_THIS)
    assert ledger.sessions.held_before(COMPANY, ADA, session_key("s-2")) == ()


def test_what_a_session_that_goes_on_would_drop_is_held_on(ledger: Ledger, clock: StoppedClock) -> None:
    record_turn(ledger, "t-1", at=clock())
    _settle(ledger, "t-1", Commit(), held("once", "t-1"), held("twice", "t-1", object="figs"))
    session = present(ledger.sessions.claim(COMPANY, session_key(), lease=LEASE))
    record_turn(ledger, "t-2", at=clock())
    ends: dict[str, tuple[CandidateEnd, str]] = {"once": ("dropped", "said once"), "twice": ("promoted", "said twice")}
    assert not ledger.sessions.settle(
        session, COMPANY, session.token or "", Commit(), ends, {}, expected=0, max_rules=MAX_RULES, idle=IDLE
    )
    assert [each.candidate_id for each in ledger.sessions.held(COMPANY, session_key())] == ["once"]


def test_what_has_aged_is_archived_and_what_holds_stays(ledger: Ledger, clock: StoppedClock) -> None:
    write(ledger, Commit(facts=(fact("old"),), arc=arc("s-1")))
    write(ledger, Commit(arc=arc("s-2", ended_at=DAWN + timedelta(days=1))))
    write(ledger, Commit(facts=(fact("new"),), superseded={"old": "new"}))
    assert ledger.conversation.age(COMPANY, before=DAWN) == 0
    clock.advance(timedelta(days=200))
    assert ledger.conversation.age(COMPANY, before=clock() - timedelta(days=180)) == 2
    assert [each.fact_id for each in ledger.conversation.facts(COMPANY, ADA)] == ["new"]
    assert [each.entry.session_id for each in ledger.conversation.arcs(COMPANY, ADA)] == ["s-2"], "the latest stays"
    assert ledger.conversation.counts(COMPANY, ADA) == LayerCounts(semantic=1, episodic=1, archived=2)


def test_the_text_of_turns_goes_behind_the_end_of_their_session(ledger: Ledger, clock: StoppedClock) -> None:
    record_turn(ledger, "t-1")
    record_turn(ledger, "t-2")
    _settle(ledger, "t-1", Commit())
    assert _end(ledger)
    clock.advance(timedelta(days=2))
    assert ledger.turns.expire(COMPANY, before=clock()) == 1
    asked, waits = ledger.turns.of_session(COMPANY, session_key())
    assert (asked.user_text, waits.user_text) == (None, "I like tea.")
    assert ledger.turns.waiting(COMPANY, session_key()) == 1
    assert (ledger.turns.unanswered(COMPANY) or (0,))[0] == 1
    assert ledger.turns.unanswered("another") is None


def test_recall_is_on_until_somebody_turns_it_off(ledger: Ledger) -> None:
    assert ledger.conversation.state(COMPANY, ADA).recall
    ledger.conversation.set_recall(COMPANY, ADA, is_on=False)
    write(ledger, Commit(facts=(fact("f-1"),)))
    assert not ledger.conversation.state(COMPANY, ADA).recall


@pytest.mark.parametrize(
    ("company", "owner"),
    [
        (COMPANY, Owner(agent_id="guide", subject="user:eve")),
        (COMPANY, Owner(agent_id="guide", subject="session:ada")),
        (COMPANY, Owner(agent_id="other", subject="user:ada")),
        ("globex", ADA),
    ],
)
def test_nobody_reads_or_changes_the_memory_of_another(ledger: Ledger, company: str, owner: Owner) -> None:
    record_turn(ledger, "t-1")
    _settle(ledger, "t-1", Commit(facts=(fact("f-1"),), rules=(rule("r-1"),), arc=arc("s-1")), held("c-1", "t-1"))
    memory = ledger.conversation
    assert not (memory.facts(company, owner))
    assert not (memory.rules(company, owner))
    assert not (memory.arcs(company, owner))
    assert memory.searchable(company, owner) == ()
    assert memory.fact(company, owner, "f-1") is None
    assert memory.counts(company, owner) == LayerCounts()
    assert ledger.sessions.held(company, session_key("s-1", owner, company=company)) == ()
    assert ledger.sessions.page(company, owner) == ()
    assert ledger.sessions.held_before(company, owner, "none") == ()
    states = [FactState.ACTIVE]
    assert not memory.change_state(company, owner, ["f-1", "r-1", "s-1"], to=FactState.FORGOTTEN, sources=states)
    write(ledger, Commit(superseded={"f-1": "f-2"}, bumped=["f-1"]), owner=owner, company=company)
    assert memory.counts(COMPANY, ADA) == LayerCounts(semantic=1, episodic=1, procedural=1, held=1, open_sessions=1)


def test_crises_and_feedback_are_kept_apart_and_expire_by_themselves(ledger: Ledger, clock: StoppedClock) -> None:
    of = {**ADA.model_dump(), "session_id": "s-1", "at": clock()}
    said = {"record_id": "c-1", "level": "high", "path": "model", "action": "showed the hotline", **of}
    crisis = CrisisLogRecord.model_validate(said)
    said = {"record_id": "f-1", "label": "helpful", "source": "person", "comment": "ta!", **of}
    thought = SessionFeedbackRecord.model_validate(said)
    assert ledger.crises.record(COMPANY, crisis)
    assert not ledger.crises.record(COMPANY, crisis)
    assert ledger.feedback.record(COMPANY, thought)
    assert ledger.crises.page(COMPANY, "guide") == (crisis,)
    assert ledger.feedback.page(COMPANY, "guide") == (thought,)
    assert not (ledger.crises.page("globex", "guide"))
    assert not (ledger.feedback.page(COMPANY, "other"))
    clock.advance(timedelta(days=1))
    assert ledger.crises.expire(COMPANY, before=clock()) == ledger.feedback.expire(COMPANY, before=clock()) == 1


def test_subjects_are_listed_by_name(ledger: Ledger) -> None:
    for subject in ("user:eve", "user:ada"):
        owner = Owner(agent_id="guide", subject=subject)
        ledger.turns.record(turn_payload(f"t-{subject}", owner=owner), idle=IDLE)
    assert ledger.conversation.subjects(COMPANY, "guide") == ("user:ada", "user:eve")
    assert ledger.conversation.subjects(COMPANY, "guide", after="user:ada") == ("user:eve",)
