"""The fine-tune job."""

import json
from datetime import timedelta

import pytest
from support.job_contexts import ScriptedCrew
from support.ledger_records import COMPANY, StoppedClock

from memcore import ids
from memcore.finetune.service import Step
from memcore.jobs.outcomes import Dead, Done, Parked, Skipped, Snooze
from memcore.jobs.payloads import FineTunePayload
from memcore.models.finetune import FineTunePlan, FineTuneStage
from scheduler.sweep import FINETUNE_UNHEARD, sweep
from tasks.embedder import finetune

RUN_ID = ids.finetune_run_id(company=COMPANY, cause="ours")
PLAN = FineTunePlan(kind="static", epochs=2)


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


def asked(plan: object, run_id: str = RUN_ID) -> str:
    return payload(run_id=run_id, plan=plan, version=3)


def test_what_an_engine_asks_for_is_one_run_however_often_it_comes(crew: ScriptedCrew) -> None:
    runs, message = crew.ledger.finetune_runs, asked(PLAN.model_dump(mode="json"))
    crew.step = Step(outcome=Done(facts={"files": 2}), goes_on=True)
    assert finetune(message, crew) == Done(facts={"files": 2})
    assert crew.bell.finetunes == [(COMPANY, RUN_ID)]
    ((run,), total) = runs.page(COMPANY)
    assert (run.run_id, FineTunePlan.model_validate(run.plan), total) == (RUN_ID, PLAN, 1)
    assert finetune(message, crew) == Done(facts={"files": 2})
    runs.cancel(COMPANY)
    crew.step = Step(outcome=Skipped(reason="the run has ended, or another worker has it"))
    assert finetune(message, crew) == crew.step.outcome
    ((run,), total) = runs.page(COMPANY)
    assert (run.stage, total) == (FineTuneStage.CANCELLED, 1)


def test_while_another_run_has_not_ended_none_is_started_and_the_outcome_says_so(crew: ScriptedCrew) -> None:
    other = crew.ledger.finetune_runs.start(COMPANY, {}).run_id
    crew.step = Step(outcome=Done(), goes_on=True)
    outcome = finetune(asked({}), crew)
    assert isinstance(outcome, Skipped)
    assert "a run has not ended" in outcome.reason
    assert crew.bell.finetunes == []
    assert [run.run_id for run in crew.ledger.finetune_runs.page(COMPANY)[0]] == [other]


@pytest.mark.parametrize(
    ("plan", "run_id", "field"),
    [
        ({"epochs": 0}, RUN_ID, "epochs"),
        ({"base_model": "https://models"}, RUN_ID, "base_model"),
        ({"mood": "new"}, RUN_ID, "mood"),
        ({}, "../../etc", "run_id"),
        ({}, RUN_ID.upper(), "run_id"),
        ([], RUN_ID, "plan"),
    ],
)
def test_a_plan_that_breaks_a_limit_starts_nothing(crew: ScriptedCrew, plan: object, run_id: str, field: str) -> None:
    outcome = finetune(asked(plan, run_id), crew)
    assert isinstance(outcome, Dead)
    assert outcome.reason.startswith(f"{field}: "), outcome
    assert crew.ledger.finetune_runs.page(COMPANY) == ((), 0)


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
