"""The four jobs of conversations, and what a dead letter keeps of a turn."""

import json
from datetime import timedelta
from typing import Any

import pytest
from support.fake_summarizer import FakeSummarizer
from support.job_contexts import RecordingService, ScriptedContext
from support.ledger_records import StoppedClock
from support.present import present

from memcore import ids
from memcore.config.policy import Policy
from memcore.conversation.ending import EndingService
from memcore.conversation.turns import ExtractionService
from memcore.errors import MemoryConnectionError
from memcore.jobs import (
    CloseSessionPayload,
    Dead,
    Deferred,
    Done,
    EndSessionPayload,
    ExtractPayload,
    Retry,
    Skipped,
    Snooze,
    TurnPayload,
)
from memcore.ledger.dead_letters import kept_of
from memcore.models.conversation import Owner
from tasks.converse import close_session, end_session, extract_turn, record_turn
from workers.celery_task import perform

CANARY = "Zanzibar-4711"
KEY = ids.session_key(company="acme", agent_id="ada", subject="user:mia", session_id="s-1")
WHOSE: dict[str, Any] = {"company": "acme", "agent_id": "ada", "subject": "user:mia", "session_id": "s-1"}


@pytest.fixture(autouse=True)
def _with_a_model(job_context: ScriptedContext) -> None:
    job_context.model = FakeSummarizer()


def turn(clock: StoppedClock, **changed: Any) -> str:
    given = {"turn_id": "turn-1", "user_text": f"I live in {CANARY}", "assistant_text": "I see", "at": clock()}
    return TurnPayload(**{**WHOSE, **given, **changed}).model_dump_json()


def close(clock: StoppedClock) -> str:
    return CloseSessionPayload(**WHOSE, at=clock()).model_dump_json()


def test_a_turn_is_recorded_once_and_its_work_is_dispatched_once(
    job_context: ScriptedContext, clock: StoppedClock
) -> None:
    assert perform(record_turn, turn(clock), job_context) == Done(facts={"recorded": 1, "known": 0})
    (item,) = job_context.dispatcher.items
    assert ExtractPayload.model_validate_json(item.payload or "") == ExtractPayload(
        company="acme", agent_id="ada", turn_id="turn-1"
    )
    assert CANARY not in str(item)
    assert perform(record_turn, turn(clock), job_context) == Done(facts={"recorded": 0, "known": 1})
    assert len(job_context.dispatcher.items) == 1
    found = present(job_context.ledger.turns.get("acme", "turn-1"))
    assert (found.user_text, found.assistant_text, found.at) == (f"I live in {CANARY}", "I see", clock())
    assert job_context.ledger.agents.get("acme", "ada") is not None, "runs are scheduled"


def test_without_a_model_the_turn_is_recorded_and_nothing_is_dispatched(
    job_context: ScriptedContext, clock: StoppedClock
) -> None:
    job_context.model = None
    assert isinstance(perform(record_turn, turn(clock), job_context), Done)
    assert job_context.dispatcher.items == []
    assert job_context.ledger.turns.waiting("acme", KEY) == 1


def test_a_broker_that_is_away_costs_no_turn(
    job_context: ScriptedContext, clock: StoppedClock, caplog: pytest.LogCaptureFixture
) -> None:
    job_context.dispatcher.error = MemoryConnectionError("gone")
    assert isinstance(perform(record_turn, turn(clock), job_context), Done)
    assert job_context.ledger.turns.waiting("acme", KEY) == 1
    assert "conversation.work_waits" in caplog.messages


def test_a_level_that_keeps_nothing_records_no_text(job_context: ScriptedContext, clock: StoppedClock) -> None:
    job_context.policy = Policy.model_validate({"memory": {"level": "none"}})
    assert isinstance(perform(record_turn, turn(clock), job_context), Skipped)
    assert job_context.ledger.turns.get("acme", "turn-1") is None


def test_the_policys_minutes_are_those_of_the_session(job_context: ScriptedContext, clock: StoppedClock) -> None:
    job_context.policy = Policy.model_validate({"memory": {"conversation": {"idle_minutes": 7}}})
    perform(record_turn, turn(clock), job_context)
    assert job_context.ledger.sessions.item("acme", KEY).dispatch_after == clock() + timedelta(minutes=7)


def test_a_request_to_forget_counts_what_goes(job_context: ScriptedContext, clock: StoppedClock) -> None:
    outcome = perform(record_turn, turn(clock, user_text="forget what I said"), job_context)
    assert outcome == Done(facts={"recorded": 1, "known": 0, "forgotten": 0, "dropped": 0})


def test_a_session_is_closed_once_and_its_end_dispatched(job_context: ScriptedContext, clock: StoppedClock) -> None:
    perform(record_turn, turn(clock), job_context)
    clock.advance(timedelta(seconds=1))
    assert perform(close_session, close(clock), job_context) == Done(facts={"closed": 1})
    assert job_context.dispatcher.dispatched_for(EndSessionPayload) == [("acme", KEY)]
    session = present(job_context.ledger.sessions.get("acme", KEY))
    assert session.ended_at == clock()
    assert perform(close_session, close(clock), job_context) == Skipped(reason="this session has ended")
    assert len(job_context.dispatcher.dispatched_for(EndSessionPayload)) == 1


def test_an_end_that_overtakes_the_first_turn_of_its_session_waits_for_it(
    job_context: ScriptedContext, clock: StoppedClock
) -> None:
    said, ended = turn(clock), close(clock)
    assert isinstance(perform(close_session, ended, job_context), Retry)
    perform(record_turn, said, job_context)
    assert perform(close_session, ended, job_context) == Done(facts={"closed": 1})


def test_an_end_that_overtakes_a_later_turn_stays_the_end(job_context: ScriptedContext, clock: StoppedClock) -> None:
    perform(record_turn, turn(clock), job_context)
    clock.advance(timedelta(seconds=1))
    said, ended = turn(clock, turn_id="turn-2"), close(clock)
    perform(close_session, ended, job_context)
    clock.advance(timedelta(seconds=3))
    perform(record_turn, said, job_context)
    session = present(job_context.ledger.sessions.get("acme", KEY))
    assert (session.turns, session.ended_at) == (2, clock() - timedelta(seconds=3))


def test_an_end_of_an_unknown_session_is_given_up(job_context: ScriptedContext, clock: StoppedClock) -> None:
    ended = close(clock)
    clock.advance(timedelta(minutes=1))
    assert perform(close_session, ended, job_context) == Skipped(reason="no turn of this session is known")


@pytest.mark.parametrize(
    ("job", "kind", "payload", "key"),
    [
        (extract_turn, ExtractionService, ExtractPayload(company="acme", agent_id="ada", turn_id="turn-1"), "turn-1"),
        (end_session, EndingService, EndSessionPayload(company="acme", agent_id="ada", session_key=KEY), KEY),
    ],
)
def test_the_jobs_that_ask_a_model_make_one_call(
    job_context: ScriptedContext, job: Any, kind: type, payload: Any, key: str
) -> None:
    service = RecordingService(Deferred(reason="the budget is spent"))
    job_context.services[kind] = service
    assert perform(job, payload.model_dump_json(), job_context) == Deferred(reason="the budget is spent")
    assert service.keys == [key]
    assert job.is_repeated, "the row sends it again"


@pytest.mark.parametrize("job", [record_turn, close_session, extract_turn, end_session])
def test_a_newer_payload_waits_and_a_broken_one_is_dead(job_context: ScriptedContext, job: Any) -> None:
    assert isinstance(perform(job, '{"company": "acme", "version": 99}', job_context), Snooze)
    assert isinstance(perform(job, '{"company": "acme"}', job_context), Dead)


def test_a_dead_letter_of_a_turn_keeps_its_envelope_and_no_text(clock: StoppedClock) -> None:
    whole = json.loads(turn(clock))
    kept = json.loads(kept_of(TurnPayload, json.dumps({**whole, CANARY: 1})))
    assert kept == {
        **{name: value for name, value in whole.items() if not name.endswith("_text")},
        "user_text_chars": len(whole["user_text"]),
        "assistant_text_chars": len(whole["assistant_text"]),
    }
    broken = [f'{{"user_text": "{CANARY}', f'["{CANARY}"]', "", '{"user_text": {"a": "' + CANARY + '"}}', "\ud800"]
    for text in broken:
        assert CANARY not in kept_of(TurnPayload, text)
        json.loads(kept_of(TurnPayload, text))


def test_other_dead_letters_keep_all(clock: StoppedClock) -> None:
    assert kept_of(CloseSessionPayload, close(clock)) == close(clock)


def test_the_agent_of_a_turn_has_its_own_memory_of_the_person(
    job_context: ScriptedContext, clock: StoppedClock
) -> None:
    for agent_id in ("ada", "bo"):
        perform(record_turn, turn(clock, agent_id=agent_id, turn_id=f"turn of {agent_id}"), job_context)
    sessions = job_context.ledger.sessions
    for agent_id in ("ada", "bo"):
        (session,) = sessions.page("acme", Owner(agent_id=agent_id, subject="user:mia"))
        assert session.turns == 1
