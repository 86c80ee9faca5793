"""The sweep's part in lessons: a lost message is found."""

import pytest
from support.fake_summarizer import FakeSummarizer
from support.job_contexts import ScriptedContext
from support.ledger_records import StoppedClock, finish_lesson, open_lesson

from memcore.jobs import LessonPayload
from memcore.ledger.work_items import REDISPATCH_AFTER
from scheduler.sweep import sweep
from workers.celery_task import perform


@pytest.fixture(autouse=True)
def _learning(job_context: ScriptedContext) -> None:
    job_context.model = FakeSummarizer()


def test_a_lost_message_is_sent_again_until_the_lesson_is_drawn(
    job_context: ScriptedContext, clock: StoppedClock
) -> None:
    open_lesson(job_context.ledger, "acme", "ada", "l-1")
    perform(sweep, "{}", job_context)
    assert job_context.dispatcher.items == []
    clock.advance(REDISPATCH_AFTER)
    perform(sweep, "{}", job_context)
    perform(sweep, "{}", job_context)
    (item,) = job_context.dispatcher.items
    message = LessonPayload.model_validate_json(item.payload or "")
    assert message == LessonPayload(company="acme", agent_id="ada", lesson_id="l-1")
    finish_lesson(job_context.ledger, "acme", "l-1", "stored")
    clock.advance(REDISPATCH_AFTER * 9)
    perform(sweep, "{}", job_context)
    assert job_context.dispatcher.items == [item]


def test_without_a_model_no_lesson_is_dispatched(job_context: ScriptedContext, clock: StoppedClock) -> None:
    open_lesson(job_context.ledger, "acme", "ada", "l-1")
    clock.advance(REDISPATCH_AFTER)
    model, job_context.model = job_context.model, None
    perform(sweep, "{}", job_context)
    assert job_context.dispatcher.items == []
    job_context.model = model
    perform(sweep, "{}", job_context)
    assert [each.key for each in job_context.dispatcher.items] == ["l-1"]
