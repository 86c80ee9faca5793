"""The sweep's part in lessons: a lost message is found, and what is old goes."""

from datetime import timedelta

import pytest
from support.execution_traces import trace
from support.fake_summarizer import FakeSummarizer
from support.job_contexts import ScriptedContext
from support.ledger_records import StoppedClock, open_lesson

from memcore.config.policy import Policy
from memcore.jobs import AppliedPayload, LessonPayload
from memcore.ledger.learning.trajectories import Trajectory
from scheduler import sweep as sweeping_services
from scheduler.sweep import UNDRAWN_TOO_LONG, sweep, sweep_lessons


@pytest.fixture(autouse=True)
def _learning(job_context: ScriptedContext) -> None:
    job_context.model = FakeSummarizer()


def dispatched(job_context: ScriptedContext) -> list[str]:
    return [each.lesson_id for each in job_context.dispatcher.lessons]


def test_a_lost_message_is_sent_again_until_the_lesson_is_drawn(
    job_context: ScriptedContext, clock: StoppedClock
) -> None:
    open_lesson(job_context.ledger, "acme", "ada", "l-1")
    sweep("{}", job_context)
    assert job_context.dispatcher.lessons == []
    clock.advance(UNDRAWN_TOO_LONG + timedelta(seconds=1))
    sweep("{}", job_context)
    sweep("{}", job_context)
    assert job_context.dispatcher.lessons == [LessonPayload(company="acme", agent_id="ada", lesson_id="l-1")]
    clock.advance(UNDRAWN_TOO_LONG + timedelta(seconds=1))
    job_context.ledger.lessons.drawn("acme", "l-1", "stored")
    sweep("{}", job_context)
    assert dispatched(job_context) == ["l-1"]


def test_a_long_queue_is_dispatched_in_parts(
    job_context: ScriptedContext, clock: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping_services, "LESSONS_REDISPATCHED", 2)
    for name in ("a", "b", "c"):
        open_lesson(job_context.ledger, "acme", "ada", name)
        clock.advance(timedelta(seconds=1))
    clock.advance(UNDRAWN_TOO_LONG)
    assert [sweep_lessons(job_context), sweep_lessons(job_context), sweep_lessons(job_context)] == [2, 1, 0]
    assert dispatched(job_context) == ["a", "b", "c"]


@pytest.mark.parametrize("why", ["no model", "switched off", "paused"])
def test_no_lesson_is_dispatched_that_could_not_be_drawn(
    job_context: ScriptedContext, clock: StoppedClock, why: str
) -> None:
    open_lesson(job_context.ledger, "acme", "ada", "l-1")
    clock.advance(UNDRAWN_TOO_LONG * 2)
    if why == "no model":
        job_context.model = None
    elif why == "switched off":
        job_context.policy = Policy.model_validate({"memory": {"procedural": {"enabled": False}}})
    else:
        job_context.ledger.companies.pause("acme")
    assert sweep_lessons(job_context) == 0
    assert job_context.dispatcher.lessons == []


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
    sweep_lessons(job_context)
    assert job_context.ledger.trajectories.get("acme", "old") is None
    assert job_context.ledger.lessons.get("acme", "old") is None
    assert job_context.ledger.trajectories.get("acme", "new") is not None
    assert job_context.ledger.lessons.get("acme", "new") is not None
    # The single application is forgotten, and stays counted.
    assert job_context.ledger.skills.expire_applications("acme", before=clock()) == 1
    assert job_context.ledger.skills.applications("acme", ["s"])["s"].applications == 2
