"""The lesson job, and how a finished task dispatches it."""

import json
from typing import Any

import pytest
from support.execution_traces import trace
from support.fake_summarizer import FakeSummarizer
from support.job_contexts import ScriptedContext
from support.memories import NOW

from memcore.config.policy import Policy
from memcore.errors import MemoryConnectionError, MemoryInputError
from memcore.jobs import Dead, Deferred, DistillPayload, Done, LessonPayload, Outcome, Retry, Snooze
from memcore.models.execution import Recovery, TerminationReason
from memcore.models.memory import MemoryLevel
from tasks.distill import distill
from tasks.learn import extract_lesson
from workers.celery_task import perform

FAILED = {"termination_reason": TerminationReason.ERROR}
RECOVERED = {"recovery": Recovery(strategy="retry", is_recovered=True)}


def payload(**changed: object) -> str:
    made = LessonPayload(company="acme", agent_id="ada", lesson_id="trace-1")
    return json.dumps({**made.model_dump(mode="json"), **changed})


def trace_payload(**more: Any) -> str:
    return DistillPayload(
        company="acme",
        agent_id="ada",
        trace_id="trace-1",
        trace=trace(**more),
        sent_at=NOW,
        session_id="s",
        project_id="p",
    ).model_dump_json()


def learning(job_context: ScriptedContext, level: str = "persistent", **procedural: object) -> None:
    job_context.model = FakeSummarizer()
    job_context.policy = Policy.model_validate({"memory": {"level": level, "procedural": procedural}})


def dispatched(job_context: ScriptedContext) -> list[LessonPayload]:
    return [LessonPayload.model_validate_json(each.payload or "") for each in job_context.dispatcher.items]


def test_the_lesson_of_the_message_is_drawn(job_context: ScriptedContext) -> None:
    asked: list[str] = []

    def answer(lesson_id: str) -> Outcome:
        asked.append(lesson_id)
        return Deferred(reason="the budget is spent")

    job_context.drawing = answer
    assert perform(extract_lesson, payload(), job_context) == Deferred(reason="the budget is spent")
    assert asked == ["trace-1"]


@pytest.mark.parametrize("changed", [{"agent_id": " "}, {"lesson_id": ""}])
def test_what_can_never_work_is_dead(job_context: ScriptedContext, changed: dict[str, object]) -> None:
    assert isinstance(perform(extract_lesson, payload(**changed), job_context), Dead)


def test_a_newer_payload_waits(job_context: ScriptedContext) -> None:
    assert isinstance(perform(extract_lesson, payload(version=99), job_context), Snooze)


@pytest.mark.parametrize(
    ("error", "outcome"), [(MemoryConnectionError("gone"), Retry), (MemoryInputError("a", "b"), Dead)]
)
def test_trouble_is_tried_again_or_given_up(
    job_context: ScriptedContext, error: Exception, outcome: type[Outcome]
) -> None:
    def fail(_lesson_id: str) -> Outcome:
        raise error

    job_context.drawing = fail
    assert isinstance(perform(extract_lesson, payload(), job_context), outcome)


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
def test_a_task_that_teaches_dispatches_its_lesson(
    job_context: ScriptedContext, kind: str, more: dict[str, object], *, teaches: bool
) -> None:
    learning(job_context, capture={"type": kind})
    outcome = perform(distill, trace_payload(**more), job_context)
    assert isinstance(outcome, Done)
    assert outcome.facts.get("lessons") == (1 if teaches else None)
    expected = [LessonPayload(company="acme", agent_id="ada", lesson_id="trace-1")] if teaches else []
    assert dispatched(job_context) == expected
    assert (job_context.ledger.lessons.get("acme", "trace-1") is not None) == teaches
    # Sent again, it dispatches nothing: the row is there, and the sweep takes care of it.
    assert perform(distill, trace_payload(**more), job_context) == Done(facts={"known": 1})
    assert dispatched(job_context) == expected


@pytest.mark.parametrize("level", [MemoryLevel.SESSION, MemoryLevel.PROJECT, MemoryLevel.NONE])
def test_what_would_outlive_a_session_or_a_project_teaches_nothing(
    job_context: ScriptedContext, level: MemoryLevel
) -> None:
    learning(job_context, level=level.value)
    perform(distill, trace_payload(**FAILED), job_context)
    assert dispatched(job_context) == []
    assert job_context.ledger.lessons.outcomes("acme") == {}


def test_where_no_lesson_could_be_drawn_none_waits(job_context: ScriptedContext) -> None:
    learning(job_context, enabled=False)
    perform(distill, trace_payload(**FAILED), job_context)
    learning(job_context)
    job_context.model = None
    perform(distill, trace_payload(**FAILED, task_id="another"), job_context)
    assert job_context.ledger.lessons.outcomes("acme") == {}


def test_a_broker_that_is_away_costs_no_task_and_no_lesson(
    job_context: ScriptedContext, caplog: pytest.LogCaptureFixture
) -> None:
    learning(job_context)
    job_context.dispatcher.error = MemoryConnectionError("gone")
    outcome = perform(distill, trace_payload(), job_context)
    assert isinstance(outcome, Done)
    assert job_context.ledger.lessons.outcomes("acme") == {None: 1}
    assert "distill.lesson_waits" in caplog.messages
