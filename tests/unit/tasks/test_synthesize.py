"""The job that asks a model, and the night that sends for it."""

import json
from datetime import timedelta

import pytest
from support.job_contexts import ScriptedCrew
from support.ledger_records import StoppedClock
from support.memories import NOW

from memcore.errors import MemoryConnectionError, MemoryInputError
from memcore.jobs.outcomes import Dead, Done, Outcome, Parked, Retry, Skipped, Snooze
from memcore.jobs.payloads import MaintenancePayload, SynthesisPayload
from memcore.ledger.llm_answers import Synthesis, SynthesisState
from memcore.ledger.runs import NewRun, Run
from memcore.maintenance.consolidation.answers import Asked
from memcore.maintenance.consolidation.step import RING_AGAIN
from memcore.models.memory import MemoryCategory
from tasks.maintain import maintain, synthesize


def payload(*, company: str = "acme", place: int = 0) -> str:
    return SynthesisPayload(company=company, agent_id="ada", run_id="run-1", place=place).model_dump_json()


def queued(crew: ScriptedCrew) -> Run:
    run = crew.ledger.runs.create(NewRun(run_id="run-1", company="acme", agent_id="ada", planned_at=NOW))
    assert run is not None
    return run


def night(crew: ScriptedCrew) -> Outcome:
    message = MaintenancePayload(company="acme", agent_id="ada", run_id="run-1", planned_at=NOW)
    return maintain(message.model_dump_json(), crew)


def snoozing(crew: ScriptedCrew, clock: StoppedClock) -> None:
    """A night that writes two parts down and gives itself back."""

    def rest(run_id: str) -> Outcome:
        run = crew.ledger.runs.claim(run_id, lease=timedelta(seconds=45))
        assert run is not None
        assert run.token is not None
        crew.ledger.syntheses.plan(
            [
                Synthesis(
                    run_id=run_id,
                    place=place,
                    company="acme",
                    agent_id="ada",
                    category=MemoryCategory.SEMANTIC,
                    source_ids=("a", "b"),
                )
                for place in range(2)
            ]
        )
        until = clock() + RING_AGAIN
        crew.ledger.runs.give_back(run_id, run.token, reason="waits for a model", wake_at=until)
        return Snooze(reason="waits for a model", delay=RING_AGAIN)

    crew.night = rest


def test_a_night_that_waits_sends_a_job_for_each_part_once(crew: ScriptedCrew, clock: StoppedClock) -> None:
    queued(crew)
    snoozing(crew, clock)

    assert isinstance(night(crew), Parked)
    assert [part.place for part in crew.bell.parts] == [0, 1]
    assert isinstance(night(crew), Parked)
    assert len(crew.bell.parts) == 2, "they are under way"
    clock.advance(RING_AGAIN)
    night(crew)
    assert len(crew.bell.parts) == 4, "nothing came of them"


def test_answers_that_came_before_the_night_was_back_in_the_queue_wake_it(
    crew: ScriptedCrew, clock: StoppedClock
) -> None:
    queued(crew)
    snoozing(crew, clock)
    night(crew)
    for place in range(2):
        crew.ledger.syntheses.turn("run-1", place, SynthesisState.READY)

    night(crew)

    assert [run.run_id for run in crew.bell.rung] == ["run-1"]


def test_a_bell_that_fails_leaves_the_parts_to_be_rung_for_again(crew: ScriptedCrew, clock: StoppedClock) -> None:
    queued(crew)
    snoozing(crew, clock)
    crew.bell.error = MemoryConnectionError("no broker")

    assert isinstance(night(crew), Retry)

    assert len(crew.ledger.syntheses.to_ring("run-1")) == 2


def test_the_outcome_is_the_service_s_and_the_night_that_it_names_is_rung_for(crew: ScriptedCrew) -> None:
    run = queued(crew)
    crew.asking = lambda _run_id, place: Asked(outcome=Done(facts={"asked": place}), night=run)

    assert synthesize(payload(place=3), crew) == Done(facts={"asked": 3})
    assert crew.bell.rung == [run]


def test_no_night_no_bell(crew: ScriptedCrew) -> None:
    crew.asking = lambda _run_id, _place: Asked(outcome=Skipped(reason="nobody waits"))
    assert synthesize(payload(), crew) == Skipped(reason="nobody waits")
    assert crew.bell.rung == []


@pytest.mark.parametrize(
    ("error", "kind"), [(MemoryConnectionError("no store"), Retry), (MemoryInputError("field", "is wrong"), Dead)]
)
def test_passing_trouble_is_retried_and_other_trouble_is_dead(
    crew: ScriptedCrew, error: Exception, kind: type[Outcome]
) -> None:
    def fail(_run_id: str, _place: int) -> Asked:
        raise error

    crew.asking = fail
    assert isinstance(synthesize(payload(), crew), kind)


def test_another_company_s_job_and_a_broken_one_are_dead_and_a_newer_one_waits(crew: ScriptedCrew) -> None:
    assert isinstance(synthesize(payload(company="other"), crew), Dead)
    assert isinstance(synthesize("{", crew), Dead)
    assert isinstance(synthesize(payload().replace('"place":0', '"place":-1'), crew), Dead)
    newer = json.loads(payload()) | {"version": 9, "new": True}
    assert isinstance(synthesize(json.dumps(newer), crew), Snooze)
