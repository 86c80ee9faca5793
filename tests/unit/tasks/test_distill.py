"""The distill job."""

import json
from typing import Any

import pytest
from support.execution_traces import trace
from support.job_contexts import ScriptedCrew
from support.memories import NOW

from memcore.config.memory import CompanyMemoryConfig
from memcore.config.policy import Policy
from memcore.errors import MemoryConnectionError, MemoryStoreError
from memcore.ingest import Written
from memcore.jobs.outcomes import Dead, Done, Retry, Skipped, Snooze
from memcore.jobs.payloads import DistillPayload
from memcore.ledger import AgentSpec
from memcore.models.execution import TerminationReason
from memcore.models.memory import MemoryLevel
from tasks.distill import distill


@pytest.fixture(autouse=True)
def _persistent(crew: ScriptedCrew) -> None:
    crew.policy = Policy(memory=CompanyMemoryConfig(level=MemoryLevel.PERSISTENT))


def payload(number: int = 1, *, told: dict[str, Any] | None = None, **changed: Any) -> str:
    made = DistillPayload(
        company="acme",
        agent_id="ada",
        trace_id=f"trace-{number}",
        trace=trace(f"t-{number}", **(told or {})),
        sent_at=NOW,
        session_id="s",
    )
    return json.dumps({**made.model_dump(mode="json"), **changed})


def left(crew: ScriptedCrew) -> tuple[int, int, int]:
    """Return how many memories, experiences and trajectories there are."""
    experiences = crew.ledger.experiences.count("acme", "ada").total
    return len(crew.desk.taken), experiences, crew.ledger.trajectories.count("acme")


@pytest.mark.parametrize("reason", TerminationReason)
def test_a_task_leaves_three_things_of_one_id_however_it_ended(crew: ScriptedCrew, reason: TerminationReason) -> None:
    outcome = distill(payload(told={"termination_reason": reason}), crew)
    assert outcome == Done(facts={"experiences": 1, "memories": 1, "trajectories": 1})
    ((memory,),) = crew.desk.taken
    experience = crew.ledger.experiences.get("acme", "ada", "trace-1")
    trajectory = crew.ledger.trajectories.get("acme", "trace-1")
    assert experience is not None
    assert trajectory is not None
    assert memory.id == experience.id == trajectory.id == "trace-1"
    assert memory.created_at == experience.created_at == trajectory.ended_at == trace().ended_at
    assert (memory.task_id, memory.session_id, memory.sent_at) == ("t-1", "s", NOW)
    assert trajectory.outcome is reason


def test_a_message_that_comes_again_writes_nothing(crew: ScriptedCrew) -> None:
    distill(payload(), crew)
    assert distill(payload(), crew) == Done(facts={"known": 1})
    assert left(crew) == (1, 1, 1)


@pytest.mark.parametrize(
    ("trouble", "outcome"),
    [(MemoryStoreError("full"), Retry), (ValueError("a bug"), ValueError)],
)
def test_what_fails_between_the_writes_is_done_again_and_counted_once(
    crew: ScriptedCrew, trouble: Exception, outcome: type
) -> None:
    crew.desk.answer = trouble
    if outcome is Retry:
        assert isinstance(distill(payload(), crew), Retry)
    else:
        with pytest.raises(ValueError, match="a bug"):
            distill(payload(), crew)
    assert left(crew)[1:] == (1, 0)
    crew.desk.answer = 1
    assert distill(payload(), crew) == Done(facts={"experiences": 0, "memories": 1, "trajectories": 1})
    assert left(crew)[1:] == (1, 1)


def test_a_memory_that_a_night_removed_meanwhile_stays_removed(crew: ScriptedCrew) -> None:
    crew.desk.answer = 0
    assert distill(payload(), crew) == Done(facts={"experiences": 1, "memories": 0, "trajectories": 1})


@pytest.mark.parametrize("level", [MemoryLevel.SESSION, MemoryLevel.PROJECT])
def test_of_an_agent_whose_memories_end_the_memory_alone_is_kept(crew: ScriptedCrew, level: MemoryLevel) -> None:
    crew.ledger.agents.put(AgentSpec(company="acme", agent_id="ada", level=level))
    assert distill(payload(), crew) == Done(facts={"experiences": 0, "memories": 1, "trajectories": 0})
    assert left(crew) == (1, 0, 0)


def test_a_session_that_is_missing_leaves_a_letter_and_nothing_else(crew: ScriptedCrew) -> None:
    crew.ledger.agents.put(AgentSpec(company="acme", agent_id="ada", level=MemoryLevel.SESSION))
    crew.desk.answer = Written(refused={"trace-1": "session_id"})
    outcome = distill(payload(session_id=None), crew)
    assert isinstance(outcome, Dead)
    assert outcome.reason.startswith("session_id: is missing")
    assert left(crew)[1:] == (0, 0)


def test_at_level_none_nothing_is_kept(crew: ScriptedCrew) -> None:
    crew.ledger.agents.put(AgentSpec(company="acme", agent_id="ada", level=MemoryLevel.NONE))
    assert distill(payload(), crew) == Skipped(reason="level none: nothing is kept for this agent")
    assert left(crew) == (0, 0, 0)


def test_what_breaks_a_limit_is_dead_and_named(crew: ScriptedCrew) -> None:
    broken = {**json.loads(payload())["trace"], "quality": 11}
    outcome = distill(payload(trace=broken), crew)
    assert isinstance(outcome, Dead)
    assert "trace.quality" in outcome.reason
    assert left(crew) == (0, 0, 0)


def test_another_companys_is_dead(crew: ScriptedCrew) -> None:
    assert distill(payload(company="globex"), crew) == Dead(reason="company: this worker serves another company")


def test_a_newer_payload_waits(crew: ScriptedCrew) -> None:
    assert isinstance(distill(payload(version=99), crew), Snooze)


def test_a_ledger_that_is_away_is_asked_again(crew: ScriptedCrew, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_args: object, **_more: object) -> bool:
        raise MemoryConnectionError("gone")

    monkeypatch.setattr(crew.ledger.trajectories, "append", away)
    assert isinstance(distill(payload(), crew), Retry)
