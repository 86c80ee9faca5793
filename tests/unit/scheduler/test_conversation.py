"""The scheduler's part in conversations: idle sessions end, lost messages are found, old texts go."""

from datetime import timedelta
from typing import Any

import pytest
from support.conversation_fixture import OWNER, ConversationFixture
from support.fake_summarizer import FakeSummarizer
from support.job_contexts import ScriptedContext
from support.ledger_records import COMPANY, StoppedClock
from support.table_model import extracted, fact

from memcore.config.policy import Policy
from memcore.jobs import EndSessionPayload, ExtractPayload
from memcore.ledger.work_items import REDISPATCH_AFTER
from memcore.models.conversation import CrisisLogRecord, FactState, SessionFeedbackRecord
from scheduler.expire import expire
from scheduler.sweep import sweep
from workers.celery_task import perform


@pytest.fixture
def talk(job_context: ScriptedContext, clock: StoppedClock) -> ConversationFixture:
    job_context.model = FakeSummarizer()
    return ConversationFixture(job_context.ledger, clock)


def swept(job_context: ScriptedContext, kind: Any) -> list[tuple[str, str]]:
    job_context.dispatcher.items.clear()
    perform(sweep, "{}", job_context)
    return job_context.dispatcher.dispatched_for(kind)


def test_a_lost_message_of_a_turn_is_sent_again(
    job_context: ScriptedContext, clock: StoppedClock, talk: ConversationFixture
) -> None:
    turn_id = talk.said("I live in Berlin")
    assert swept(job_context, ExtractPayload) == []
    clock.advance(REDISPATCH_AFTER)
    assert swept(job_context, ExtractPayload) == [("acme", turn_id)]


async def test_an_idle_session_ends_by_the_sweep(
    job_context: ScriptedContext, clock: StoppedClock, talk: ConversationFixture
) -> None:
    await talk.drawn("I live in Berlin")
    clock.now = talk.session().last_turn_at + timedelta(minutes=20) - timedelta(seconds=1)
    assert swept(job_context, EndSessionPayload) == []
    clock.advance(timedelta(seconds=1))
    assert swept(job_context, EndSessionPayload) == [("acme", talk.key())]
    await talk.ending().run(talk.key())
    assert talk.session().ended_at == clock()
    clock.advance(timedelta(days=1))
    assert swept(job_context, EndSessionPayload) == []


def test_without_a_model_neither_is_dispatched(
    job_context: ScriptedContext, clock: StoppedClock, talk: ConversationFixture
) -> None:
    turn_id = talk.said("I live in Berlin")
    talk.close()
    clock.advance(timedelta(hours=1))
    model, job_context.model = job_context.model, None
    assert swept(job_context, ExtractPayload) == swept(job_context, EndSessionPayload) == []
    job_context.model = model
    assert swept(job_context, ExtractPayload) == [("acme", turn_id)]
    assert [key for _, key in job_context.dispatcher.dispatched_for(EndSessionPayload)] == [talk.key()]


def expiring(job_context: ScriptedContext, **conversation: Any) -> None:
    job_context.policy = Policy.model_validate({"memory": {"conversation": conversation}})
    perform(expire, "{}", job_context)


async def test_texts_go_some_hours_behind_the_end_of_their_session(
    job_context: ScriptedContext, clock: StoppedClock, talk: ConversationFixture
) -> None:
    ended = await talk.drawn("I live in Berlin", session_id="s-1")
    waiting = talk.said("I live in Rome", session_id="s-2")
    clock.advance(timedelta(seconds=1))
    await talk.end("s-1")
    clock.advance(timedelta(hours=3))
    expiring(job_context, transcript_hours=3)
    assert talk.turn(ended.turn_id).user_text == "I live in Berlin"
    clock.advance(timedelta(seconds=1))
    expiring(job_context, transcript_hours=4)
    assert talk.turn(ended.turn_id).user_text == "I live in Berlin"
    expiring(job_context, transcript_hours=3)
    assert talk.turn(ended.turn_id).user_text is None
    # A model has still to be asked about it.
    assert talk.turn(waiting).user_text == "I live in Rome"


async def test_what_was_replaced_and_old_summaries_are_archived(
    job_context: ScriptedContext, clock: StoppedClock, talk: ConversationFixture
) -> None:
    talk.table.extract = {city: extracted(fact(f"I live in {city}", city)) for city in ("Berlin", "Rome")}
    talk.table.reconcile["Rome"] = {"facts": [{"number": 1, "action": "supersede", "known": [1], "confidence": "high"}]}
    for text in ("I live in Berlin", "I live in Rome", "three"):
        await talk.drawn(text)
    await talk.end()
    clock.advance(timedelta(days=10) - timedelta(minutes=1))
    expiring(job_context, archive_days=10)
    assert (list(talk.facts(FactState.SUPERSEDED)), talk.summaries()) == (["Berlin"], ["They talked."])
    clock.advance(timedelta(minutes=1))
    expiring(job_context, archive_days=10)
    assert list(talk.facts(FactState.ARCHIVED)) == ["Berlin"]
    assert talk.summaries() == ["They talked."], "the latest summary stays, however old"
    assert list(talk.facts()) == ["Rome"]


def test_records_of_crises_and_feedback_go_by_their_own_days(
    job_context: ScriptedContext, clock: StoppedClock, talk: ConversationFixture
) -> None:
    whose: dict[str, Any] = {"record_id": "r", **OWNER.model_dump(), "session_id": "s", "at": clock()}
    ledger = talk.ledger
    ledger.crises.record(
        COMPANY, CrisisLogRecord.model_validate({**whose, "level": "high", "path": "model", "action": "x"})
    )
    ledger.feedback.record(
        COMPANY, SessionFeedbackRecord.model_validate({**whose, "label": "helpful", "source": "person"})
    )
    clock.advance(timedelta(days=5, seconds=1))

    def left() -> tuple[int, int]:
        return len(ledger.crises.page(COMPANY, "ada")), len(ledger.feedback.page(COMPANY, "ada"))

    expiring(job_context, crisis_days=6, feedback_days=6)
    assert left() == (1, 1)
    expiring(job_context, crisis_days=5, feedback_days=6)
    assert left() == (0, 1)
    expiring(job_context, crisis_days=6, feedback_days=5)
    assert left() == (0, 0)
