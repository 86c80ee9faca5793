"""The fine-tune job."""

import json
from datetime import timedelta

import pytest
from crews import ScriptedCrew
from ledgers import COMPANY, StoppedClock

from memcore.finetune.run_service import Step
from memcore.jobs.finetune_payload import FineTunePayload
from memcore.jobs.outcomes import Dead, Done, Parked, Snooze
from scheduler.sweep import FINETUNE_UNHEARD, sweep
from tasks.finetune import finetune


def payload(**changed: object) -> str:
    return json.dumps({**FineTunePayload(company=COMPANY, run_id="run").model_dump(mode="json"), **changed})


def test_a_stage_that_is_not_the_last_rings_for_the_next(crew: ScriptedCrew) -> None:
    crew.step = Step(outcome=Done(facts={"files": 2}), goes_on=True)
    assert finetune(payload(), crew) == Done(facts={"files": 2})
    assert crew.bell.finetunes == [(COMPANY, "run")]


def test_what_must_wait_is_left_to_the_sweep(crew: ScriptedCrew) -> None:
    crew.step = Step(outcome=Parked(reason="maintenance is paused"))
    assert finetune(payload(), crew) == Parked(reason="maintenance is paused")
    assert crew.bell.finetunes == []


@pytest.mark.parametrize("changed", [{"company": "other"}, {"extra": 1}, {"run_id": ""}])
def test_what_can_never_work_is_dead(crew: ScriptedCrew, changed: dict[str, object]) -> None:
    assert isinstance(finetune(payload(**changed), crew), Dead)


def test_a_newer_payload_waits(crew: ScriptedCrew) -> None:
    assert isinstance(finetune(payload(version=99), crew), Snooze)


def test_a_run_whose_message_is_lost_is_rung_for_by_the_sweep(crew: ScriptedCrew, clock: StoppedClock) -> None:
    run_id = crew.ledger.finetune_runs.start(COMPANY, {}).run_id
    sweep("{}", crew)
    assert crew.bell.finetunes == []
    clock.advance(FINETUNE_UNHEARD + timedelta(seconds=1))
    sweep("{}", crew)
    sweep("{}", crew)
    assert crew.bell.finetunes == [(COMPANY, run_id)]
