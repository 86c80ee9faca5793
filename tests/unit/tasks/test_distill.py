"""The distill job."""

import json
from datetime import timedelta
from typing import Any

import pytest
from support.execution_traces import trace
from support.job_contexts import ScriptedContext
from support.memories import NOW

from memcore.config.memory import CompanyMemoryConfig
from memcore.config.policy import Policy
from memcore.errors import MemoryConnectionError, MemoryStoreError
from memcore.ingest import WriteResult
from memcore.jobs import Dead, DistillPayload, Done, Retry, Skipped, Snooze
from memcore.ledger.agents import AgentSpec
from memcore.models.execution import TerminationReason
from memcore.models.memory import MemoryLevel
from tasks.distill import distill
from workers.celery_task import perform


@pytest.fixture(autouse=True)
def _persistent(job_context: ScriptedContext) -> None:
    job_context.policy = Policy(memory=CompanyMemoryConfig(level=MemoryLevel.PERSISTENT))


def payload(number: int = 1, *, trace_fields: dict[str, Any] | None = None, **changed: Any) -> str:
    made = DistillPayload(
        company="acme",
        agent_id="ada",
        trace_id=f"trace-{number}",
        trace=trace(f"t-{number}", **(trace_fields or {})),
        sent_at=NOW,
        session_id="s",
    )
    return json.dumps({**made.model_dump(mode="json"), **changed})


def left(job_context: ScriptedContext) -> tuple[int, int, int]:
    """Return how many memories, experiences and trajectories there are."""
    experiences = job_context.ledger.experiences.count("acme", "ada").total
    return len(job_context.batch_writer.taken), experiences, job_context.ledger.trajectories.count("acme")


@pytest.mark.parametrize("reason", TerminationReason)
def test_a_task_leaves_three_things_of_one_id_however_it_ended(
    job_context: ScriptedContext, reason: TerminationReason
) -> None:
    outcome = perform(distill, payload(trace_fields={"termination_reason": reason}), job_context)
    assert outcome == Done(facts={"experiences": 1, "memories": 1, "trajectories": 1})
    ((memory,),) = job_context.batch_writer.taken
    experience = job_context.ledger.experiences.get("acme", "ada", "trace-1")
    trajectory = job_context.ledger.trajectories.get("acme", "trace-1")
    assert experience is not None
    assert trajectory is not None
    assert memory.id == experience.id == trajectory.id == "trace-1"
    assert memory.created_at == experience.created_at == trajectory.ended_at == trace().ended_at
    assert (memory.task_id, memory.session_id, memory.sent_at) == ("t-1", "s", NOW)
    assert trajectory.outcome is reason


def test_a_message_that_comes_again_writes_nothing(job_context: ScriptedContext) -> None:
    perform(distill, payload(), job_context)
    assert perform(distill, payload(), job_context) == Done(facts={"known": 1})
    assert left(job_context) == (1, 1, 1)


@pytest.mark.parametrize(
    ("trouble", "outcome"),
    [(MemoryStoreError("full"), Retry), (ValueError("a bug"), ValueError)],
)
def test_what_fails_between_the_writes_is_done_again_and_counted_once(
    job_context: ScriptedContext, trouble: Exception, outcome: type
) -> None:
    job_context.batch_writer.answer = trouble
    if outcome is Retry:
        assert isinstance(perform(distill, payload(), job_context), Retry)
    else:
        with pytest.raises(ValueError, match="a bug"):
            perform(distill, payload(), job_context)
    assert left(job_context)[1:] == (1, 0)
    job_context.batch_writer.answer = 1
    assert perform(distill, payload(), job_context) == Done(facts={"experiences": 0, "memories": 1, "trajectories": 1})
    assert left(job_context)[1:] == (1, 1)


def test_a_memory_that_a_run_removed_meanwhile_stays_removed(job_context: ScriptedContext) -> None:
    job_context.batch_writer.answer = 0
    assert perform(distill, payload(), job_context) == Done(facts={"experiences": 1, "memories": 0, "trajectories": 1})


@pytest.mark.parametrize("level", [MemoryLevel.SESSION, MemoryLevel.PROJECT])
def test_of_an_agent_whose_memories_end_the_memory_alone_is_kept(
    job_context: ScriptedContext, level: MemoryLevel
) -> None:
    job_context.ledger.agents.put(AgentSpec(company="acme", agent_id="ada", level=level))
    assert perform(distill, payload(), job_context) == Done(facts={"experiences": 0, "memories": 1, "trajectories": 0})
    assert left(job_context) == (1, 0, 0)


def test_a_session_that_is_missing_leaves_a_letter_and_nothing_else(job_context: ScriptedContext) -> None:
    job_context.ledger.agents.put(AgentSpec(company="acme", agent_id="ada", level=MemoryLevel.SESSION))
    job_context.batch_writer.answer = WriteResult(refused={"trace-1": "session_id"})
    outcome = perform(distill, payload(session_id=None), job_context)
    assert isinstance(outcome, Dead)
    assert outcome.reason.startswith("session_id: is missing")
    assert left(job_context)[1:] == (0, 0)


def test_at_level_none_nothing_is_kept(job_context: ScriptedContext) -> None:
    job_context.ledger.agents.put(AgentSpec(company="acme", agent_id="ada", level=MemoryLevel.NONE))
    assert perform(distill, payload(), job_context) == Skipped(reason="level none: nothing is kept for this agent")
    assert left(job_context) == (0, 0, 0)


def test_what_breaks_a_limit_is_dead_and_named(job_context: ScriptedContext) -> None:
    broken = {**json.loads(payload())["trace"], "quality": 11}
    outcome = perform(distill, payload(trace=broken), job_context)
    assert isinstance(outcome, Dead)
    assert "trace.quality" in outcome.reason
    assert left(job_context) == (0, 0, 0)


def test_a_newer_payload_waits(job_context: ScriptedContext) -> None:
    assert isinstance(perform(distill, payload(version=99), job_context), Snooze)


def test_a_ledger_that_is_away_is_asked_again(job_context: ScriptedContext, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_args: object, **_more: object) -> bool:
        raise MemoryConnectionError("gone")

    monkeypatch.setattr(job_context.ledger.trajectories, "append", away)
    assert isinstance(perform(distill, payload(), job_context), Retry)


def test_a_trace_that_ended_in_the_future_is_dead_whoever_sent_it(job_context: ScriptedContext) -> None:
    job = json.loads(payload())
    job["trace"]["ended_at"] = (NOW + timedelta(days=400)).isoformat()
    limit = "lies more than 5 minutes ahead of the clock"
    assert perform(distill, json.dumps(job), job_context) == Dead(reason=f"trace.ended_at: {limit}")
    assert left(job_context) == (0, 0, 0)
