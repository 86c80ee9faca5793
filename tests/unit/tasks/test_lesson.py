"""The lesson job, and the bell that a finished task rings for it."""

import json
from typing import Any

import pytest
from support.execution_traces import trace
from support.fake_summarizer import Oracle
from support.job_contexts import ScriptedCrew
from support.memories import NOW

from memcore.config.policy import Policy
from memcore.errors import MemoryConnectionError, MemoryInputError
from memcore.jobs.outcomes import Dead, Done, Outcome, Parked, Retry, Snooze
from memcore.jobs.payloads import DistillPayload, LessonPayload
from memcore.models.execution import Recovery, TerminationReason
from memcore.models.memory import MemoryLevel
from tasks.distill import distill
from tasks.learn import draw

FAILED = {"termination_reason": TerminationReason.ERROR}
RECOVERED = {"recovery": Recovery(strategy="retry", is_recovered=True)}


def payload(**changed: object) -> str:
    made = LessonPayload(company="acme", agent_id="ada", lesson_id="trace-1")
    return json.dumps({**made.model_dump(mode="json"), **changed})


def told(**more: Any) -> str:
    return DistillPayload(
        company="acme",
        agent_id="ada",
        trace_id="trace-1",
        trace=trace(**more),
        sent_at=NOW,
        session_id="s",
        project_id="p",
    ).model_dump_json()


def learning(crew: ScriptedCrew, level: str = "persistent", **procedural: object) -> None:
    crew.model = Oracle()
    crew.policy = Policy.model_validate({"memory": {"level": level, "procedural": procedural}})


def test_the_lesson_of_the_message_is_drawn(crew: ScriptedCrew) -> None:
    asked: list[str] = []

    def answer(lesson_id: str) -> Outcome:
        asked.append(lesson_id)
        return Parked(reason="the budget is spent")

    crew.drawing = answer
    assert draw(payload(), crew) == Parked(reason="the budget is spent")
    assert asked == ["trace-1"]


@pytest.mark.parametrize("changed", [{"agent_id": " "}, {"company": "other"}, {"lesson_id": ""}, {"extra": 1}])
def test_what_can_never_work_is_dead(crew: ScriptedCrew, changed: dict[str, object]) -> None:
    assert isinstance(draw(payload(**changed), crew), Dead)


def test_a_newer_payload_waits(crew: ScriptedCrew) -> None:
    assert isinstance(draw(payload(version=99), crew), Snooze)


@pytest.mark.parametrize(
    ("error", "outcome"), [(MemoryConnectionError("gone"), Retry), (MemoryInputError("a", "b"), Dead)]
)
def test_trouble_is_tried_again_or_given_up(crew: ScriptedCrew, error: Exception, outcome: type[Outcome]) -> None:
    def fail(_lesson_id: str) -> Outcome:
        raise error

    crew.drawing = fail
    assert isinstance(draw(payload(), crew), outcome)


@pytest.mark.parametrize(
    ("kind", "more", "teaches"),
    [
        ("hybrid", {}, True),
        ("hybrid", FAILED, True),
        ("hybrid", RECOVERED, True),
        ("failure", {}, False),
        ("failure", FAILED, True),
        ("failure", RECOVERED, True),
        ("success", {}, True),
        ("success", FAILED, False),
        ("success", RECOVERED, False),
    ],
)
def test_a_task_that_teaches_rings_for_its_lesson(
    crew: ScriptedCrew, kind: str, more: dict[str, object], *, teaches: bool
) -> None:
    learning(crew, capture={"type": kind})
    outcome = distill(told(**more), crew)
    assert isinstance(outcome, Done)
    assert outcome.facts.get("lessons") == (1 if teaches else None)
    expected = [LessonPayload(company="acme", agent_id="ada", lesson_id="trace-1")] if teaches else []
    assert crew.bell.lessons == expected
    assert (crew.ledger.lessons.get("acme", "trace-1") is not None) == teaches
    # Told again it rings no more: the row is there, and the sweep looks after it.
    assert distill(told(**more), crew) == Done(facts={"known": 1})
    assert crew.bell.lessons == expected


@pytest.mark.parametrize("level", [MemoryLevel.SESSION, MemoryLevel.PROJECT, MemoryLevel.NONE])
def test_what_would_outlive_a_session_or_a_project_teaches_nothing(crew: ScriptedCrew, level: MemoryLevel) -> None:
    learning(crew, level=level.value)
    distill(told(**FAILED), crew)
    assert crew.bell.lessons == []
    assert crew.ledger.lessons.outcomes("acme") == {}


def test_where_no_lesson_could_be_drawn_none_waits(crew: ScriptedCrew) -> None:
    learning(crew, enabled=False)
    distill(told(**FAILED), crew)
    learning(crew)
    crew.model = None
    distill(told(**FAILED, task_id="another"), crew)
    assert crew.ledger.lessons.outcomes("acme") == {}


def test_a_broker_that_is_away_costs_no_task_and_no_lesson(
    crew: ScriptedCrew, caplog: pytest.LogCaptureFixture
) -> None:
    learning(crew)
    crew.bell.error = MemoryConnectionError("gone")
    outcome = distill(told(), crew)
    assert isinstance(outcome, Done)
    assert crew.ledger.lessons.outcomes("acme") == {None: 1}
    assert "distill.lesson_waits" in caplog.messages
