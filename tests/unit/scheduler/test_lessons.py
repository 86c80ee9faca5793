"""The sweep's part in lessons: a lost message is found, and what is old goes."""

from datetime import timedelta

import pytest
from support.execution_traces import trace
from support.fake_summarizer import Oracle
from support.job_contexts import ScriptedCrew
from support.ledger_records import StoppedClock

from memcore.config.policy import Policy
from memcore.jobs.payloads import AppliedPayload, LessonPayload
from memcore.ledger.learning.trajectories import Trajectory
from scheduler import sweep as tending
from scheduler.sweep import UNDRAWN_TOO_LONG, sweep, tend_lessons


@pytest.fixture(autouse=True)
def _learning(crew: ScriptedCrew) -> None:
    crew.model = Oracle()


def rung(crew: ScriptedCrew) -> list[str]:
    return [each.lesson_id for each in crew.bell.lessons]


def test_a_lost_message_is_sent_again_until_the_lesson_is_drawn(crew: ScriptedCrew, clock: StoppedClock) -> None:
    crew.ledger.lessons.open("acme", "ada", "l-1")
    sweep("{}", crew)
    assert crew.bell.lessons == []
    clock.advance(UNDRAWN_TOO_LONG + timedelta(seconds=1))
    sweep("{}", crew)
    sweep("{}", crew)
    assert crew.bell.lessons == [LessonPayload(company="acme", agent_id="ada", lesson_id="l-1")]
    clock.advance(UNDRAWN_TOO_LONG + timedelta(seconds=1))
    crew.ledger.lessons.drawn("acme", "l-1", "stored")
    sweep("{}", crew)
    assert rung(crew) == ["l-1"]


def test_a_long_queue_is_rung_for_in_parts(
    crew: ScriptedCrew, clock: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tending, "LESSONS_RUNG", 2)
    for name in ("a", "b", "c"):
        crew.ledger.lessons.open("acme", "ada", name)
        clock.advance(timedelta(seconds=1))
    clock.advance(UNDRAWN_TOO_LONG)
    assert [tend_lessons(crew), tend_lessons(crew), tend_lessons(crew)] == [2, 1, 0]
    assert rung(crew) == ["a", "b", "c"]


@pytest.mark.parametrize("why", ["no model", "switched off", "paused"])
def test_nobody_is_rung_for_who_could_not_be_drawn(crew: ScriptedCrew, clock: StoppedClock, why: str) -> None:
    crew.ledger.lessons.open("acme", "ada", "l-1")
    clock.advance(UNDRAWN_TOO_LONG * 2)
    if why == "no model":
        crew.model = None
    elif why == "switched off":
        crew.policy = Policy.model_validate({"memory": {"procedural": {"enabled": False}}})
    else:
        crew.ledger.switches.pause("acme")
    assert tend_lessons(crew) == 0
    assert crew.bell.lessons == []


def test_what_is_older_than_the_policy_keeps_goes(crew: ScriptedCrew, clock: StoppedClock) -> None:
    crew.policy = Policy.model_validate({"memory": {"procedural": {"evolver": {"keep_days": 40}}}})

    def told(name: str) -> None:
        made = Trajectory.of(trace(ended_at=clock()), trace_id=name, agent_id="ada")
        crew.ledger.trajectories.append("acme", made, lesson_at=clock())
        applied = AppliedPayload(
            company="acme", agent_id="ada", application_id=name, skill_id="s", outcome="success", applied_at=clock()
        )
        assert crew.ledger.skills.apply(applied, skill_id="s")

    told("old")
    clock.advance(timedelta(days=1))
    told("new")
    clock.advance(timedelta(days=39, seconds=1))
    tend_lessons(crew)
    assert crew.ledger.trajectories.get("acme", "old") is None
    assert crew.ledger.lessons.get("acme", "old") is None
    assert crew.ledger.trajectories.get("acme", "new") is not None
    assert crew.ledger.lessons.get("acme", "new") is not None
    # The single application is forgotten, and stays counted.
    assert crew.ledger.skills.expire_applications("acme", before=clock()) == 1
    assert crew.ledger.skills.applications("acme", ["s"])["s"].applications == 2
