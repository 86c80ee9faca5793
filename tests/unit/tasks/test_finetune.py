"""The fine-tune job."""

import json

import pytest
from support.job_contexts import ScriptedContext
from support.ledger_records import COMPANY, StoppedClock

from memcore import ids
from memcore.jobs import Dead, Deferred, Done, FineTunePayload, Skipped, Snooze, Step
from memcore.ledger.work_items import REDISPATCH_AFTER
from memcore.models.finetune import FineTunePlan, FineTuneStage
from scheduler.sweep import sweep
from tasks.learn import finetune
from workers.celery_task import perform

RUN_ID = ids.finetune_run_id(company=COMPANY, cause="ours")
PLAN = FineTunePlan(kind="static", epochs=2)


def payload(**changed: object) -> str:
    return json.dumps({**FineTunePayload(company=COMPANY, run_id="run").model_dump(mode="json"), **changed})


def test_a_stage_that_is_not_the_last_dispatches_for_the_next(job_context: ScriptedContext) -> None:
    job_context.ledger.finetune_runs.start(COMPANY, {}, run_id="run")
    job_context.step = Step(outcome=Done(facts={"files": 2}), goes_on=True)
    assert perform(finetune, payload(), job_context) == Done(facts={"files": 2})
    (message,) = job_context.dispatcher.items
    assert FineTunePayload.model_validate_json(message.payload or "") == FineTunePayload(company=COMPANY, run_id="run")


def test_what_must_wait_is_left_to_the_sweep(job_context: ScriptedContext) -> None:
    job_context.step = Step(outcome=Deferred(reason="maintenance is paused"))
    assert perform(finetune, payload(), job_context) == Deferred(reason="maintenance is paused")
    assert job_context.dispatcher.items == []


@pytest.mark.parametrize("changed", [{"run_id": ""}])
def test_what_can_never_work_is_dead(job_context: ScriptedContext, changed: dict[str, object]) -> None:
    assert isinstance(perform(finetune, payload(**changed), job_context), Dead)


def asked(plan: object, run_id: str = RUN_ID) -> str:
    return payload(run_id=run_id, plan=plan, version=3)


def test_what_an_engine_asks_for_is_one_run_however_often_it_comes(job_context: ScriptedContext) -> None:
    runs, message = job_context.ledger.finetune_runs, asked(PLAN.model_dump(mode="json"))
    job_context.step = Step(outcome=Done(facts={"files": 2}), goes_on=True)
    assert perform(finetune, message, job_context) == Done(facts={"files": 2})
    assert job_context.dispatcher.dispatched_for(FineTunePayload) == [(COMPANY, RUN_ID)]
    ((run,), total) = runs.page(COMPANY)
    assert (run.run_id, FineTunePlan.model_validate(run.plan), total) == (RUN_ID, PLAN, 1)
    assert perform(finetune, message, job_context) == Done(facts={"files": 2})
    runs.cancel(COMPANY)
    job_context.step = Step(outcome=Skipped(reason="the run has ended, or another worker has it"))
    assert perform(finetune, message, job_context) == job_context.step.outcome
    ((run,), total) = runs.page(COMPANY)
    assert (run.stage, total) == (FineTuneStage.CANCELLED, 1)


def test_while_another_run_has_not_ended_none_is_started_and_the_outcome_says_so(job_context: ScriptedContext) -> None:
    other = job_context.ledger.finetune_runs.start(COMPANY, {}).run_id
    job_context.step = Step(outcome=Done(), goes_on=True)
    outcome = perform(finetune, asked({}), job_context)
    assert isinstance(outcome, Skipped)
    assert "a run has not ended" in outcome.reason
    assert job_context.dispatcher.items == []
    assert [run.run_id for run in job_context.ledger.finetune_runs.page(COMPANY)[0]] == [other]


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
def test_a_plan_that_breaks_a_limit_starts_nothing(
    job_context: ScriptedContext, plan: object, run_id: str, field: str
) -> None:
    outcome = perform(finetune, asked(plan, run_id), job_context)
    assert isinstance(outcome, Dead)
    assert outcome.reason.startswith(f"{field}: "), outcome
    assert job_context.ledger.finetune_runs.page(COMPANY) == ((), 0)


def test_a_newer_payload_waits(job_context: ScriptedContext) -> None:
    assert isinstance(perform(finetune, payload(version=99), job_context), Snooze)


def test_a_run_whose_message_is_lost_is_dispatched_by_the_sweep(
    job_context: ScriptedContext, clock: StoppedClock
) -> None:
    run_id = job_context.ledger.finetune_runs.start(COMPANY, {}).run_id
    perform(sweep, "{}", job_context)
    assert job_context.dispatcher.dispatched_for(FineTunePayload) == []
    clock.advance(REDISPATCH_AFTER)
    perform(sweep, "{}", job_context)
    perform(sweep, "{}", job_context)
    assert job_context.dispatcher.dispatched_for(FineTunePayload) == [(COMPANY, run_id)]
