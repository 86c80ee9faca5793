"""The experience job."""

import json
from typing import Any

import pytest
from support.experiences import experience
from support.job_contexts import ScriptedContext

from memcore.config.memory import CompanyMemoryConfig
from memcore.config.policy import Policy
from memcore.errors import MemoryConnectionError
from memcore.jobs import MAX_PAYLOAD_BYTES, Dead, Done, ExperiencePayload, Retry, Skipped, Snooze
from memcore.ledger.agents import AgentSpec
from memcore.models.memory import MemoryLevel
from tasks.learn import record
from workers.celery_task import perform


@pytest.fixture(autouse=True)
def _persistent(job_context: ScriptedContext) -> None:
    job_context.policy = Policy(memory=CompanyMemoryConfig(level=MemoryLevel.PERSISTENT))


def payload(**changed: Any) -> str:
    fields = ExperiencePayload(company="acme", experience=experience("e")).model_dump(mode="json")
    return json.dumps({**fields, **changed})


def experience_payload(**changed: Any) -> str:
    made = ExperiencePayload(company="acme", experience=experience("e")).model_dump(mode="json")["experience"]
    return payload(experience={**made, **changed})


def test_an_experience_is_kept_once_however_often_its_message_comes(job_context: ScriptedContext) -> None:
    assert perform(record, payload(), job_context) == Done(facts={"recorded": 1, "known": 0})
    assert perform(record, payload(), job_context) == Done(facts={"recorded": 0, "known": 1})
    assert job_context.ledger.experiences.page("acme", "ada") == (experience("e"),)


def test_the_agent_is_known_so_that_a_run_comes(job_context: ScriptedContext) -> None:
    perform(record, payload(), job_context)
    known = job_context.ledger.agents.get("acme", "ada")
    assert known is not None
    assert known.next_due_at is not None


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"id": "x" * 257}, "id: must have at most 256 characters"),
        ({"agent_id": "a\0"}, "agent_id: must not contain the character NUL"),
        ({"source_task_id": "t" * 257}, "source_task_id: must have at most 256 characters"),
        ({"agent_id": "__a"}, "agent_id: must not begin with '__'; such ids are reserved"),
        (
            {"metadata": {"tags": ["detailed_experience", "a\x1b"]}},
            "metadata: tags must not contain the control",
        ),
        ({"output": " "}, "experience.output: must not be blank"),
        ({"metadata": {"tags": []}}, "metadata.tags: must contain 'detailed_experience'"),
        ({"output": "x" * MAX_PAYLOAD_BYTES}, "the limit is 1048576"),
    ],
)
def test_what_breaks_a_limit_is_dead_and_named(
    job_context: ScriptedContext, changed: dict[str, Any], reason: str
) -> None:
    outcome = perform(record, experience_payload(**changed), job_context)
    assert isinstance(outcome, Dead)
    assert reason in outcome.reason
    assert job_context.ledger.experiences.page("acme", "ada") == ()


def test_a_newer_payload_waits(job_context: ScriptedContext) -> None:
    assert isinstance(perform(record, payload(version=99), job_context), Snooze)


@pytest.mark.parametrize("level", [MemoryLevel.SESSION, MemoryLevel.PROJECT])
def test_what_would_outlive_its_session_or_project_is_refused_until_somebody_sets_another_level(
    job_context: ScriptedContext, level: MemoryLevel
) -> None:
    job_context.policy = Policy(memory=CompanyMemoryConfig(level=level))
    outcome = perform(record, payload(), job_context)
    assert isinstance(outcome, Dead)
    assert f"is of level {level}" in outcome.reason
    assert not job_context.ledger.experiences.has_raw("acme", "ada")

    job_context.ledger.agents.put(AgentSpec(company="acme", agent_id="ada", level=MemoryLevel.PERSISTENT))
    assert isinstance(perform(record, payload(), job_context), Done)


def test_at_level_none_nothing_is_kept(job_context: ScriptedContext) -> None:
    job_context.ledger.agents.put(AgentSpec(company="acme", agent_id="ada", level=MemoryLevel.NONE))
    assert perform(record, payload(), job_context) == Skipped(reason="level none: nothing is kept for this agent")
    assert not job_context.ledger.experiences.has_raw("acme", "ada")


def test_a_ledger_that_is_away_is_asked_again(job_context: ScriptedContext, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_args: object) -> bool:
        raise MemoryConnectionError("gone")

    monkeypatch.setattr(job_context.ledger.experiences, "append", away)
    assert isinstance(perform(record, payload(), job_context), Retry)
