"""The sweep's part in lessons: a lost message is found, and what is old goes."""

from datetime import timedelta

import pytest
from support.execution_traces import trace
from support.fake_summarizer import FakeSummarizer
from support.job_contexts import ScriptedContext
from support.ledger_records import StoppedClock, finish_lesson, open_lesson

from memcore.config.policy import Policy
from memcore.jobs import AppliedPayload, LessonPayload
from memcore.ledger.learning.trajectories import Trajectory
from memcore.ledger.work_items import REDISPATCH_AFTER
from scheduler.sweep import expire_lessons, sweep
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


def test_what_is_older_than_the_policy_keeps_goes(job_context: ScriptedContext, clock: StoppedClock) -> None:
    job_context.policy = Policy.model_validate({"memory": {"procedural": {"evolver": {"keep_days": 40}}}})

    def learned(name: str) -> None:
        made = Trajectory.of(trace(ended_at=clock()), trace_id=name, agent_id="ada")
        job_context.ledger.trajectories.append("acme", made, lesson_at=clock())
        applied = AppliedPayload(
            company="acme", agent_id="ada", application_id=name, skill_id="s", outcome="success", applied_at=clock()
        )
        assert job_context.ledger.skills.apply(applied, skill_id="s")

    learned("old")
    clock.advance(timedelta(days=1))
    learned("new")
    clock.advance(timedelta(days=39, seconds=1))
    expire_lessons(job_context)
    assert job_context.ledger.trajectories.get("acme", "old") is None
    assert job_context.ledger.lessons.get("acme", "old") is None
    assert job_context.ledger.trajectories.get("acme", "new") is not None
    assert job_context.ledger.lessons.get("acme", "new") is not None
    # The single application is forgotten, and stays counted.
    assert job_context.ledger.skills.expire_applications("acme", before=clock()) == 1
    assert job_context.ledger.skills.applications("acme", ["s"])["s"].applications == 2
