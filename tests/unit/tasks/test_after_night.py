"""What a night that is done sets off: the compression of experience, lessons passed on, and the wiki."""

import pytest
from support.experiences import experience
from support.job_contexts import ScriptedCrew

from memcore.config.maintenance import ConsolidationConfig
from memcore.config.memory import CompanyMemoryConfig
from memcore.config.policy import Policy
from memcore.errors import MemoryConnectionError, MemoryRetrievalError
from memcore.jobs.outcomes import Done, Outcome, Skipped, Snooze
from memcore.jobs.payloads import CompressPayload, MaintenancePayload
from memcore.ledger.runs import RunKind
from tasks.experience import compress
from tasks.maintain import maintain


@pytest.fixture
def crew(crew: ScriptedCrew) -> ScriptedCrew:
    """A policy that compresses, and an agent with something raw."""
    consolidation = ConsolidationConfig.model_validate({"experience_compressor": {"enabled": True}})
    crew.policy = Policy(memory=CompanyMemoryConfig(consolidation=consolidation))
    crew.ledger.experiences.append("acme", experience("e"))
    return crew


def night(crew: ScriptedCrew, *, kind: RunKind = "maintenance", undo_of: str | None = None) -> Outcome:
    payload = MaintenancePayload(
        company="acme", agent_id="ada", run_id="run", kind=kind, planned_at=crew.clock(), undo_of=undo_of
    )
    return maintain(payload.model_dump_json(), crew)


def test_a_night_that_is_done_rings_for_raw_experience_and_exports_the_wiki(crew: ScriptedCrew) -> None:
    assert isinstance(night(crew), Done)
    assert crew.bell.experience == [("acme", "ada")]
    assert crew.exported == ["ada"]


def test_with_nothing_raw_nobody_is_rung_for(crew: ScriptedCrew) -> None:
    crew.ledger.experiences.mark("acme", "ada", "e", reason="too weak")
    night(crew)
    assert (crew.bell.experience, crew.exported) == ([], ["ada"])


def test_where_experience_is_not_compressed_nobody_is_rung_for(crew: ScriptedCrew) -> None:
    crew.policy = Policy()
    night(crew)
    assert crew.bell.experience == []


def test_a_night_that_is_not_done_and_an_undo_set_nothing_off(crew: ScriptedCrew) -> None:
    night(crew, kind="undo", undo_of="other")
    for outcome in (Skipped(reason="held"), Snooze(reason="paused", delay=crew.clock() - crew.clock())):
        crew.night = lambda _run_id, outcome=outcome: outcome  # type: ignore[misc]  # one outcome at a time
        night(crew)
    assert (crew.bell.experience, crew.exported) == ([], [])


def test_a_broker_that_is_away_makes_no_night_undone(crew: ScriptedCrew) -> None:
    crew.bell.error = MemoryConnectionError("gone")
    assert isinstance(night(crew), Done)
    assert crew.exported == ["ada"]


def test_a_night_that_is_done_passes_lessons_on_and_no_other_run_does(crew: ScriptedCrew) -> None:
    told: list[str] = []

    def pass_on(agent_id: str) -> int:
        told.append(agent_id)
        return len(told)

    crew.passing_on = pass_on
    night(crew, kind="undo", undo_of="other")
    assert told == []
    night(crew)
    assert told == ["ada"]


def test_lessons_that_cannot_be_passed_on_make_no_night_undone(
    crew: ScriptedCrew, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_agent_id: str) -> int:
        raise MemoryRetrievalError("the store is away")

    crew.passing_on = refuse
    assert isinstance(night(crew), Done)
    assert "night.lessons_wait" in caplog.messages
    assert crew.exported == ["ada"]


@pytest.mark.parametrize(
    ("outcome", "exported"),
    [
        (Done(facts={"compressed": 1}), ["ada"]),
        (Done(facts={"weak": 1}), []),
        (Skipped(reason="paused"), []),
    ],
)
def test_a_compression_that_made_a_lesson_exports_the_wiki(
    crew: ScriptedCrew, outcome: Outcome, exported: list[str]
) -> None:
    crew.compressing = lambda _agent_id: outcome
    assert compress(CompressPayload(company="acme", agent_id="ada").model_dump_json(), crew) == outcome
    assert crew.exported == exported
